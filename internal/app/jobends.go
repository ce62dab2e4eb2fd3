package app

import (
	"sync"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// jobEnds counts the jobs that came to their end, by the queues that have metrics
// of their own at that moment: a count never moves from one name to another. It is
// safe for concurrent use.
type jobEnds struct {
	mu     sync.Mutex
	named  map[string]bool
	counts map[string]map[job.Status]int64
}

func newJobEnds(c *config.Config) *jobEnds {
	e := &jobEnds{counts: map[string]map[job.Status]int64{}}
	e.configure(c)
	return e
}

// configure puts the names of a configuration in force. What was counted under
// others stays, so that no counter goes back.
func (e *jobEnds) configure(c *config.Config) {
	named := namedQueues(c)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.named = named
	for name := range named {
		e.of(name)
	}
	e.of(telemetry.OtherQueues) // from 0 on: a counter that comes into being at 1 has not risen
}

// of returns the counts of a name. The caller has the lock.
func (e *jobEnds) of(name string) map[job.Status]int64 {
	if e.counts[name] == nil {
		e.counts[name] = map[job.Status]int64{}
	}
	return e.counts[name]
}

// add counts what a transaction of the store ended.
func (e *jobEnds) add(ends []store.Finished) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range ends {
		name := f.Queue
		if !e.named[name] {
			name = telemetry.OtherQueues
		}
		e.of(name)[f.Status] += f.Jobs
	}
}

// read returns a copy of the counts.
func (e *jobEnds) read() map[string]map[job.Status]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[string]map[job.Status]int64, len(e.counts))
	for name, n := range e.counts {
		all[name] = map[job.Status]int64{}
		for status, jobs := range n {
			all[name][status] = jobs
		}
	}
	return all
}

// namedQueues are the queues that have metrics of their own: those that the
// configuration names, and those of its stored sources. Others count as one,
// since their number has no bound.
func namedQueues(c *config.Config) map[string]bool {
	named := map[string]bool{}
	for name := range c.Jobs.Queues {
		named[name] = true
	}
	for i := range c.Sources {
		if c.Sources[i].Ack == config.AckStored {
			named[config.RelayQueue(c.Sources[i].Name)] = true
		}
	}
	return named
}
