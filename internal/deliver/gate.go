package deliver

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
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
	// forced is where a person holds the breaker, one that is yet to come too.
	forced breaker.Forced
	quota  *quota
}

// quota is what a destination may send, however many endpoints it has: their
// gates share it. It is kept under the lock of their post.
type quota struct {
	bucket *limit.Bucket // nil: no rate limit
	budget *limit.Budget // nil: no retry budget
	// configured is the rate limit of the configuration, nil for none; lever is
	// what a person put in its place, nil for nothing.
	configured, lever *limit.Rate
}

// charge asks the budget for a retry. False means that it is spent.
func (q *quota) charge(now time.Time) bool { return q.budget == nil || q.budget.Take(now) }

// pass is what a send holds. It belongs to the caller and may be used again
// after end: it carries what the breaker remembers of its message.
type pass struct {
	guard  *breaker.Breaker // whose permit and mark these are; nil for none
	permit breaker.Permit
	mark   breaker.Mark
	take   ramp.Ticket
	open   bool
	try    try
}

// try is what a send is to the retry budget.
type try uint8

const (
	firstTry try = iota // counts for the budget
	retrying            // was charged when it was scheduled
)

// answer is what the gate says to one who asks.
type answer uint8

const (
	goes    answer = iota + 1 // everything was taken: send now
	waits                     // not now
	limited                   // not now, for want of a token of the rate limit alone
	shut                      // the breaker is open, or has no trial to give
)

// reply is an answer, with the earliest moment at which asking again can help:
// zero where that hangs on another send's end or on a person.
type reply struct {
	answer answer
	until  time.Time
}

// look says what the gate makes of a send that begins now, behind others that
// wait for their turn, taking nothing: goes may still find no worker, the other
// answers are final.
func (g *gate) look(now time.Time, others int) reply {
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
	if b := g.quota.bucket; b != nil {
		if at := b.LookPast(now, others); at.After(now) {
			return reply{limited, at}
		}
	}
	return reply{answer: goes}
}

// try takes all that a send needs, or nothing. slow is how long an answer may
// take before it counts against the endpoint.
func (g *gate) try(now time.Time, slow time.Duration, p *pass) reply {
	if r := g.look(now, 0); r.answer != goes {
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
	if g.quota.bucket != nil {
		g.quota.bucket.Take(now) // look saw the token at this very moment
	}
	if g.quota.budget != nil && p.try == firstTry {
		g.quota.budget.First(now)
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
// itself: the end of a hold, of the breaker's open time, the next token of the
// rate limit, or a send that will have been unanswered for too long. Zero for
// never.
func (g *gate) next(now time.Time) (at time.Time) {
	if now.Before(g.heldUntil) {
		at = g.heldUntil
	}
	if b := g.quota.bucket; b != nil {
		if t := b.Look(now); t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if g.breaker != nil {
		if t, ok := g.breaker.Next(now); ok && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}
