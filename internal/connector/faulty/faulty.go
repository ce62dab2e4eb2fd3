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
			return newDestination(nil, settings)
		},
		Pipe: true,
	}
}

// Wrap puts faults in front of dest. Closing it closes dest. It can be asked
// for its health where dest can; a health check meets no fault. An error is
// about the settings.
func Wrap(dest connector.Destination, s *Settings) (connector.Destination, error) {
	d, err := newDestination(dest, s)
	if err != nil {
		return nil, err
	}
	if h, ok := dest.(connector.HealthChecker); ok {
		return checked{d, h}, nil
	}
	return d, nil
}

// checked is a wrapped destination that can be asked for its health.
type checked struct {
	*destination
	connector.HealthChecker
}

// fault is what happens to one attempt.
type fault int

const (
	none fault = iota
	fails
	hangs
	resets
)

// draw is the fault and the latency of one attempt.
type draw struct {
	fault fault
	wait  time.Duration
}

// destination is safe for concurrent use.
type destination struct {
	next     connector.Destination // nil: this is the endpoint itself
	status   int
	retry    time.Duration
	attempts atomic.Uint64
	pick     func(n uint64) draw      // for the nth attempt, from 0
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
	return &destination{next: next, status: s.Status, retry: s.RetryAfter.D(), pick: picker(*s, wait)}, nil
}

// picker draws from a generator of the seed and the attempt's number.
func picker(s Settings, wait latency) func(uint64) draw {
	return func(n uint64) draw {
		r := rand.New(rand.NewPCG(s.Seed, n))
		u := r.Float64()
		d := draw{wait: wait.at(r.Float64())}
		switch {
		case u < float64(s.Hang):
			d.fault = hangs
		case u < float64(s.Hang+s.Reset):
			d.fault = resets
		case u < float64(s.Hang+s.Reset+s.Fail):
			d.fault = fails
		}
		return d
	}
}

// Send makes one attempt.
func (d *destination) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	if err := ctx.Err(); err != nil {
		return connector.Answer{}, ended(ctx)
	}
	if d.arrived != nil {
		d.arrived(m)
	}
	drawn := d.pick(d.attempts.Add(1) - 1)
	if drawn.fault == hangs {
		<-ctx.Done()
		return connector.Answer{}, ended(ctx)
	}
	if err := sleep(ctx, drawn.wait); err != nil {
		return connector.Answer{}, err
	}
	switch drawn.fault {
	case resets:
		return connector.Answer{}, &failure.Error{
			Tags: failure.Tags{failure.Connect}, Class: failure.Transient, Verdict: failure.Sick,
			Message: "connection reset by the faulty endpoint",
		}
	case fails:
		return d.answer(), failure.FromStatus(d.status, d.retry)
	case none, hangs:
	}
	if d.next != nil {
		return d.next.Send(ctx, m)
	}
	return connector.Answer{Status: http.StatusOK, Header: http.Header{}}, nil
}

// answer is that of a failed attempt.
func (d *destination) answer() connector.Answer {
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
