package jobserver

// What these tests would catch: a policy on paper that is not the policy of the job.

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

func TestAPlanIsWhatAJobGets(t *testing.T) {
	c := Config{
		Project: job.Overlay{MaxAttempts: new(6)},
		Queues: map[string]Queue{
			"said":  {Timeout: 2 * time.Minute, Lease: time.Minute, Retry: job.Overlay{Initial: new(30 * time.Second)}},
			"plain": {},
		},
		Endpoints: map[string]Endpoint{"mailer": {Retry: job.Overlay{MaxDelay: new(10 * time.Minute)}, Circuit: &circuit.Settings{Failures: 9}}},
		Tasks: map[lane.Task]Task{
			{Name: "send", Version: "1"}:  {Endpoint: "mailer", Timeout: time.Minute, Retry: job.Overlay{MaxAttempts: new(5)}},
			{Name: "send", Version: "10"}: {Repeat: job.RepeatUnsafe, Input: []byte("true")},
		},
	}
	s := opened(t, open(t, sqlite.Options{}), c)
	for queue := range c.Queues {
		for _, version := range []string{"", "1", "10"} {
			for _, task := range []string{"send", "other"} {
				for _, endpoint := range []string{"", "mailer", "unsaid"} {
					p, err := c.Plan(queue, lane.Task{Name: task, Version: version}, endpoint)
					must(t, err)
					made, err := s.Job(t.Context(), create(t, s, New{Queue: queue, Task: task, Version: version, Endpoint: endpoint, Payload: []byte("1")}).ID)
					must(t, err)
					got := Plan{Queue: made.Queue, Task: lane.Task{Name: made.Task, Version: made.Version}, Endpoint: made.Endpoint, Policy: made.Policy, Timeout: made.Timeout}
					want := p
					want.Contract, want.Lease, want.LeaseFrom, want.TimeoutFrom, want.Circuit = false, 0, "", "", nil
					if diff := cmp.Diff(got, want); diff != "" {
						t.Errorf("%s %s@%s at %q (-job +plan):\n%s", queue, task, version, endpoint, diff)
					}
					leased := claim(t, s, Want{Queues: []string{queue}})[0]
					if leased.LeaseFor != p.Lease {
						t.Errorf("%s: a lease of %v, planned %v", queue, leased.LeaseFor, p.Lease)
					}
				}
			}
		}
	}
	for queue, want := range map[string][2]job.Level{"said": {job.LevelQueue, job.LevelQueue}, "plain": {job.LevelBuiltIn, job.LevelBuiltIn}} {
		p, err := c.Plan(queue, lane.Task{Name: "other"}, "mailer")
		must(t, err)
		if got := [2]job.Level{p.TimeoutFrom, p.LeaseFrom}; got != want || p.Circuit.Failures != 9 || p.Circuit.Cooldown != circuit.Defaults().Cooldown {
			t.Errorf("%s: %v, circuit %+v", queue, got, p.Circuit)
		}
	}
}
