package deliver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// act is what an endpoint does with one send.
type act struct {
	after  time.Duration // how long it takes
	err    *failure.Error
	raw    error // an error that nobody classified
	answer connector.Answer
	hangs  bool // until ctx ends
	panics bool
}

var (
	well   = act{answer: connector.Answer{Status: 200}}
	hangs  = act{hangs: true}
	reset  = act{err: &failure.Error{Tags: failure.Tags{failure.Connect}, Message: "connection refused"}}
	panics = act{panics: true}
)

func status(code int) act { return act{err: failure.FromStatus(code, 0)} }

// asks is an answer that asks to wait.
func asks(code int, wait time.Duration) act { return act{err: failure.FromStatus(code, wait)} }

func (a act) taking(d time.Duration) act { a.after = d; return a }

// endpoint is a destination that does what its script says, then always the
// same.
type endpoint struct {
	mu     sync.Mutex
	script []act
	always act
	sends  []sent
	open   int
	peak   int
	closed int
	late   int // sends after Close, or open at it
}

type sent struct {
	at   time.Time
	id   string
	body string
}

func always(a act, script ...act) *endpoint { return &endpoint{always: a, script: script} }

func (e *endpoint) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	e.mu.Lock()
	a := e.always
	if len(e.script) > 0 {
		a, e.script = e.script[0], e.script[1:]
	}
	e.sends = append(e.sends, sent{time.Now(), m.ID, string(m.Body)})
	e.open++
	e.peak = max(e.peak, e.open)
	if e.closed > 0 {
		e.late++
	}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.open--
		if e.closed > 0 {
			e.late++
		}
	}()
	if a.panics {
		panic("boom")
	}
	if a.hangs {
		<-ctx.Done()
		return connector.Answer{}, givenUp(ctx)
	}
	if !sleep(ctx, a.after) {
		return connector.Answer{}, givenUp(ctx)
	}
	switch {
	case a.raw != nil:
		return connector.Answer{}, a.raw
	case a.err != nil:
		return connector.Answer{}, a.err
	}
	return a.answer, nil
}

func givenUp(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: "no answer in time", Err: ctx.Err()}
	}
	return &failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral, Message: "given up", Err: ctx.Err()}
}

func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed++
	e.late += e.open
	return nil
}

// closes returns how often it was closed.
func (e *endpoint) closes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// lates returns how many sends were open at or after its end.
func (e *endpoint) lates() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.late
}

// change gives the endpoint another habit.
func (e *endpoint) change(a act) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.always = a
}

func (e *endpoint) seen() []sent {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]sent(nil), e.sends...)
}

// rig is a fleet in a bubble of virtual time.
type rig struct {
	*testing.T
	fleet  *Fleet
	set    *Set
	began  time.Time
	mu     sync.Mutex
	events []event.Event
	count  int
}

// inBubble runs the test in virtual time and checks at its end that every lane
// is empty.
func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, began: time.Now()}
		r.fleet = NewFleet(Options{Events: r.take, Random: func() float64 { return 0.5 }})
		test(r)
		synctest.Wait()
		r.nothingLeft()
		r.fleet.Close()
	})
}

func (r *rig) take(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// told returns the events of a kind.
func (r *rig) told(k event.Kind) (found []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

// nothingLeft fails the test where a place, a worker or a wait is left.
func (r *rig) nothingLeft() {
	r.Helper()
	for _, s := range r.fleet.Status() {
		if s.Pending != 0 || s.Busy != 0 || s.Waiting != 0 {
			r.Errorf("lane %s is not empty at the end: %d places, %d workers, %d waits", s.Destination, s.Pending, s.Busy, s.Waiting)
		}
		r.fleet.mu.Lock()
		l := r.fleet.lanes[s.Destination]
		r.fleet.mu.Unlock()
		l.post.mu.Lock()
		for _, m := range l.post.group.members {
			if n := m.gate.ramp.InFlight(); n != 0 || m.gate.busy != 0 {
				r.Errorf("%s has %d left on its ramp and %d in flight", m.name, n, m.gate.busy)
			}
			if b := m.gate.breaker; b != nil && b.Snapshot(time.Now()).Trials != 0 {
				r.Errorf("%s has trials left", m.name)
			}
			if m.line.uses != 0 {
				r.Errorf("the connector of %s is in use", m.name)
			}
		}
		l.post.mu.Unlock()
	}
}

// spec is a destination with the defaults of the reference, but for the
// breaker, which is off unless a test asks for it.
func spec(name string, e connector.Destination, changes ...func(*Spec)) Spec {
	s := Spec{
		Name: name, Endpoint: Endpoint{Connector: e, Timeout: 5 * time.Second}, Retry: retry.Resolve(),
		Workers: 64, MaxPending: 512,
	}
	for _, c := range changes {
		c(&s)
	}
	return s
}

func attempts(n int) func(*Spec)        { return func(s *Spec) { s.Retry.Attempts = n } }
func fallback(to ...string) func(*Spec) { return func(s *Spec) { s.Fallback = to } }
func deadline(d time.Duration) func(*Spec) {
	return func(s *Spec) { s.Deadline = d }
}
func timeout(d time.Duration) func(*Spec) { return func(s *Spec) { s.Timeout = d } }
func ttl(d time.Duration) func(*Spec)     { return func(s *Spec) { s.TTL = d } }
func workers(n int) func(*Spec)           { return func(s *Spec) { s.Workers = n } }
func places(n int) func(*Spec)            { return func(s *Spec) { s.MaxPending = n } }
func failWhenOpen(s *Spec)                { s.WhenOpen = FailWhenOpen }

// guarded turns on a breaker that the given number of messages opens.
func guarded(messages int) func(*Spec) {
	b := breaker.Defaults()
	b.MinRequests, b.HalfOpenMax = messages, 1
	return func(s *Spec) { s.Breaker = &b }
}

func (r *rig) configure(specs ...Spec) {
	r.Helper()
	set, err := r.fleet.Configure(specs)
	if err != nil {
		r.Fatal(err)
	}
	r.set = set
}

// deliver takes one message through a destination's lane.
func (r *rig) deliver(ctx context.Context, to string) Result {
	r.mu.Lock()
	r.count++
	id := fmt.Sprintf("m%d", r.count)
	r.mu.Unlock()
	d, ok := r.set.Destination(to)
	if !ok {
		panic("no destination " + to)
	}
	place, err := d.EnterWait(ctx)
	if err != nil {
		panic(err)
	}
	m := &message.Message{ID: id, Source: "web", Time: time.Now(), Body: []byte("body of " + id)}
	return d.Deliver(ctx, Request{Message: m, Route: "orders", Place: place})
}

// start delivers in the background; the result comes on the channel.
func (r *rig) start(ctx context.Context, to string) <-chan Result {
	done := make(chan Result, 1)
	go func() { done <- r.deliver(ctx, to) }()
	synctest.Wait()
	return done
}

// at is the time since the test began.
func (r *rig) at() time.Duration { return time.Since(r.began) }

// times are the moments of an endpoint's sends since the test began.
func (r *rig) times(e *endpoint) (at []time.Duration) {
	for _, s := range e.seen() {
		at = append(at, s.at.Sub(r.began))
	}
	return at
}

// reasons are the hops of a result in short: "a exhausted, b permanent".
func reasons(res Result) (s string) {
	for i, h := range res.Hops {
		if i > 0 {
			s += ", "
		}
		s += h.Destination + " " + string(h.Reason)
	}
	return s
}

func (r *rig) lane(name string) LaneStatus {
	for _, s := range r.fleet.Status() {
		if s.Destination == name {
			return s
		}
	}
	r.Fatalf("no lane %s", name)
	return LaneStatus{}
}

// stubborn takes two seconds, whatever ctx says, and succeeds.
type stubborn struct{}

func (stubborn) Send(context.Context, *message.Message) (connector.Answer, error) {
	time.Sleep(2 * time.Second)
	return connector.Answer{}, nil
}

func (stubborn) Close() error { return nil }
