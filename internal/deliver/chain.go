package deliver

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Request is one message for one destination.
type Request struct {
	Message *message.Message
	// Route is the route that chose the destination; "" where none did.
	Route string
	// Place is the message's place in the destination's lane. Deliver gives it
	// back.
	Place Place
	// Since is when the message's age began, for the ttl: Message.Time unless
	// set. A replay starts anew.
	Since time.Time
	// Need says who waits for it; it changes what is told of a failure, not how
	// the message is delivered.
	Need Need
	// WhenOpen is FailWhenOpen where the caller has somewhere else to go than to
	// wait at an open breaker, whatever the destination's own Spec says.
	WhenOpen WhenOpen
	// MaxWait is the longest wait that is made here; 0 is any. Where the next one
	// of the last destination of the chain would be longer, the delivery ends as
	// Deferred. Earlier ones go on to their fallback as they always do. It also
	// says that the message comes again: where every destination was left, and
	// one of them for what passes, the delivery ends as Deferred too.
	MaxWait time.Duration
	// Avoid names fallbacks that the chain passes over as if they were not in it:
	// no hop tells of them. Their own fallbacks stay.
	Avoid []string
}

// Need says what a message's source makes of a delivery.
type Need uint8

// The needs.
const (
	Required   Need = iota // the source waits for it; a failure makes a dead letter
	BestEffort             // nobody does; a failure is counted
)

// Result is how a delivery ended.
type Result struct {
	Status Status
	// Endpoint is where the message arrived: a destination's name, or a member's.
	Endpoint string
	// Attempts counts the tries over the whole chain.
	Attempts int
	// Hops are the destinations that were left, in order.
	Hops []message.Hop
	Took time.Duration
	// After is how long a deferred delivery is to wait until it is made again; 0
	// leaves that to who makes it.
	After time.Duration
}

// Status is how a delivery ended.
type Status uint8

// The ends of a delivery.
const (
	// Delivered: a destination of the chain has it.
	Delivered Status = iota + 1
	// Failed: every destination of the chain was left.
	Failed
	// Cancelled: ctx ended first.
	Cancelled
	// Deferred: the next wait is longer than MaxWait, or nothing is left to try in
	// this pass; the last hop says what for. Nothing was concluded, and another
	// Deliver begins the chain anew.
	Deferred
)

// Last returns the tags and the error of the last thing that went wrong.
func (r Result) Last() (failure.Tags, string) {
	for i := len(r.Hops) - 1; i >= 0; i-- {
		if h := r.Hops[i]; h.Error != "" {
			return h.Tags, h.Error
		}
	}
	return nil, ""
}

// Deliver takes the message through the destination's chain on the caller's
// goroutine and returns when it has arrived or nothing is left to try. The end
// of ctx cancels attempts and waits.
func (d *Destination) Deliver(ctx context.Context, req Request) Result {
	r := &run{ctx: ctx, req: req, head: d, began: time.Now()}
	defer r.req.Place.Leave()
	if r.req.Since.IsZero() {
		r.req.Since = req.Message.Time
	}
	if d.spec.TTL > 0 {
		r.expires = r.req.Since.Add(d.spec.TTL)
	}
	for i := range d.chain {
		if r.passes(i) {
			continue
		}
		r.entered = time.Now()
		hop, arrived := r.visit(i)
		if arrived {
			return r.finish(Delivered, r.endpoint)
		}
		if hop.Reason == message.HopDeferred {
			hop.Destination, hop.At = d.chain[i].to.spec.Name, time.Now()
			r.hops = append(r.hops, hop)
			return r.finish(Deferred, "")
		}
		if r.leave(i, hop) {
			break
		}
	}
	if ctx.Err() != nil && len(r.hops) > 0 && r.hops[len(r.hops)-1].Reason == message.HopCancelled {
		return r.finish(Cancelled, "")
	}
	if r.req.MaxWait > 0 && r.another() {
		return r.finish(Deferred, "")
	}
	return r.finish(Failed, "")
}

// run is one message on its way through a chain.
type run struct {
	ctx      context.Context
	req      Request
	head     *Destination
	began    time.Time
	expires  time.Time // the head's ttl; zero for none
	ends     []time.Time
	entered  time.Time // the destination that it stays at
	hops     []message.Hop
	attempts int
	endpoint string        // where the message arrived
	after    time.Duration // how long a deferred one is to wait
}

// passes reports whether the i-th destination of the chain is passed over, which
// leaves its own fallbacks the deadline that it would have begun under.
func (r *run) passes(i int) bool {
	l := r.head.chain[i]
	if l.parent < 0 || !slices.Contains(r.req.Avoid, l.to.spec.Name) {
		return false
	}
	r.ends = append(r.ends, r.ends[l.parent])
	return true
}

// next returns the destination after the i-th that the message may go on to; nil
// for none.
func (r *run) next(i int) *Destination {
	for _, l := range r.head.chain[i+1:] {
		if !slices.Contains(r.req.Avoid, l.to.spec.Name) {
			return l.to
		}
	}
	return nil
}

// another reports whether a later pass may end otherwise: some destination was
// left for what passes, and the message is not too old for all of them.
func (r *run) another() bool {
	if r.expired(time.Now()) {
		return false
	}
	for _, h := range r.hops {
		switch h.Reason {
		case message.HopExhausted, message.HopDeadline, message.HopBreakerOpen, message.HopBudget, message.HopFull:
			return true
		case message.HopPermanent, message.HopCancelled, message.HopDeferred:
		}
	}
	return false
}

// enter takes the place in the i-th lane of the chain and says until when its
// retrying may go on. The deadline starts here; a fallback's own can only
// shorten it. once is set past the deadline: exactly one attempt, over by then.
func (r *run) enter(i int) (deadline, once time.Time, full bool) {
	l := r.head.chain[i]
	now := time.Now()
	if l.parent >= 0 {
		deadline = r.ends[l.parent]
	}
	past := !deadline.IsZero() && !now.Before(deadline)
	if past {
		once = now.Add(l.to.timeout)
	}
	if i > 0 {
		full = !r.enterFallback(l.to, now, deadline, once)
		now = time.Now()
	}
	if own := l.to.spec.Deadline; own > 0 && !past {
		deadline = earlier(deadline, now.Add(own))
	}
	r.ends = append(r.ends, deadline)
	return deadline, once, full
}

// enterFallback waits for a place in a fallback's lane, within the deadline
// and for its timeout at most.
func (r *run) enterFallback(to *Destination, now, deadline, once time.Time) bool {
	if place, ok := to.Enter(); ok {
		r.req.Place = place
		return true
	}
	limit := once
	if limit.IsZero() {
		limit = earlier(deadline, now.Add(to.timeout))
	}
	ctx, cancel := context.WithDeadline(r.ctx, limit)
	defer cancel()
	place, err := to.EnterWait(ctx)
	if err != nil {
		return false
	}
	r.req.Place = place
	return true
}

// leave records that the i-th destination was left, gives its place back, and
// says whether that ends the chain.
func (r *run) leave(i int, hop message.Hop) (over bool) {
	r.req.Place.Leave()
	hop.Destination = r.head.chain[i].to.spec.Name
	hop.At = time.Now()
	r.hops = append(r.hops, hop)
	next := r.next(i)
	over = next == nil || hop.Reason == message.HopCancelled || (hop.Tags.Has(failure.Expired) && r.expired(hop.At))
	to := ""
	if !over {
		to = next.spec.Name
	}
	if t := r.head.fleet.opts.Trace; t != nil {
		t.Hop(r.ctx, HopInfo{Route: r.req.Route, To: to, MessageID: r.req.Message.ID, Entered: r.entered, Hop: hop})
	}
	r.head.fleet.opts.Events(event.Event{
		Kind: event.Hopped, At: hop.At, Destination: hop.Destination, To: to, Route: r.req.Route,
		MessageID: r.req.Message.ID, Hop: hop.Reason, Tags: hop.Tags, Error: hop.Error,
	})
	return over
}

func (r *run) expired(now time.Time) bool {
	return !r.expires.IsZero() && !now.Before(r.expires)
}

func (r *run) finish(s Status, endpoint string) Result {
	now := time.Now()
	res := Result{Status: s, Endpoint: endpoint, Attempts: r.attempts, Hops: r.hops, Took: now.Sub(r.began), After: r.after}
	e := event.Event{
		Kind: event.Delivered, At: now, Route: r.req.Route, Destination: r.head.spec.Name,
		Endpoint: endpoint, MessageID: r.req.Message.ID, Number: r.attempts, Took: res.Took,
	}
	switch s {
	case Delivered:
	case Deferred:
		e.Kind, e.Waited = event.Deferred, r.after
		e.Tags, e.Error = res.Last()
	case Failed, Cancelled:
		e.Kind, e.Required = event.DeliveryFailed, r.req.Need == Required
		e.Tags, e.Error = res.Last()
		if n := len(r.hops); n > 0 {
			e.Hop = r.hops[n-1].Reason
		}
	}
	r.head.fleet.opts.Events(e)
	return res
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// hopFor makes the hop of a failure.
func hopFor(reason message.HopReason, f *failure.Error) message.Hop {
	h := message.Hop{Reason: reason}
	if f != nil {
		h.Tags, h.Error = f.Tags, failure.Clip(f.Error())
	}
	return h
}
