package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// sweepStep is how many attempts one operation ends at most, so that those of
// callers come in between: each is four statements, about 20 µs.
const sweepStep = 128

// Sweep ends leases and timeouts that are over.
func (s *Store) Sweep(ctx context.Context) (store.Swept, error) {
	var all store.Swept
	var rules graceRules
	for {
		var part sweepPart
		err := s.writer.submit(ctx, 0, func(t *tx) (err error) {
			part, err = t.sweep(rules)
			return err
		})
		if err != nil {
			return all, err
		}
		all.Next = part.swept.Next
		all.TimedOut += part.swept.TimedOut
		all.Lost += part.swept.Lost
		all.Unreceived += part.swept.Unreceived
		all.Graced += part.swept.Graced
		if !part.more {
			return all, nil
		}
		rules = gracesAsked
	}
}

type sweepPart struct {
	swept store.Swept
	more  store.More
}

// graceRules says whether a sweep has asked for graces already.
type graceRules bool

const gracesAsked graceRules = true

func (t *tx) sweep(rules graceRules) (part sweepPart, err error) {
	s := t.w.state
	if rules != gracesAsked {
		part.swept.Graced = t.graces()
		if t.w.clock.ahead() {
			if err := t.write(); err != nil { // a commit keeps the time
				return part, err
			}
		}
	}
	for range sweepStep {
		l, ok := s.ends.first()
		if !ok || l.end() > t.now {
			break
		}
		if err := t.lapse(l, &part.swept); err != nil {
			return part, err
		}
	}
	if l, ok := s.ends.first(); ok {
		part.swept.Next = at(l.end())
		part.more = l.end() <= t.now
	}
	return part, nil
}

// lapse ends an attempt whose lease or timeout is over.
func (t *tx) lapse(l *lease, swept *store.Swept) error {
	run, err := t.runWithPolicy(l)
	if err != nil {
		return err
	}
	x, over := job.DecideLapse(run, at(t.now), t.w.rand())
	if !over {
		return t.diverge("the lease of job %d ends at %d and is not over at %d", l.seq, l.end(), t.now)
	}
	x = t.unlessCancelled(l, x)
	if _, err := t.apply(l, x, ending{}); err != nil {
		return err
	}
	switch x.Outcome {
	case job.OutcomeTimedOut:
		swept.TimedOut++
	case job.OutcomeLost:
		swept.Lost++
	case job.OutcomeUnreceived:
		swept.Unreceived++
	default:
	}
	return nil
}

// graces lengthens leases where it is not their workers that were silent, and
// returns how many. See job.Gap and job.Brake.
func (t *tx) graces() (graced int) {
	s := t.w.state
	graced, s.opened = s.opened, 0
	tick := at(s.tick)
	s.tick = t.now
	gaps := map[int64]struct{}{}
	for length := range s.lengths {
		if job.Gap(tick, at(t.now), time.Duration(length)*time.Millisecond) {
			gaps[length] = struct{}{}
		}
	}
	if len(gaps) > 0 {
		for _, l := range s.running {
			if _, in := gaps[l.length]; in {
				t.grace(l)
				graced++
			}
		}
		s.graced = t.now
	}
	first, ok := s.ends.first()
	if !ok || first.end() > t.now {
		return graced
	}
	silence := job.Silence{Heard: at(s.heard), Graced: at(s.graced), Running: len(s.running)}
	for _, l := range s.running {
		length := time.Duration(l.length) * time.Millisecond
		if t.runOf(l).Ending(at(t.now), length) {
			silence.Ending++
		}
		if l.until <= t.now && l.until < l.deadline {
			silence.Lease = max(silence.Lease, length)
		}
	}
	if silence.Lease == 0 || !job.Brake(at(t.now), silence) {
		return graced
	}
	for _, l := range s.running {
		t.grace(l)
	}
	s.graced = t.now
	return graced + len(s.running)
}

// grace gives a lease its full length from now on, in memory alone: to open the
// store again does the same.
func (t *tx) grace(l *lease) {
	t.move(l)
	run := t.runOf(l).Grace(at(t.now), time.Duration(l.length)*time.Millisecond)
	l.until, l.deadline = millis(run.LeaseUntil), millis(run.Deadline)
	t.w.state.ends.put(l)
}

// byAge are the running leases in the order of their jobs.
func (s *state) byAge() []*lease {
	all := make([]*lease, 0, len(s.running))
	for _, l := range s.running {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *lease) int { return cmp.Compare(a.seq, b.seq) })
	return all
}
