package metamorphic

import (
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// sweep ends what is over.
func (m *model) sweep() (s store.Swept) {
	s.Graced, m.opened = m.opened, 0
	gap := m.now.Sub(m.tick)
	m.tick = m.now
	gaps := 0
	for _, j := range m.running() {
		if gap > j.lease.length/3 && gap > 2*time.Second {
			m.grace(j.lease)
			gaps++
		}
	}
	if gaps > 0 {
		m.met["gaps"]++
		s.Graced += gaps
		m.graced = m.now
	}
	if m.pathIsDown() {
		m.met["brakes"]++
		for _, j := range m.running() {
			m.grace(j.lease)
			s.Graced++
		}
		m.graced = m.now
	}
	for _, j := range m.byEnd() {
		if end := j.lease.end(); !end.After(m.now) {
			m.lapse(j, &s)
		} else if s.Next.IsZero() || end.Before(s.Next) {
			s.Next = end
		}
	}
	return s
}

// grace gives a lease, and its timeout, a full length from now on.
func (m *model) grace(l *modelLease) {
	least := m.now.Add(l.length)
	if l.until.Before(least) {
		l.until = least
	}
	if l.deadline.Before(least) {
		l.deadline = least
	}
}

// lapse ends an attempt whose lease or timeout is over.
func (m *model) lapse(j *modelJob, s *store.Swept) {
	unsafe := j.Policy.Repeat == job.RepeatUnsafe
	once := unsafe || j.Kind == job.Synthetic
	gone := job.ReasonLost
	if unsafe {
		gone = job.ReasonUncertain
	}
	wait := time.Duration(0)
	switch l := j.lease; {
	case j.Status == job.Cancelled:
		m.met["lapses of a cancelled job"]++
		m.end(j, job.OutcomeCancelled, nil)
		return
	case l.deadline.Before(l.until):
		s.TimedOut++
		m.end(j, job.OutcomeTimedOut, nil)
		switch {
		case unsafe:
			m.finish(j, job.Failed, job.ReasonUncertain)
			return
		case once, j.Counts.Charged >= j.Policy.MaxAttempts:
			m.finish(j, job.Failed, job.ReasonExhausted)
			return
		}
		wait = delay(j.Policy.Policy, j.Counts.Charged)
	case l.heard.IsZero():
		s.Unreceived++
		m.end(j, job.OutcomeUnreceived, nil)
		if once || j.Counts.Unreceived > 100 {
			m.finish(j, job.Failed, gone)
			return
		}
	default:
		s.Lost++
		m.end(j, job.OutcomeLost, nil)
		if once || j.Counts.Lost > 5 {
			m.finish(j, job.Failed, gone)
			return
		}
		if j.Counts.LostInRow > 1 {
			wait = delay(j.Policy.Policy, j.Counts.LostInRow-1)
		}
	}
	m.again(j, wait)
	m.told(store.JobRetried, j)
}

// pathIsDown says whether it is the way to the workers that is silent.
func (m *model) pathIsDown() bool {
	var ending int
	var longest time.Duration
	for _, j := range m.running() {
		l := j.lease
		if !l.until.After(m.now.Add(l.length / 3)) {
			ending++
		}
		if !l.until.After(m.now) && l.until.Before(l.deadline) {
			longest = max(longest, l.length)
		}
	}
	switch {
	case longest == 0, ending < 10, ending*2 < len(m.running()):
		return false
	case !m.graced.IsZero() && !m.heard.After(m.graced):
		return false
	default:
		return m.heard.IsZero() || m.now.Sub(m.heard) >= longest*2/3
	}
}

// reopen is what a restart does: the relay's own leases go back, and the others
// last anew.
func (m *model) reopen() {
	m.tick, m.graced, m.heard, m.opened = m.now, m.now, time.Time{}, 0
	for _, j := range m.running() {
		ended := store.Report{Note: "its process ended"}
		switch {
		case !strings.HasPrefix(j.lease.worker, "relay:"):
			m.grace(j.lease)
			m.opened++
		case j.Status == job.Cancelled:
			m.met["starts with a cancelled job of the relay"]++
			m.end(j, job.OutcomeCancelled, &ended)
		default:
			m.end(j, job.OutcomeReleased, &ended)
			m.again(j, 0)
		}
	}
}
