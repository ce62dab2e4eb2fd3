package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// stay is a message's stay at one destination: the retry loop.
type stay struct {
	*run
	at       *Destination
	message  *message.Message
	deadline time.Time // ends the retrying; zero for none
	once     time.Time // set past the deadline: one attempt, over by then
	w        waiter
	pass     pass
	tries    []message.Attempt
	last     *failure.Error
}

// visit stays at the i-th destination of the chain until the message has
// arrived or the destination must be left.
func (r *run) visit(i int) (message.Hop, bool) {
	d := r.head.chain[i].to
	if i > 0 && r.expired(time.Now()) {
		return hopFor(message.HopPermanent, expiry(d)), false
	}
	deadline, once, full := r.enter(i)
	if full {
		if r.ctx.Err() != nil {
			return r.cancelled(), false
		}
		return hopFor(message.HopFull, &failure.Error{
			Message: fmt.Sprintf("the lane of %s had no place in time (max_pending %d)", d.spec.Name, d.spec.MaxPending),
		}), false
	}
	s := &stay{run: r, at: d, message: r.req.Message, deadline: deadline, once: once}
	s.w.pass, s.w.slow = &s.pass, d.spec.Timeout/2
	if i == len(r.head.chain)-1 && once.IsZero() {
		s.w.patience = r.req.MaxWait
	}
	if i < len(r.head.chain)-1 || d.spec.WhenOpen == FailWhenOpen || r.req.WhenOpen == FailWhenOpen || !once.IsZero() {
		s.w.hops = hopsAtOpen // past the deadline too: there is no time left to wait in
	}
	if d.spec.Transform != nil {
		m, err := s.transform()
		if err != nil {
			return hopFor(message.HopPermanent, s.redacted(err)), false
		}
		s.message = m
	}
	hop, arrived := s.tryUntilLeft()
	hop.Attempts = s.tries
	return hop, arrived
}

func (r *run) cancelled() message.Hop {
	return hopFor(message.HopCancelled, &failure.Error{
		Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral, Message: "pawl is stopping",
	})
}

// tryUntilLeft is the retry loop.
func (s *stay) tryUntilLeft() (message.Hop, bool) {
	ready := time.Now()
	for n := 1; ; n++ {
		if hop, ok := s.wait(); !ok {
			return hop, false
		}
		f, d := s.attempt(n, ready)
		if f == nil {
			return message.Hop{}, true
		}
		s.last = f
		switch {
		case s.ctx.Err() != nil:
			return s.cancelled(), false
		case d.Verdict == retry.Permanent:
			return hopFor(message.HopPermanent, f), false
		case d.Verdict == retry.Exhausted:
			return hopFor(message.HopExhausted, f), false
		}
		ready = time.Now()
		next := ready.Add(d.Wait)
		if hop, over := s.tooLate(next); over {
			return hop, false
		}
		if s.w.patience > 0 && d.Wait > s.w.patience {
			return s.putOff(d.Wait, f), false
		}
		if !s.at.lane.post.charge() { // last: a retry that is not made costs nothing
			return hopFor(message.HopBudget, f), false
		}
		s.pass.try = retrying
		if !s.rest(d) {
			return s.cancelled(), false
		}
	}
}

// rest waits before the next try, and says whether ctx outlived the wait. What an
// endpoint asked for ends where a person clears its hold.
func (s *stay) rest(d retry.Decision) bool {
	if d.Hold <= 0 {
		return sleep(s.ctx, d.Wait)
	}
	t := time.NewTimer(d.Wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.at.lane.post.holdCleared():
	case <-s.ctx.Done():
	}
	return s.ctx.Err() == nil
}

// tooLate says whether a wait until next would end past the deadline or the
// ttl, whichever comes first; such a wait is not begun.
func (s *stay) tooLate(next time.Time) (message.Hop, bool) {
	ttl := s.ttl()
	late := !s.once.IsZero() || (!s.deadline.IsZero() && next.After(s.deadline))
	old := !ttl.IsZero() && !next.Before(ttl)
	switch {
	case old && (!late || s.once.IsZero() && ttl.Before(s.deadline)):
		return hopFor(message.HopPermanent, expiry(s.at)), true
	case late:
		return hopFor(message.HopDeadline, s.last), true
	}
	return message.Hop{}, false
}

// ttl is when the message is too old for the destination or for the head of
// the chain; zero for never.
func (s *stay) ttl() time.Time {
	own := time.Time{}
	if s.at.spec.TTL > 0 {
		own = s.req.Since.Add(s.at.spec.TTL)
	}
	return earlierSet(own, s.expires)
}

func expiry(d *Destination) *failure.Error {
	return &failure.Error{
		Tags: failure.Tags{failure.Expired}, Class: failure.Permanent, Verdict: failure.Neutral,
		Message: fmt.Sprintf("the message is older than its ttl; it was not sent to %s any more", d.spec.Name),
	}
}

// wait stands at the gate. When it says ok the pass holds everything that a
// send needs.
func (s *stay) wait() (message.Hop, bool) {
	limit, ttl := s.deadline, s.ttl()
	if !s.once.IsZero() {
		limit = s.once
	}
	limit = earlierSet(limit, ttl)
	byAge := !ttl.IsZero() && limit.Equal(ttl)
	switch how := s.at.lane.post.enter(s.ctx, &s.w, limit); how {
	case entered:
		if !ttl.IsZero() && !time.Now().Before(ttl) {
			s.at.lane.post.leave(&s.w, expiry(s.at), 0)
			return hopFor(message.HopPermanent, expiry(s.at)), false
		}
		return message.Hop{}, true
	case enteredNot:
		return hopFor(message.HopBreakerOpen, s.because("the circuit breaker of "+s.at.spec.Name+" is open")), false
	case late:
		if byAge {
			return hopFor(message.HopPermanent, expiry(s.at)), false
		}
		return hopFor(message.HopDeadline, s.because(s.lateness(s.w.refused))), false
	case tooLong:
		return s.putOff(s.w.away, s.because(s.refusal(s.w.refused))), false
	case gaveUp:
		return s.cancelled(), false
	default:
		panic("deliver: unknown entry " + strconv.Itoa(int(how)))
	}
}

// putOff ends the stay at a wait that is not to be made here.
func (s *stay) putOff(wait time.Duration, f *failure.Error) message.Hop {
	s.after = wait
	return hopFor(message.HopDeferred, f)
}

// refusal says why the gate lets nobody in.
func (s *stay) refusal(r reply) string {
	switch {
	case r.answer == shut:
		return "the circuit breaker of " + s.at.spec.Name + " is open"
	case r.answer == limited:
		return "the rate limit of " + s.at.spec.Name + " has no slot before then"
	case !r.until.IsZero():
		return s.at.spec.Name + " asked to be left alone"
	}
	return s.at.spec.Name + " is paused"
}

// lateness says why the deadline passed, or will, at the gate.
func (s *stay) lateness(r reply) string {
	if r.answer == limited {
		return "the deadline comes before the next slot in the rate limit of " + s.at.spec.Name
	}
	return "the deadline came before " + s.at.spec.Name + " let the message in"
}

// because is the last failure, or says why nothing was tried at all.
func (s *stay) because(why string) *failure.Error {
	if s.last != nil {
		return s.last
	}
	return &failure.Error{Message: why}
}

// attempt makes one try, gives back what it held and records it.
func (s *stay) attempt(n int, ready time.Time) (*failure.Error, retry.Decision) {
	began := time.Now()
	s.attempts++
	ctx, done := s.trace(n, began.Sub(ready))
	f := s.redacted(s.send(ctx))
	ended := time.Now()
	var d retry.Decision
	if f != nil {
		d = s.at.spec.Retry.Decide(f, n, s.at.fleet.opts.Random())
	}
	s.at.lane.post.leave(&s.w, f, d.Hold)
	if f != nil && f.Tags.Highest(s.at.spec.DeliveredOn) > 0 {
		f = nil
	}
	a := message.Attempt{
		Number: n, Endpoint: s.at.spec.Name, At: began, Waited: began.Sub(ready),
		Duration: ended.Sub(began), Outcome: outcomeOf(f, d),
	}
	done(a.Outcome, f)
	e := event.Event{
		Kind: event.AttemptEnded, At: ended, Destination: s.at.spec.Name, Endpoint: a.Endpoint, Route: s.req.Route,
		MessageID: s.message.ID, Number: n, Outcome: a.Outcome, Took: a.Duration, Waited: a.Waited,
		Limited: s.w.forToken(began),
	}
	if f != nil {
		a.Tags, a.Error = f.Tags, failure.Clip(f.Error())
		e.Tags, e.Error = a.Tags, a.Error
		s.tries = append(s.tries, a)
	}
	s.at.fleet.opts.Events(e)
	return f, d
}

// trace begins to follow the n-th try, where somebody does.
func (s *stay) trace(n int, waited time.Duration) (context.Context, func(message.Outcome, *failure.Error)) {
	t := s.at.fleet.opts.Trace
	if t == nil {
		return s.ctx, untraced
	}
	return t.Attempt(s.ctx, AttemptInfo{
		Route: s.req.Route, Destination: s.at.spec.Name, Endpoint: s.at.spec.Name,
		MessageID: s.message.ID, Number: n, Waited: waited,
	})
}

func untraced(message.Outcome, *failure.Error) {}

func outcomeOf(f *failure.Error, d retry.Decision) message.Outcome {
	switch {
	case f == nil:
		return message.OutcomeOK
	case f.Tags.Has(failure.Cancelled):
		return message.OutcomeCancelled
	case d.Verdict == retry.Permanent:
		return message.OutcomePermanent
	}
	return message.OutcomeRetry
}

// send hands the message to the connector under the timeout alone, or what is
// left of one past the deadline.
func (s *stay) send(ctx context.Context) (f *failure.Error) {
	end := time.Now().Add(s.at.spec.Timeout)
	if !s.once.IsZero() {
		end = s.once
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	line := s.at.lane.borrow()
	defer func() {
		if p := recover(); p != nil {
			s.at.fleet.opts.Log.Error("a connector panicked", "destination", s.at.spec.Name, "panic", p, "stack", string(debug.Stack()))
			f = &failure.Error{Message: "the connector panicked; see the log"}
		}
		if err := s.at.lane.giveBack(line); err != nil {
			s.at.fleet.opts.Log.Warn("closing a replaced connector", "destination", s.at.spec.Name, "error", err)
		}
	}()
	answer, err := line.dest.Send(ctx, s.message)
	if err != nil {
		return s.classify(ctx, err)
	}
	return s.judge(ctx, answer)
}

// redacted returns the failure with the secrets taken out of its text.
func (s *stay) redacted(f *failure.Error) *failure.Error {
	redact := s.at.fleet.opts.Redact
	if f == nil || redact == nil {
		return f
	}
	clean := *f
	clean.Message = redact(f.Error())
	return &clean
}

// classify makes sure that an attempt which ran out of time or was given up
// says so, whatever the connector made of it.
func (s *stay) classify(ctx context.Context, err error) *failure.Error {
	f := failure.From(err)
	switch {
	case s.ctx.Err() != nil && !f.Tags.Has(failure.Cancelled):
		return &failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral, Message: f.Message, Err: err}
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && s.ctx.Err() == nil && (len(f.Tags) == 0 || f.Tags.Has(failure.Cancelled)):
		return &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: f.Message, Err: err}
	}
	return f
}

// judge asks the destination's own success expression about an answer.
func (s *stay) judge(ctx context.Context, a connector.Answer) *failure.Error {
	if s.at.spec.Success == nil {
		return nil
	}
	ok, err := s.at.spec.Success(ctx, a)
	switch {
	case err != nil:
		return refusal(a, "the success expression failed on the answer: "+err.Error())
	case !ok:
		return refusal(a, "the success expression says no")
	}
	return nil
}

func refusal(a connector.Answer, why string) *failure.Error {
	tags := failure.Tags{failure.Refused}
	if a.Status > 0 {
		why = fmt.Sprintf("HTTP %d, but %s", a.Status, why)
		tags = append(tags, failure.Tag(strconv.Itoa(a.Status)))
	}
	return &failure.Error{Tags: tags, Verdict: failure.Alive, Message: why}
}

// transform makes the message that this destination gets.
func (s *stay) transform() (m *message.Message, f *failure.Error) {
	defer func() {
		if p := recover(); p != nil {
			s.at.fleet.opts.Log.Error("a transform panicked", "destination", s.at.spec.Name, "panic", p, "stack", string(debug.Stack()))
			f = transformFailure("it panicked; see the log", nil)
		}
	}()
	m, err := s.at.spec.Transform(s.ctx, s.message)
	if err != nil {
		return nil, transformFailure(err.Error(), err)
	}
	return m, nil
}

func transformFailure(why string, err error) *failure.Error {
	return &failure.Error{
		Tags: failure.Tags{failure.Transform}, Class: failure.Permanent, Verdict: failure.Neutral,
		Message: "the destination's transform failed: " + why, Err: err,
	}
}

func earlierSet(a, b time.Time) time.Time {
	if b.IsZero() {
		return a
	}
	return earlier(a, b)
}

// sleep waits and says whether ctx outlived the wait.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
