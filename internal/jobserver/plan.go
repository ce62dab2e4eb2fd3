package jobserver

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
)

// Plan is how a job of a task is worked in a queue, as far as a configuration says
// it: what a job that is created then keeps.
type Plan struct {
	Queue    string
	Task     lane.Task
	Endpoint string // "" for none
	// Contract says that the configuration has one of the task's version.
	Contract bool
	Policy   job.Snapshot
	// Lease is how long a worker may be silent; LeaseFrom is the level that says it.
	Lease     time.Duration
	LeaseFrom job.Level
	// Timeout bounds an attempt; TimeoutFrom is the level that says it.
	Timeout     time.Duration
	TimeoutFrom job.Level
	// Circuit is the endpoint's; nil without an endpoint.
	Circuit *circuit.Settings
}

// Plan says how a job would be worked that is created in the queue, of the task
// with the version, or with the one that a job gets where it names none, for the
// endpoint where it names one. Names that are none, and a queue that the
// configuration does not have, are errors.
func (c Config) Plan(queue string, name lane.Task, endpoint string) (Plan, error) {
	c, err := c.checked()
	if err != nil {
		return Plan{}, err
	}
	s := build(c, definitions{})
	q, bad := s.find(queue, Principal{})
	if bad != "" {
		return Plan{}, errors.New(bad)
	}
	p := Plan{Queue: queue, Task: name, Endpoint: endpoint, Lease: q.Lease, LeaseFrom: job.LevelQueue}
	if p.Task.Version == "" {
		p.Task.Version = s.version(name.Name)
	}
	for _, said := range [][2]string{{"task", p.Task.Name}, {"version", p.Task.Version}, {"endpoint", cmp.Or(endpoint, "none")}} {
		if bad := job.BadName(said[1]); bad != "" {
			return Plan{}, fmt.Errorf("the %s %s", said[0], bad)
		}
	}
	t := s.tasks[p.Task]
	if t == nil && s.hasOther(p.Task) {
		return Plan{}, fmt.Errorf("the configuration has the task %q, but not its version %q", name.Name, name.Version)
	}
	p.Contract = t != nil
	if t != nil && p.Endpoint == "" {
		p.Endpoint = t.Endpoint
	}
	e := s.endpoints[p.Endpoint]
	p.Policy = s.policy(q, t, e, job.Overlay{})
	p.Timeout, p.TimeoutFrom = timeoutOf(q, t)
	// A queue that says the default says nothing.
	if p.TimeoutFrom == job.LevelQueue && p.Timeout == DefaultTimeout {
		p.TimeoutFrom = job.LevelBuiltIn
	}
	if p.Lease == DefaultLease {
		p.LeaseFrom = job.LevelBuiltIn
	}
	if p.Endpoint != "" {
		p.Circuit = new(circuit.Defaults())
		if e != nil {
			p.Circuit = e.Circuit
		}
	}
	return p, nil
}

// hasOther reports whether another version of the task has a contract.
func (s *settings) hasOther(name lane.Task) bool {
	_, there := s.latest[name.Name]
	return there && s.tasks[name] == nil
}

// timeoutOf is the timeout of a job that says none, and the level that says it. A
// nil task has no contract.
func timeoutOf(q *queue, t *task) (time.Duration, job.Level) {
	if t != nil && t.Timeout != 0 {
		return t.Timeout, job.LevelTask
	}
	return q.Timeout, job.LevelQueue
}
