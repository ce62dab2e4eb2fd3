package metamorphic

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// cancel ends a job for good. Its attempt, where one runs, keeps its lease.
func (m *model) cancel(j *modelJob, by string) error {
	switch {
	case j.Status == job.Cancelled:
		return nil
	case j.Status.Finished():
		return store.ErrStatus
	case j.Status == job.Running:
		m.met["cancels of a running job"]++
	}
	j.Status, j.FinishedAt, j.canceller = job.Cancelled, m.now, by
	m.tell(store.JobCancelled, j, modelEvent{Told: Told{Attempt: j.Attempt, By: by}})
	m.over(j)
	return nil
}

// retry queues a dead letter again.
func (m *model) retry(j *modelJob, by string, u store.Uncertainty) error {
	switch {
	case j.Status != job.Failed:
		return store.ErrStatus
	case j.Reason == job.ReasonUncertain && u != store.AcceptUncertain:
		return store.ErrUncertain
	}
	if j.Unique != "" {
		if m.unique[uniqueOf(j)] != "" {
			m.met["retries that clash"]++
			return store.ErrStatus
		}
		m.unique[uniqueOf(j)] = j.ID
	}
	note := fmt.Sprintf("it was a dead letter, %s, until %s retried it", j.Reason, by)
	if j.Reason == "" {
		note = fmt.Sprintf("it was a check that failed, until %s retried it", by)
	}
	a := &j.Attempts[len(j.Attempts)-1]
	a.Note, a.NextRunAt = joined(a.Note, note), m.now
	m.tell(store.JobRetried, j, modelEvent{Told: Told{Attempt: j.Attempt, Reason: j.Reason, RunAt: m.now, By: by}})
	j.Status, j.Reason, j.FinishedAt, j.Counts, j.RunAt, j.Result = job.Queued, "", time.Time{}, job.Counts{}, m.now, nil
	return nil
}

// delete removes a job that no worker has.
func (m *model) delete(j *modelJob, by string) error {
	if j.lease != nil {
		if j.Status == job.Cancelled {
			m.met["deletes of a cancelled job with a worker"]++
		}
		return store.ErrStatus
	}
	m.tell(store.JobDeleted, j, modelEvent{Told: Told{By: by, State: string(j.Status)}})
	if m.brought[j.ID] != "" {
		m.met["deletes of a job that a replay brought back"]++
	}
	j.Status = job.Cancelled // for who counts how it ended
	m.over(j)
	m.remove(j)
	return nil
}

func uniqueOf(j *modelJob) modelUnique { return modelUnique{j.Queue, j.Task, j.Unique} }
