// Package faulty is the destination of type faulty: an endpoint with scripted
// failures, for tests, the demo and chaos. It looks to the relay like an HTTP
// endpoint: an answer takes its latency, then it is 200, or the failure of the
// configured status, or none at all.
//
// The fault of the nth attempt depends on the seed and on n alone, so that a
// run can be repeated. Attempts that are made at the same time share the faults
// of their numbers in the order they begin.
//
// Wrap puts the same faults in front of another destination; attempts without
// a fault reach it.
package faulty

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// DestinationKind declares the destination of type faulty.
func DestinationKind() connector.DestinationKind {
	return connector.DestinationKind{
		Type: "faulty",
		Doc:  "Takes messages and stores nothing, with scripted failures: for tests and demos.",
		New:  func() connector.Settings { return NewSettings() },
		Open: func(s connector.Settings, _ connector.Env) (connector.Destination, error) {
			settings, ok := s.(*Settings)
			if !ok {
				return nil, fmt.Errorf("faulty: settings of type %T", s)
			}
			return newEndpoint(settings)
		},
		Pipe: true, Batches: true, Checks: true,
	}
}

// Wrap puts faults in front of dest. Closing it closes dest. It can be asked
// for its health and take batches where dest can; a health check meets no fault,
// a batch is one attempt. tell is told of
// the fault of each attempt, as soon as it is drawn, by several goroutines at
// once; nil tells nobody. An error is about the settings.
func Wrap(dest connector.Destination, s *Settings, tell func(Fault)) (connector.Destination, error) {
	d, err := newDestination(dest, s)
	if err != nil {
		return nil, err
	}
	if tell != nil {
		d.tell = tell
	}
	return d.wrapped(dest), nil
}

// Fault is what happens to one attempt.
type Fault int

// The faults.
const (
	None     Fault = iota // it passes
	Fails                 // answered with the status
	Hangs                 // never answered, and never there
	Resets                // its connection breaks, and it is never there
	SlowBody              // it is there, and the answer's body never ends
)

// String returns the fault's setting, or none.
func (f Fault) String() string {
	switch f {
	case Fails:
		return "fail"
	case Hangs:
		return "hang"
	case Resets:
		return "reset"
	case SlowBody:
		return "slow_body"
	default:
		return "none"
	}
}

// draw is the fault and the latency of one attempt.
type draw struct {
	fault Fault
	wait  time.Duration
}

// destination is safe for concurrent use.
type destination struct {
	next     connector.Destination // nil: this is the endpoint itself
	status   int
	retry    time.Duration
	attempts atomic.Uint64
	pick     func(n uint64) draw      // for the nth attempt, from 0
	tell     func(Fault)              // told of each draw; never nil
	arrived  func(m *message.Message) // told of each attempt; nil outside tests
}

func newDestination(next connector.Destination, s *Settings) (*destination, error) {
	for _, p := range s.Check() {
		return nil, errors.New("faulty: " + p.Message)
	}
	wait, err := parseLatency(s.Latency)
	if err != nil {
		return nil, fmt.Errorf("faulty: %w", err)
	}
	return &destination{
		next: next, status: s.Status, retry: s.RetryAfter.D(), pick: picker(*s, wait), tell: func(Fault) {},
	}, nil
}

// picker draws from a generator of the seed and the attempt's number.
func picker(s Settings, wait latency) func(uint64) draw {
	return func(n uint64) draw {
		r := rand.New(rand.NewPCG(s.Seed, n))
		u := r.Float64()
		d := draw{wait: wait.at(r.Float64())}
		switch {
		case u < float64(s.Hang):
			d.fault = Hangs
		case u < float64(s.Hang+s.Reset):
			d.fault = Resets
		case u < float64(s.Hang+s.Reset+s.Fail):
			d.fault = Fails
		case u < float64(s.Hang+s.Reset+s.Fail+s.SlowBody):
			d.fault = SlowBody
		}
		return d
	}
}

// Send makes one attempt.
func (d *destination) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	answer := connector.Answer{Status: http.StatusOK, Header: http.Header{}}
	met, err := d.attempt(ctx, []*message.Message{m}, func() (err error) {
		if d.next != nil {
			answer, err = d.next.Send(ctx, m)
		}
		return err
	})
	if met != None {
		return d.answer(met), err
	}
	return answer, err
}

// attempt makes one attempt with the messages, which pass hands on where no fault
// comes before. It returns the fault that the attempt met: an answer that came in
// spite of it is none.
func (d *destination) attempt(ctx context.Context, messages []*message.Message, pass func() error) (Fault, error) {
	if err := ctx.Err(); err != nil {
		return Hangs, ended(ctx)
	}
	if d.arrived != nil {
		for _, m := range messages {
			d.arrived(m)
		}
	}
	drawn := d.pick(d.attempts.Add(1) - 1)
	d.tell(drawn.fault)
	if drawn.fault == Hangs {
		<-ctx.Done()
		return Hangs, ended(ctx)
	}
	if err := sleep(ctx, drawn.wait); err != nil {
		return Hangs, err
	}
	switch drawn.fault {
	case Resets:
		return Resets, &failure.Error{
			Tags: failure.Tags{failure.Connect}, Class: failure.Transient, Verdict: failure.Sick,
			Message: "connection reset by the faulty endpoint",
		}
	case Fails:
		return Fails, failure.FromStatus(d.status, d.retry)
	case None, Hangs, SlowBody:
	}
	err := pass()
	if drawn.fault == SlowBody && err == nil {
		<-ctx.Done() // an answer whose body has not ended is none
		return SlowBody, ended(ctx)
	}
	return None, err
}

// answer is what an attempt hears that met the fault.
func (d *destination) answer(f Fault) connector.Answer {
	if f != Fails {
		return connector.Answer{}
	}
	a := connector.Answer{Status: d.status, Header: http.Header{}}
	if d.retry > 0 {
		seconds := int64(math.Ceil(d.retry.Seconds()))
		a.Header.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	return a
}

// Close closes the wrapped destination, if there is one.
func (d *destination) Close() error {
	if d.next == nil {
		return nil
	}
	return d.next.Close()
}

// sleep waits, or returns the failure of a ctx that ended first.
func sleep(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ended is the failure of an attempt whose ctx ended.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &failure.Error{
			Tags: failure.Tags{failure.Timeout}, Class: failure.Transient, Verdict: failure.Sick,
			Message: "no answer within the timeout", Err: ctx.Err(),
		}
	}
	return &failure.Error{
		Tags: failure.Tags{failure.Cancelled}, Class: failure.Transient, Verdict: failure.Neutral,
		Message: "given up before an answer", Err: ctx.Err(),
	}
}
