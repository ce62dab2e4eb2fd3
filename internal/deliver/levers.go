package deliver

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/limit"
)

// What people change at run time holds until they change it back or pawl ends: a
// reload keeps it. A lever of endpoints is moved by a destination's name, which
// stands for all its members, or by that of one member.

// Moved is what became of a lever.
type Moved uint8

// What may become of a lever.
const (
	LeverMoved Moved = iota + 1
	// NoDestination of the name is known, nor an endpoint.
	NoDestination
	// NoBreaker: the endpoint has none, or none of them.
	NoBreaker
	// NotHeld: there was no hold to clear.
	NotHeld
)

// Pause stops sends to the destination or the member; its messages wait in their
// lane, or go to the others. It returns false where no such name is known.
func (f *Fleet) Pause(name string) bool { return f.setPaused(name, true) }

// Resume lets what was paused go on.
func (f *Fleet) Resume(name string) bool { return f.setPaused(name, false) }

func (f *Fleet) setPaused(name string, paused bool) bool {
	return f.move(name, LeverMoved, func(_ *post, g *gate, _ time.Time) Moved {
		g.paused = paused
		return LeverMoved
	}) == LeverMoved
}

// ForceBreaker holds the endpoint's breaker open or closed, or leaves it to
// itself again. Held open, nothing but another call lets anything through.
func (f *Fleet) ForceBreaker(name string, to breaker.Forced) Moved {
	return f.move(name, NoBreaker, func(_ *post, g *gate, now time.Time) Moved {
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
	return f.move(name, NotHeld, func(p *post, g *gate, now time.Time) Moved {
		if !now.Before(g.heldUntil) {
			return NotHeld
		}
		g.heldUntil = time.Time{}
		p.wakeResting()
		return LeverMoved
	})
}

// SetRate sets how fast attempts at the destination begin, whatever the
// configuration says; nil gives that its say again. A group's members share one
// rate: there is none by a member's name.
func (f *Fleet) SetRate(name string, r *limit.Rate) Moved {
	f.mu.Lock()
	l, ok := f.lanes[name]
	f.mu.Unlock()
	if !ok {
		return NoDestination
	}
	l.post.change(func(g *group, now time.Time) {
		g.quota.lever = r
		g.quota.setRate(now)
	})
	return LeverMoved
}

// move moves a lever at every gate that the name stands for. otherwise is what
// comes of it where it moved at none of them.
func (f *Fleet) move(name string, otherwise Moved, how func(p *post, g *gate, now time.Time) Moved) (m Moved) {
	l, only := f.find(name)
	if l == nil {
		return NoDestination
	}
	m = otherwise
	l.post.change(func(g *group, now time.Time) {
		for _, at := range g.members {
			if only != "" && at.name != only {
				continue
			}
			if how(l.post, &at.gate, now) == LeverMoved {
				m = LeverMoved
			}
		}
	})
	return m
}

// find returns the lane of a destination's name, or of an endpoint's: only is the
// endpoint then, "" where the name stands for all.
func (f *Fleet) find(name string) (_ *lane, only string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l, ok := f.lanes[name]; ok {
		return l, ""
	}
	for _, l := range f.lanes {
		if l.post.has(name) {
			return l, name
		}
	}
	return nil, ""
}

// has reports whether a member has the name.
func (p *post) has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.group.named(name)
	return ok
}
