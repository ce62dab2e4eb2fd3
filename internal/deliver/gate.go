package deliver

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/ramp"
)

// gate decides who may send to one endpoint. It owns no clock, lock or
// goroutine: post wraps it with those. Everything that a send needs is taken
// in one step (try) and given back in one step (end).
type gate struct {
	breaker *breaker.Breaker // nil: none
	ramp    ramp.Ramp
	workers int // attempts in flight at most
	busy    int // attempts in flight
	paused  bool
	// heldUntil is how long the endpoint asked to be left alone. holding says
	// that its end has not been noticed yet: the ramp starts then.
	heldUntil time.Time
	holding   bool
}

// pass is what a send holds. It belongs to the caller and may be used again
// after end: it carries what the breaker remembers of its message.
type pass struct {
	guard  *breaker.Breaker // whose permit and mark these are; nil for none
	permit breaker.Permit
	mark   breaker.Mark
	take   ramp.Ticket
	open   bool
}

// answer is what the gate says to one who asks.
type answer uint8

const (
	goes  answer = iota + 1 // everything was taken: send now
	waits                   // not now
	shut                    // the breaker is open, or has no trial to give
)

// reply is an answer, with the earliest moment at which asking again can help:
// zero where that hangs on another send's end or on a person.
type reply struct {
	answer answer
	until  time.Time
}

// look says what the gate makes of a send that begins now, taking nothing: shut
// and waits are final, goes may still find no worker.
func (g *gate) look(now time.Time) reply {
	if g.breaker != nil {
		if look := g.breaker.Look(now); look.Answer != breaker.Pass {
			return reply{shut, look.Until}
		}
	}
	switch {
	case g.paused:
		return reply{waits, time.Time{}}
	case now.Before(g.heldUntil):
		return reply{waits, g.heldUntil}
	}
	return reply{answer: goes}
}

// try takes all that a send needs, or nothing. slow is how long an answer may
// take before it counts against the endpoint.
func (g *gate) try(now time.Time, slow time.Duration, p *pass) reply {
	if r := g.look(now); r.answer != goes {
		return r
	}
	g.endHold()
	if g.busy >= g.workers {
		return reply{answer: waits}
	}
	take, ok := g.ramp.Take()
	if !ok {
		return reply{answer: waits}
	}
	if p.guard != g.breaker { // a reload put another one here, or took it away
		p.guard, p.mark = g.breaker, breaker.Mark{}
	}
	if g.breaker != nil && !g.breaker.Begin(now, slow, p.mark, &p.permit) {
		g.ramp.Put(take, ramp.Other)
		return reply{answer: shut}
	}
	p.take = take
	g.busy++
	p.open = true
	return reply{answer: goes}
}

// endHold starts the ramp of a hold that is over.
func (g *gate) endHold() {
	if g.holding {
		g.holding = false
		g.ramp.Start()
	}
}

// end gives back what try took and tells breaker, ramp and hold how the send
// went; f is nil for a success. hold is how long the endpoint asked to be left
// alone, zero for not at all. Ending twice does nothing.
func (g *gate) end(now time.Time, p *pass, f *failure.Error, hold time.Duration) {
	if !p.open {
		return
	}
	p.open = false
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
// itself: the end of a hold, of the breaker's open time, or a send that will
// have been unanswered for too long. Zero for never.
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
