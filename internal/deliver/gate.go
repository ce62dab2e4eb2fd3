package deliver

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/ramp"
)

// gate is what one endpoint lets through: its breaker, its hold, its ramp and how
// many attempts it may have in flight. It owns no clock, lock or goroutine. A
// group asks it, and takes what a send needs in one step with what its members
// share.
type gate struct {
	breaker *breaker.Breaker // nil: none
	ramp    ramp.Ramp
	limit   int // attempts in flight at most: the endpoint's share of the workers
	busy    int // attempts in flight
	// slow is how long an answer may take before it counts against the endpoint.
	slow   time.Duration
	paused bool
	health event.Health // zero where nobody checks
	// heldUntil is how long the endpoint asked to be left alone. holding says
	// that its end has not been noticed yet: the ramp starts then.
	heldUntil time.Time
	holding   bool
	// forced is where a person holds the breaker, one that is yet to come too.
	forced breaker.Forced
}

// obstacles is what stands between the endpoint and a send that begins now, and
// when the first of it may be gone by itself: zero where that hangs on another
// send's end or on a person.
func (g *gate) obstacles(now time.Time) (o balance.Obstacle, until time.Time) {
	g.endHold(now)
	if g.breaker != nil {
		if look := g.breaker.Look(now); look.Answer != breaker.Pass {
			o, until = balance.Shut, look.Until
		}
	}
	switch {
	case g.paused:
		o |= balance.Held
	case g.holding:
		o |= balance.Held
		if o&balance.Shut == 0 {
			until = g.heldUntil
		}
	}
	if g.health == event.Unhealthy {
		o |= balance.Unhealthy
	}
	if limit, ramping := g.ramp.Limit(); g.busy >= g.limit || ramping && g.ramp.InFlight() >= limit {
		o |= balance.Full
	}
	return o, until
}

// endHold starts the ramp of a hold that is over.
func (g *gate) endHold(now time.Time) {
	if g.holding && !now.Before(g.heldUntil) {
		g.holding = false
		g.ramp.Start()
	}
}

// trying reports whether what goes through now is a trial.
func (g *gate) trying(now time.Time) bool {
	return g.breaker != nil && g.breaker.State(now) == breaker.HalfOpen
}

// take takes the gate's part of a send, which obstacles saw possible at this very
// moment.
func (g *gate) take(now time.Time, p *pass) {
	if p.guard != g.breaker { // a reload put another one here, or took it away
		p.guard, p.mark = g.breaker, breaker.Mark{}
	}
	take, ok := g.ramp.Take()
	p.trial = g.trying(now)
	if !ok || g.breaker != nil && !g.breaker.Begin(now, g.slow, p.mark, &p.permit) {
		panic("deliver: a gate without obstacles lets nobody through")
	}
	p.take = take
	g.busy++
}

// end gives back what take took and tells breaker, ramp and hold how the send
// went; f is nil for a success. hold is how long the endpoint asked to be left
// alone, zero for not at all.
func (g *gate) end(now time.Time, p *pass, f *failure.Error, hold time.Duration) {
	g.busy--
	switch {
	case f != nil && f.Throttled:
		g.ramp.Put(p.take, ramp.Throttled)
	case f == nil, f.Verdict == failure.Alive: // it answered: what was wrong is the message
		g.ramp.Put(p.take, ramp.Passed)
	default:
		g.ramp.Put(p.take, ramp.Other)
	}
	if p.guard != nil { // which need not be the gate's breaker any more
		p.mark = p.guard.End(now, &p.permit, breaker.Of(f))
	}
	g.holdUntil(now.Add(hold), hold)
}

// holdUntil lengthens the hold to at least until.
func (g *gate) holdUntil(until time.Time, length time.Duration) {
	if length > 0 && until.After(g.heldUntil) {
		g.heldUntil, g.holding = until, true
	}
}

// setHealth takes what the checks say, and says whether that is news. From a
// recovery on traffic comes back by the ramp, and an open breaker gives trials at
// once.
func (g *gate) setHealth(now time.Time, h event.Health) (news bool) {
	was := g.health
	g.health = h
	if was == event.Unhealthy && h == event.Healthy {
		g.ramp.Start()
		if g.breaker != nil {
			g.breaker.TryNow(now)
		}
	}
	return h != was && (was != 0 || h == event.Unhealthy)
}

// settle takes what moved in the breaker since the last call and starts the
// ramp where it closed.
func (g *gate) settle() []breaker.Move {
	if g.breaker == nil {
		return nil
	}
	moves := g.breaker.TakeMoves()
	for _, m := range moves {
		if m.To == breaker.Closed {
			g.ramp.Start()
		}
	}
	return moves
}

// next is the earliest moment at which the gate may say something else by
// itself: the end of a hold, of the breaker's open time, or a send that will have
// been unanswered for too long. Zero for never.
func (g *gate) next(now time.Time) (at time.Time) {
	if now.Before(g.heldUntil) {
		at = g.heldUntil
	}
	if g.breaker != nil {
		if t, ok := g.breaker.Next(now); ok && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

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
