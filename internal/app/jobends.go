package app

import (
	"maps"
	"sync"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// queueNames says which queues have metrics of their own: those that the
// configuration names, those of its stored sources, and the first that the API
// names, up to telemetry.MaxQueueNames in all. The rest is telemetry.OtherQueues. It
// is safe for concurrent use.
type queueNames struct {
	mu         sync.Mutex
	configured map[string]bool
	defined    func(queue string) bool // nil for none; it neither waits nor asks the store
	given      map[string]bool         // every name that ever was a label: its series are there until a restart
}

// configure puts the names of a configuration in force.
func (n *queueNames) configure(c *config.Config) {
	configured := configuredQueues(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.configured = configured
	if n.given == nil {
		n.given = map[string]bool{}
	}
	maps.Copy(n.given, configured)
}

// ask says who knows the queues that the API names.
func (n *queueNames) ask(defined func(queue string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.defined = defined
}

// label is what a queue's metrics say of its name.
func (n *queueNames) label(queue string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.configured[queue]:
		return queue
	case n.defined == nil || !n.defined(queue):
		return telemetry.OtherQueues
	case !n.given[queue] && len(n.given) >= telemetry.MaxQueueNames:
		return telemetry.OtherQueues
	}
	n.given[queue] = true
	return queue
}

// labels returns the labels of now: the names of the configuration, and as many of
// the defined ones as may be, the first of the list first.
func (n *queueNames) labels(defined []string) map[string]bool {
	n.mu.Lock()
	all := maps.Clone(n.configured)
	n.mu.Unlock()
	for _, name := range defined {
		if n.label(name) == name {
			all[name] = true
		}
	}
	return all
}

// all returns every name that ever was a label.
func (n *queueNames) all() map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.given)
}

// jobEnds counts the jobs that came to their end, by the label that their queue had
// at that moment: a count never moves from one to another. It is safe for concurrent
// use.
type jobEnds struct {
	names *queueNames

	mu     sync.Mutex
	counts map[string]map[job.Status]int64
}

func newJobEnds(names *queueNames) *jobEnds {
	return &jobEnds{names: names, counts: map[string]map[job.Status]int64{}}
}

// add counts what a transaction of the store ended.
func (e *jobEnds) add(ends []store.Finished) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range ends {
		name := e.names.label(f.Queue)
		if e.counts[name] == nil {
			e.counts[name] = map[job.Status]int64{}
		}
		e.counts[name][f.Status] += f.Jobs
	}
}

// read returns a copy of the counts. Labels under which nothing ended yet count from
// 0 on, for a counter that comes into being at 1 has not risen; those that are none
// any more stay, so that no counter goes back.
func (e *jobEnds) read() map[string]map[job.Status]int64 {
	all := map[string]map[job.Status]int64{telemetry.OtherQueues: {}}
	for name := range e.names.all() {
		all[name] = map[job.Status]int64{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, n := range e.counts {
		all[name] = maps.Clone(n)
	}
	return all
}

// configuredQueues are those that the configuration names, and those of its stored
// sources.
func configuredQueues(c *config.Config) map[string]bool {
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
