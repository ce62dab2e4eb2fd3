package metamorphic

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// end ends the running attempt. r is nil where no report did.
func (m *model) end(j *modelJob, o job.Outcome, r *store.Report) {
	a := &j.Attempts[len(j.Attempts)-1]
	l := j.lease
	j.lease = nil
	m.judged(j, l, o, r)
	a.EndedAt, a.Outcome = m.now, o
	if r != nil {
		a.Note, a.Error = r.Note, r.Error
	}
	switch o {
	case job.OutcomeSucceeded, job.OutcomeFailed, job.OutcomeTimedOut:
		a.Charged = true
		j.Counts.Charged++
		j.Counts.LostInRow = 0
	case job.OutcomeReleased:
		j.Counts.LostInRow = 0
		m.drop(j, a.Number-100)
	case job.OutcomeLost:
		j.Counts.Lost++
		j.Counts.LostInRow++
	case job.OutcomeUnreceived:
		j.Counts.Unreceived++
	case job.OutcomeCancelled:
		a.Note = joined(a.Note, "the job was cancelled by "+j.canceller)
	}
	m.join(j)
}

// drop removes an attempt that was handed back long ago.
func (m *model) drop(j *modelJob, number int) {
	i := slices.IndexFunc(j.Attempts, func(a job.Attempt) bool { return a.Number == number && a.Outcome == job.OutcomeReleased })
	if i >= 0 {
		j.Attempts = slices.Delete(j.Attempts, i, i+1)
		m.unsettle(j, number)
	}
}

// unsettle forgets what settled an attempt that is kept no longer.
func (m *model) unsettle(j *modelJob, number int) {
	for _, t := range m.tokens {
		if t.id == j.ID && t.attempt == number {
			t.settled = false
		}
	}
}

// handedBack reports whether the relay handed an attempt back.
func handedBack(a job.Attempt) bool {
	return a.Outcome == job.OutcomeReleased && strings.HasPrefix(a.Worker, "relay:")
}

// join leaves the newest of two hand-backs in a row, where nothing was logged in
// the older one.
func (m *model) join(j *modelJob) {
	last := len(j.Attempts) - 1
	if !handedBack(j.Attempts[last]) {
		j.handBacks = 0
		return
	}
	j.handBacks++
	if last == 0 || !handedBack(j.Attempts[last-1]) {
		j.handBacks = 1
		return
	}
	before := j.Attempts[last-1].Number
	if len(j.logs[before]) > 0 {
		j.handBacks = 1
		return
	}
	a := &j.Attempts[last]
	a.Note = joined(fmt.Sprintf("%d hand-backs in a row", j.handBacks), a.Note)
	j.Attempts = slices.Delete(j.Attempts, last-1, last)
	m.unsettle(j, before)
}

// finish ends a job.
func (m *model) finish(j *modelJob, s job.Status, why job.Reason) {
	j.Status, j.Reason, j.FinishedAt = s, why, m.now
	if j.Kind == job.Synthetic {
		j.Reason = "" // a check that failed is no dead letter
	}
	m.over(j)
	kind := store.JobFailed
	if s == job.Succeeded {
		kind = store.JobSucceeded
	}
	m.told(kind, j)
}

// over frees what a job that is finished had for itself, and tells the replay that
// brought it back.
func (m *model) over(j *modelJob) {
	if m.unique[uniqueOf(j)] == j.ID {
		delete(m.unique, uniqueOf(j))
		m.met["unique keys freed"]++
	}
	if id := m.brought[j.ID]; id != "" {
		delete(m.brought, j.ID)
		m.cameBack(m.replays[id], j.Status)
	}
}

// again queues a job again.
func (m *model) again(j *modelJob, wait time.Duration) {
	j.Status, j.RunAt = job.Queued, m.now.Add(wait)
	j.Attempts[len(j.Attempts)-1].NextRunAt = j.RunAt
}

// told tells what the end of an attempt made of its job.
func (m *model) told(kind store.EventType, j *modelJob) {
	a := j.Attempts[len(j.Attempts)-1]
	t := Told{Attempt: a.Number, Outcome: a.Outcome, Reason: j.Reason, RunAt: a.NextRunAt}
	if a.Error != nil {
		t.Error = &job.Error{Type: a.Error.Type, Message: a.Error.Message}
	}
	m.tell(kind, j, modelEvent{Told: t})
}

// joined joins two notes.
func joined(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}
