package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// attempt is one try at one endpoint. It may outlast the stay that began it (a
// trial whose message arrived elsewhere), so of the stay it reads only what does
// not change.
type attempt struct {
	of       *stay
	pass     pass
	endpoint *Endpoint
	message  *message.Message
	number   int
	round    int
	hedge    hedge
	ready    time.Time // since when it could have begun
	began    time.Time
	limited  time.Duration // how long it waited for the rate limit
	at       *member       // what the pass is for
	trial    bool          // of a half-open breaker
	// sampled says that its latency was counted, by whoever came first: its end,
	// or a hedge that overtook it.
	sampled atomic.Bool
}

// hedge says whether an attempt is one.
type hedge uint8

const (
	noHedge hedge = iota
	isHedge
)

// result is how an attempt ended.
type result struct {
	of      *attempt
	failure *failure.Error // nil for a success
	outcome message.Outcome
	record  message.Attempt
}

// start fills in an attempt for which the pass is taken.
func (s *stay) start(a *attempt, round int, h hedge) {
	now := time.Now()
	s.attempts++
	s.number++
	b := s.visited(a.pass.at)
	b.tried = true
	a.of, a.endpoint, a.message, a.number, a.round, a.hedge = s, s.at.endpoint(&a.pass), s.req.Message, s.number, round, h
	a.began, a.ready, a.at, a.trial = now, s.ready, a.pass.at, a.pass.trial
	if h == isHedge {
		a.ready = now
	}
	if b.sends != nil {
		a.message = b.sends
	}
	a.sampled.Store(false)
}

// endpoint is what the destination says of the member that a pass is for; of one
// that only a newer configuration knows, what that says.
func (d *Destination) endpoint(p *pass) *Endpoint {
	for i := range d.endpoints {
		if d.endpoints[i].EndpointName == p.at.name {
			return &d.endpoints[i]
		}
	}
	return p.spec
}

// make makes the attempt, gives back what it held and tells of it. ctx ends it
// early; its cause is errOvertaken where a hedge was faster.
func (a *attempt) make(ctx context.Context) result {
	s, opts := a.of, &a.of.at.fleet.opts
	traced, done := s.trace(ctx, a)
	end := a.began.Add(a.endpoint.Timeout)
	if !s.once.IsZero() {
		end = earlier(s.once, end)
	}
	f := redacted(opts, s.at.send(traced, end, a.endpoint, a.pass.line, a.message))
	ended := time.Now()
	var d retry.Decision
	if f != nil {
		f = overtaken(ctx, f)
		d = s.at.spec.Retry.Decide(f, a.round, 0)
	}
	member, post := a.at, s.at.lane.post
	there := f == nil || f.Tags.Highest(a.endpoint.DeliveredOn) > 0
	if answered := there || f.Tags.Has(failure.Timeout) && !ended.Before(end); answered && a.sampled.CompareAndSwap(false, true) {
		post.observe(member, ended.Sub(a.began))
	}
	post.leave(&a.pass, f, d.Hold)
	return a.finish(ended, f, d, done)
}

// finish tells of an attempt that is over and has given back what it held.
func (a *attempt) finish(ended time.Time, f *failure.Error, d retry.Decision, done func(message.Outcome, *failure.Error)) result {
	s := a.of
	if f != nil && f.Tags.Highest(a.endpoint.DeliveredOn) > 0 {
		f = nil
	}
	r := result{of: a, failure: f, outcome: outcomeOf(f, d)}
	r.record = message.Attempt{
		Number: a.number, Endpoint: a.at.name, At: a.began, Waited: a.began.Sub(a.ready),
		Duration: ended.Sub(a.began), Outcome: r.outcome, Hedge: a.hedge == isHedge,
	}
	done(r.outcome, f)
	e := event.Event{
		Kind: event.AttemptEnded, At: ended, Destination: s.at.spec.Name, Endpoint: a.at.name, Route: s.req.Route,
		MessageID: a.message.ID, Number: a.number, Outcome: r.outcome, Took: r.record.Duration, Waited: r.record.Waited,
		Limited: a.limited, Hedge: r.record.Hedge,
	}
	if f != nil {
		r.record.Tags, r.record.Error = f.Tags, failure.Clip(f.Error())
		e.Tags, e.Error = r.record.Tags, r.record.Error
	}
	s.at.fleet.opts.Events(e)
	return r
}

// trace begins to follow an attempt, where somebody does.
func (s *stay) trace(ctx context.Context, a *attempt) (context.Context, func(message.Outcome, *failure.Error)) {
	t := s.at.fleet.opts.Trace
	if t == nil {
		return ctx, untraced
	}
	return t.Attempt(ctx, AttemptInfo{
		Route: s.req.Route, Destination: s.at.spec.Name, Endpoint: a.at.name,
		MessageID: a.message.ID, Number: a.number, Waited: a.began.Sub(a.ready), Hedge: a.hedge == isHedge,
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

// send hands a message to a connector until end, and says how that failed; nil
// for a success. Where ctx ends first the attempt is cancelled.
func (d *Destination) send(ctx context.Context, end time.Time, e *Endpoint, n *line, m *message.Message) (f *failure.Error) {
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			d.fleet.opts.Log.Error("a connector panicked", "destination", d.spec.Name, "endpoint", e.EndpointName, "panic", p, "stack", string(debug.Stack()))
			f = &failure.Error{Message: "the connector panicked; see the log"}
		}
	}()
	answer, err := d.sendOne(within, n.dest, m)
	if err != nil {
		return classify(ctx, within, err)
	}
	return e.judge(within, answer)
}

// redacted returns the failure with the secrets taken out of its text.
func redacted(opts *Options, f *failure.Error) *failure.Error {
	if f == nil || opts.Redact == nil {
		return f
	}
	clean := *f
	clean.Message = opts.Redact(f.Error())
	return &clean
}

// classify makes sure that an attempt which ran out of time or was given up
// says so, whatever the connector made of it.
func classify(ctx, within context.Context, err error) *failure.Error {
	f := failure.From(err)
	switch {
	case ctx.Err() != nil && !f.Tags.Has(failure.Cancelled):
		return &failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral, Message: f.Message, Err: err}
	case errors.Is(within.Err(), context.DeadlineExceeded) && ctx.Err() == nil && (len(f.Tags) == 0 || f.Tags.Has(failure.Cancelled)):
		return &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: f.Message, Err: err}
	}
	return f
}

// judge asks the endpoint's own success expression about an answer.
func (e *Endpoint) judge(ctx context.Context, a connector.Answer) *failure.Error {
	if e.Success == nil {
		return nil
	}
	ok, err := e.Success(ctx, a)
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
