package metamorphic

import (
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// plan says what Create does with each job: an id that is there, the number of an
// earlier job of the call, or a new one; or that it fails.
type plan struct {
	found string
	same  int // −1 for none
}

// planCreate plans by the idempotency keys first, for a conflict makes nothing, and
// by the unique ones then.
func (m *model) planCreate(jobs []store.NewJob) ([]plan, *store.ConflictError) {
	plans, twins, conflict := m.planKeys(jobs)
	if conflict != nil {
		return nil, conflict
	}
	first := map[modelUnique]int{}
	for i, n := range jobs {
		if k, twice := twins[i]; twice {
			if plans[i] = plans[k]; plans[k] == (plan{same: -1}) {
				plans[i].same = k
			}
			continue
		}
		u := modelUnique{n.Queue, n.Task, n.Unique}
		if plans[i].found != "" || n.Unique == "" {
			continue
		}
		if id := m.unique[u]; id != "" {
			plans[i].found = id
			m.met["unique clashes"]++
		} else if k, twice := first[u]; twice {
			plans[i].same = k
			m.met["unique clashes"]++
		} else {
			first[u] = i
		}
	}
	return plans, nil
}

// planKeys plans by the idempotency keys. twins are the jobs that have the key of
// an earlier one of the call.
func (m *model) planKeys(jobs []store.NewJob) (plans []plan, twins map[int]int, _ *store.ConflictError) {
	first := map[string]int{}
	plans, twins = make([]plan, len(jobs)), map[int]int{}
	for i, n := range jobs {
		plans[i].same = -1
		if n.Key == "" {
			continue
		}
		if k, twice := first[n.Key]; twice {
			if jobs[k].Hash != n.Hash {
				if there := plans[k].found; there != "" {
					return nil, nil, &store.ConflictError{Index: i, Key: n.Key, ID: there}
				}
				return nil, nil, &store.ConflictError{Index: i, Key: n.Key, Twin: &k}
			}
			twins[i] = k
			continue
		}
		first[n.Key] = i
		if there, ok := m.keys[n.Key]; ok {
			if there.hash != n.Hash {
				return nil, nil, &store.ConflictError{Index: i, Key: n.Key, ID: there.id}
			}
			plans[i].found = there.id
		}
	}
	return plans, twins, nil
}

// add makes a job under the id that the store gave it.
func (m *model) add(id string, n store.NewJob) *modelJob {
	due := m.now
	if !n.RunAt.IsZero() && n.RunAt.After(due) {
		due = n.RunAt
	} else if n.RunAt.IsZero() {
		due = due.Add(n.Delay)
	}
	m.serial++
	j := &modelJob{
		Job: job.Job{
			ID: id, Queue: n.Queue, Task: n.Task, Version: n.Version, Endpoint: n.Endpoint, Priority: n.Priority, Content: n.Content,
			Tags: n.Tags, Trace: n.Trace, Policy: n.Policy, Timeout: n.Timeout, Kind: n.Kind, Unique: n.Unique,
			CreatedAt: m.now, RunAt: due, Status: job.Queued,
		},
		serial: m.serial,
		logs:   map[int]map[int64]job.LogLine{},
	}
	m.jobs[id], m.order = j, append(m.order, id)
	if n.Key != "" {
		m.keys[n.Key] = modelKey{id, n.Hash}
	}
	if n.Unique != "" {
		m.unique[modelUnique{n.Queue, n.Task, n.Unique}] = id
	}
	m.tell(store.JobCreated, j, modelEvent{Told: Told{RunAt: due}})
	return j
}
