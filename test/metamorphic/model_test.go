package metamorphic

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// model is what a store should be. Ids and tokens are the store's: it is told
// what they are. Each subject has a file of its own.
type model struct {
	now    time.Time
	jobs   map[string]*modelJob
	order  []string // ids as they were created
	serial int      // of the newest job
	keys   map[string]modelKey
	unique map[modelUnique]string // the job that is not finished and says so
	tokens map[string]*modelToken

	gates    map[lane.Gate]store.Pause
	limits   map[lane.Gate]store.Limits
	circuits map[string]*modelCircuit // by endpoint

	replays map[string]*modelReplay
	brought map[string]string // the replay that brought a job back

	wanted  map[store.EventType]bool
	events  []modelEvent // that are kept
	event   int64        // the newest id
	gone    int64        // the newest that is not kept any more
	cursors map[string]int64

	// What the rules of graces look at: the last sweep, report and grace.
	tick, heard, graced time.Time
	opened              int // leases that were lengthened by an open
	// met counts what happened in the model that no answer tells.
	met happened
}

type modelKey struct {
	id   string
	hash [32]byte
}

type modelUnique struct{ queue, task, key string }

type modelJob struct {
	job.Job // as a read returns it
	serial  int
	lease   *modelLease
	logs    map[int]map[int64]job.LogLine // by attempt and seq
	// handBacks are the relay's in a row that one attempt stands for.
	handBacks int
	canceller string
}

type modelLease struct {
	token                   string
	worker, caller, claim   string
	length, timeout         time.Duration
	claimed, started, heard time.Time
	until, deadline         time.Time
	// generation and probe are of the endpoint's circuit when it was claimed.
	generation int64
	probe      bool
}

func (l *modelLease) end() time.Time {
	if l.deadline.Before(l.until) {
		return l.deadline
	}
	return l.until
}

// modelToken is a token that was given out, and what settled it.
type modelToken struct {
	id      string
	attempt int
	settled bool
	hash    [32]byte
	answer  store.Answer
}

func newModel() *model {
	return &model{
		jobs: map[string]*modelJob{}, keys: map[string]modelKey{}, unique: map[modelUnique]string{}, tokens: map[string]*modelToken{},
		gates: map[lane.Gate]store.Pause{}, limits: map[lane.Gate]store.Limits{}, circuits: map[string]*modelCircuit{},
		replays: map[string]*modelReplay{}, brought: map[string]string{},
		wanted: map[store.EventType]bool{}, cursors: map[string]int64{}, met: happened{},
	}
}

func laneOf(j *job.Job) lane.Key {
	return lane.Key{
		Queue: j.Queue, Task: j.Task, Version: j.Version, Endpoint: j.Endpoint, Priority: j.Priority, Synthetic: j.Kind == job.Synthetic,
	}
}

// inOrder are the jobs that a rule chooses, oldest first.
func (m *model) inOrder(chosen func(*modelJob) bool) (jobs []*modelJob) {
	for _, id := range m.order {
		if j := m.jobs[id]; chosen(j) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// running are the jobs under a lease, cancelled ones too.
func (m *model) running() []*modelJob {
	return m.inOrder(func(j *modelJob) bool { return j.lease != nil })
}

// byEnd are the jobs under a lease in the order in which those end.
func (m *model) byEnd() []*modelJob {
	jobs := m.running()
	slices.SortStableFunc(jobs, func(a, b *modelJob) int { return a.lease.end().Compare(b.lease.end()) })
	return jobs
}

// remove forgets a job with all that belongs to it.
func (m *model) remove(j *modelJob) {
	delete(m.jobs, j.ID)
	m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == j.ID })
	maps.DeleteFunc(m.keys, func(_ string, k modelKey) bool { return k.id == j.ID })
	maps.DeleteFunc(m.tokens, func(_ string, t *modelToken) bool { return t.id == j.ID })
}

// retain removes finished jobs, and events, that were kept long enough. A job that
// was cancelled under a worker is kept from the end of its attempt on.
func (m *model) retain(r store.Retention) (removed int) {
	for _, j := range m.inOrder(func(j *modelJob) bool { return j.Status.Finished() && j.lease == nil }) {
		kept, ended := r.Finished, j.FinishedAt
		if j.Status == job.Failed && j.Reason != "" {
			kept = r.DeadLetters
		}
		for _, a := range j.Attempts {
			if a.EndedAt.After(ended) {
				ended = a.EndedAt
			}
		}
		if !ended.After(m.now.Add(-kept)) {
			removed++
			m.remove(j)
		}
	}
	m.events = slices.DeleteFunc(m.events, func(e modelEvent) bool {
		old := !e.At.After(m.now.Add(-r.Events))
		if old {
			m.gone = e.ID
		}
		return old
	})
	return removed
}

// counts are what a store keeps of each lane.
func (m *model) counts() map[lane.Key]store.LaneCount {
	counts := map[lane.Key]store.LaneCount{}
	for _, j := range m.jobs {
		c := counts[laneOf(&j.Job)]
		c.Lane = laneOf(&j.Job)
		switch j.Status {
		case job.Queued:
			c.Ready++
		case job.Running:
			c.Running++
		case job.Succeeded:
			c.Succeeded++
		case job.Failed:
			c.Failed++
		case job.Cancelled:
			c.Cancelled++
		}
		counts[c.Lane] = c
	}
	return counts
}

// sorted are the keys of a map in their order.
func sorted[K cmp.Ordered, V any](of map[K]V) []K { return slices.Sorted(maps.Keys(of)) }
