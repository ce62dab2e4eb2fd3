package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// judgeChain checks that a delivery ended in time: by its deadline, and one timeout
// for each destination that was still left then.
func (o *oracle) judgeChain(e event.Event) {
	d := o.destination(e.Destination)
	if d.Deadline == 0 {
		return
	}
	most := d.Deadline
	for _, name := range o.path(d.Name, nil) {
		most += o.destination(name).Timeout
	}
	if e.Took > most {
		o.w.wrong(e.MessageID, "the delivery to %s took %v, its deadline and timeouts are %v", d.Name, e.Took, most)
	}
}

// judgePace checks the times of the attempts at one destination that was left: a
// plain one waits its backoff between two of them, no less and, where nothing else
// can be waited for, no more; a group goes on to a member that is there at once.
func (o *oracle) judgePace(name string, h message.Hop) {
	o.mu.Lock() // checks of health go on meanwhile
	defer o.mu.Unlock()
	d := o.destination(h.Destination)
	if d.Batch != nil {
		return // it gathers, and goes once more alone
	}
	tries := slices.Clone(h.Attempts)
	slices.SortStableFunc(tries, func(a, b message.Attempt) int { return cmp.Compare(a.Number, b.Number) })
	if d.Group != nil {
		o.judgeRound(name, d, tries)
		return
	}
	schedule := d.policy().Schedule
	for i := 1; i < len(tries); i++ {
		ended := tries[i-1].At.Add(tries[i-1].Duration)
		wait := tries[i].At.Sub(ended)
		if least, most := schedule.Bounds(i); o.asked(d.Name, ended) {
			continue // it waited for as long as it was asked to
		} else if wait < least {
			o.w.wrong(name, "retry %d at %s came after %v, its backoff is at least %v", i, d.Name, wait, least)
		} else if wait > most && o.idle(d, d.Name, ended.Add(most)) && o.alike(d.Name, ended.Add(most)) {
			o.w.wrong(name, "retry %d at %s came after %v, its backoff is at most %v", i, d.Name, wait, most)
		}
	}
}

// judgeRound checks that nothing waited in a round while a member was there that
// the message had not been at. Which round an attempt is of is only known of the
// first, so it looks at the attempts before any endpoint comes again.
func (o *oracle) judgeRound(name string, d DestinationPlan, tries []message.Attempt) {
	if d.Group.Hedge != nil || d.Group.Shrinks {
		return
	}
	been := map[string]bool{}
	for i, a := range tries {
		if been[a.Endpoint] {
			return
		}
		been[a.Endpoint] = true
		if i == 0 {
			continue
		}
		ended := tries[i-1].At.Add(tries[i-1].Duration)
		if !a.At.After(ended) {
			continue
		}
		for _, m := range d.Group.Members {
			if (m.Name == a.Endpoint || !been[m.Name]) && o.idle(d, m.Name, ended) && o.alike(m.Name, ended) {
				o.w.wrong(name, "waited %v in a round of %s, though %s was there", a.At.Sub(ended), d.Name, m.Name)
				return
			}
		}
	}
}

// asked reports whether an endpoint asked to be left alone at or after the moment,
// or had until after it, in any life.
func (o *oracle) asked(endpoint string, at time.Time) bool {
	for p, s := range o.states {
		if p.endpoint == endpoint && slices.ContainsFunc(s.holds, func(h hold) bool { return !h.to.Before(at) }) {
			return true
		}
	}
	return false
}

// alike reports whether nothing of an endpoint had changed by the moment, in any
// life: neither its breaker nor its health, and it had asked for nothing. Then no
// ramp holds traffic back.
func (o *oracle) alike(endpoint string, at time.Time) bool {
	early := func(m moment) bool { return !m.at.After(at) }
	for p, s := range o.states {
		if p.endpoint != endpoint {
			continue
		}
		if slices.ContainsFunc(s.holds, func(h hold) bool { return !h.from.After(at) }) ||
			slices.ContainsFunc(s.breaker, early) || slices.ContainsFunc(s.health, early) {
			return false
		}
	}
	return true
}

// idle reports whether an endpoint had a worker to give at the moment: nothing
// that is limited, paused or at work kept a message from it.
func (o *oracle) idle(d DestinationPlan, endpoint string, at time.Time) bool {
	if d.Rate != nil || o.w.plan.pauses(d.Name) {
		return false
	}
	here, all := 0, 0
	for p, sends := range o.sends {
		if o.homes[p.endpoint].Name != d.Name {
			continue
		}
		for _, s := range sends {
			if s.begin.After(at) || s.end.Before(at) {
				continue
			}
			all++
			if p.endpoint == endpoint {
				here++
			}
		}
	}
	return here < d.share() && all < d.Workers
}
