package jobserver

// What this test would catch: two probes of one circuit at once, a job that is let
// through while it is open, a circuit that stays open though its probe succeeded.

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// Sixteen workers ask over and over while an endpoint fails and recovers. Each
// time it is open and its cooldown is over, one of them gets one job.
func TestOneProbeForManyClaimers(t *testing.T) {
	const workers, rounds = 16, 10
	clock := newClock()
	s := opened(t, open(t, clock.options()), Config{
		Queues: map[string]Queue{"q": {Lease: time.Hour, Timeout: 2 * time.Hour}},
		Endpoints: map[string]Endpoint{"e": {
			Circuit: &circuit.Settings{Failures: 3, Cooldown: time.Minute}, Retry: job.Overlay{MaxAttempts: new(50), Initial: new(time.Duration(0)), MaxDelay: new(time.Duration(0))},
		}},
	})
	for range 2 * workers {
		create(t, s, New{Queue: "q", Task: "t", Endpoint: "e", Payload: []byte("1")})
	}
	// all lets every worker ask once, at the same moment, for many.
	all := func() (got []store.Claimed) {
		var mu sync.Mutex
		var asking sync.WaitGroup
		for i := range workers {
			asking.Go(func() {
				c, err := s.Claim(t.Context(), Want{Worker: fmt.Sprintf("worker-%02d", i), Queues: []string{"q"}, Max: 5})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, c.Jobs...)
			})
		}
		asking.Wait()
		return got
	}
	fail := func(c store.Claimed) store.Report {
		return store.Report{Type: store.Fail, Lease: c.Lease, Error: &job.Error{Message: "503"}}
	}
	state := func() store.CircuitState {
		c, err := s.store.Circuit(t.Context(), "e")
		must(t, err)
		return c
	}
	for round := range rounds {
		before := all()
		if len(before) != 2*workers {
			t.Fatalf("round %d: closed, and %d of %d were claimed", round, len(before), 2*workers)
		}
		for _, c := range before {
			report(t, s, fail(c))
		}
		if c := state(); c.State != circuit.Open {
			t.Fatalf("round %d: %+v", round, c)
		}
		if got := all(); len(got) != 0 {
			t.Fatalf("round %d: %d were let through while it is open", round, len(got))
		}
		for _, heals := range []bool{false, true} { // the first probe fails
			clock.step(61 * time.Second)
			probe := all()
			if len(probe) != 1 {
				t.Fatalf("round %d: %d probes", round, len(probe))
			}
			if more := all(); len(more) != 0 {
				t.Fatalf("round %d: %d beside the probe", round, len(more))
			}
			if heals {
				create(t, s, New{Queue: "q", Task: "t", Endpoint: "e", Payload: []byte("1")})
				report(t, s, store.Report{Type: store.Complete, Lease: probe[0].Lease})
			} else {
				report(t, s, fail(probe[0]))
			}
		}
		if c := state(); c.State != circuit.Closed || c.Failures != 0 {
			t.Fatalf("round %d: healed, and it is %+v", round, c)
		}
	}
}
