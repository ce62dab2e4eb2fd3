package deliver

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/limit"
)

// What people change at run time holds until they change it back or pawl ends: a
// reload keeps it.

// setBreaker puts the numbers in force; nil takes the breaker away.
func (g *gate) setBreaker(now time.Time, s *breaker.Settings) {
	switch {
	case s == nil:
		g.breaker = nil
	case g.breaker == nil:
		g.breaker = breaker.New(*s, now)
		g.breaker.Force(now, g.forced)
	default:
		g.breaker.Configure(now, *s)
	}
}

// setRate puts the rate in force that the lever or else the configuration says.
// A limit that changes gives no tokens away: as many are missing as before.
func (q *quota) setRate(now time.Time) {
	switch r := q.rate(); {
	case r == nil:
		q.bucket = nil
	case q.bucket == nil:
		q.bucket = limit.NewBucket(*r, now)
	default:
		q.bucket.Configure(now, *r)
	}
}

// rate is the rate limit that holds; nil for none.
func (q *quota) rate() *limit.Rate {
	if q.lever != nil {
		return q.lever
	}
	return q.configured
}

// setBudget puts the numbers in force; nil takes the budget away.
func (q *quota) setBudget(now time.Time, s *limit.BudgetSettings) {
	switch {
	case s == nil:
		q.budget = nil
	case q.budget == nil:
		q.budget = limit.NewBudget(*s, now)
	default:
		q.budget.Configure(now, *s)
	}
}

// Moved is what became of a lever.
type Moved uint8

// What may become of a lever.
const (
	LeverMoved Moved = iota + 1
	// NoDestination of the name is known.
	NoDestination
	// NoBreaker: the destination has none.
	NoBreaker
	// NotHeld: there was no hold to clear.
	NotHeld
)

// Pause stops sends to the destination; its messages wait in their lane. It
// returns false where no such destination is known.
func (f *Fleet) Pause(name string) bool { return f.setPaused(name, true) }

// Resume lets a paused destination go on.
func (f *Fleet) Resume(name string) bool { return f.setPaused(name, false) }

func (f *Fleet) setPaused(name string, paused bool) bool {
	return f.move(name, func(p *post, _ time.Time) Moved {
		p.gate.paused = paused
		return LeverMoved
	}) == LeverMoved
}

// ForceBreaker holds the destination's breaker open or closed, or leaves it to
// itself again. Held open, nothing but another call lets anything through.
func (f *Fleet) ForceBreaker(name string, to breaker.Forced) Moved {
	return f.move(name, func(p *post, now time.Time) Moved {
		g := &p.gate
		if g.breaker == nil && to != breaker.ForceAuto {
			return NoBreaker
		}
		g.forced = to
		if g.breaker != nil {
			g.breaker.Force(now, to)
		}
		return LeverMoved
	})
}

// ClearHold ends what the endpoint asked for, for the messages that heard it too:
// traffic comes back by the ramp.
func (f *Fleet) ClearHold(name string) Moved {
	return f.move(name, func(p *post, now time.Time) Moved {
		if !now.Before(p.gate.heldUntil) {
			return NotHeld
		}
		p.gate.heldUntil = time.Time{}
		p.wakeResting()
		return LeverMoved
	})
}

// SetRate sets how fast attempts at the destination begin, whatever the
// configuration says; nil gives that its say again.
func (f *Fleet) SetRate(name string, r *limit.Rate) Moved {
	return f.move(name, func(p *post, now time.Time) Moved {
		p.quota.lever = r
		p.quota.setRate(now)
		return LeverMoved
	})
}

// move moves a lever at the post of the name, which is locked meanwhile.
func (f *Fleet) move(name string, how func(p *post, now time.Time) Moved) (m Moved) {
	f.mu.Lock()
	l, ok := f.lanes[name]
	f.mu.Unlock()
	if !ok {
		return NoDestination
	}
	l.post.change(func(_ *gate, now time.Time) { m = how(l.post, now) })
	return m
}
