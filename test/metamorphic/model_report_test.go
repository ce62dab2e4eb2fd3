package metamorphic

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// report takes in one report.
func (m *model) report(r store.Report) store.Answer {
	lost := store.Answer{Status: store.LeaseLost}
	t := m.tokens[r.Lease]
	if t == nil {
		return lost
	}
	final := r.Type == store.Complete || r.Type == store.Fail || r.Type == store.Release
	j := m.jobs[t.id]
	if r.Queues != nil && !slices.Contains(r.Queues, j.Queue) {
		return lost
	}
	if j.lease == nil || j.lease.token != r.Lease {
		if final && t.settled && t.hash == r.Hash {
			if t.answer.JobStatus == job.Failed && j.Status != job.Failed {
				m.met["reports again of what was brought back"]++
			}
			return t.answer
		}
		return lost
	}
	m.heard = m.now
	if !final {
		m.holds(j, r)
		return store.Answer{Status: store.ReportTaken, JobStatus: j.Status, LeaseUntil: j.lease.until, Cancel: j.Status == job.Cancelled}
	}
	m.ended(j, r)
	t.settled, t.hash = true, r.Hash
	t.answer = store.Answer{Status: store.ReportTaken, JobStatus: j.Status}
	if j.Status == job.Queued {
		t.answer.RunAt = j.RunAt
	}
	return t.answer
}

// holds takes in a report that leaves the attempt running.
func (m *model) holds(j *modelJob, r store.Report) {
	l := j.lease
	l.heard = m.now
	switch r.Type {
	case store.Start:
		if l.started.IsZero() {
			l.started, l.deadline = m.now, m.now.Add(l.timeout)
			j.Attempts[len(j.Attempts)-1].StartedAt = m.now
		}
	case store.Heartbeat:
		if until := m.now.Add(l.length); until.After(l.until) {
			l.until = until
		}
	case store.AddLog:
		lines := j.logs[j.Attempt]
		if lines == nil {
			lines = map[int64]job.LogLine{}
			j.logs[j.Attempt] = lines
		}
		for _, line := range r.Lines {
			if _, there := lines[line.Seq]; !there {
				lines[line.Seq] = line
			}
		}
	}
}

// ended takes in the report that ends an attempt.
func (m *model) ended(j *modelJob, r store.Report) {
	cancelled := j.Status == job.Cancelled
	if r.Type == store.Complete {
		j.Result = r.Result // of a job that was cancelled or is refused too, for who looks
	}
	if r.Type == store.Fail {
		j.LastError = r.Error
	}
	switch {
	case cancelled:
		m.met["reports of a cancelled job"]++
		m.end(j, job.OutcomeCancelled, &r)
	case r.Type == store.Release:
		m.end(j, job.OutcomeReleased, &r)
		m.again(j, r.After)
	case r.Type == store.Complete && r.Refused == "":
		m.end(j, job.OutcomeSucceeded, &r)
		m.finish(j, job.Succeeded, "")
	case r.Type == store.Complete:
		m.end(j, job.OutcomeFailed, &r)
		m.finish(j, job.Failed, job.ReasonOutputSchema)
	default:
		m.end(j, job.OutcomeFailed, &r)
		m.failed(j, r.Failure)
	}
}

// failed says what becomes of a job whose attempt has failed.
func (m *model) failed(j *modelJob, f job.Failure) {
	switch {
	case j.Policy.Repeat == job.RepeatUnsafe && f.Effect == job.EffectUnknown:
		m.finish(j, job.Failed, job.ReasonUncertain)
		return
	case f.Permanent:
		m.finish(j, job.Failed, job.ReasonNonRetryable)
		return
	case j.Kind == job.Synthetic, j.Counts.Charged >= j.Policy.MaxAttempts:
		m.finish(j, job.Failed, job.ReasonExhausted)
		return
	}
	wait := delay(j.Policy.Policy, j.Counts.Charged)
	if f.RetryIn != nil {
		wait = *f.RetryIn
	}
	if f.RetryAfter != nil {
		wait = max(wait, *f.RetryAfter)
	}
	m.again(j, wait)
	m.told(store.JobRetried, j)
}

// delay is the wait after the n-th charged attempt, without jitter.
func delay(p job.Policy, n int) time.Duration {
	d := float64(p.Initial)
	for range n - 1 {
		d = min(d*p.Factor, float64(p.MaxDelay))
	}
	return time.Duration(min(d, float64(p.MaxDelay)))
}
