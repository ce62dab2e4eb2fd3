package relay

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
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/settle"
)

const ms = time.Millisecond

// endpoint is a destination that does what do says with every send.
type endpoint struct {
	do     func(ctx context.Context, m *message.Message) error
	mu     sync.Mutex
	got    []*message.Message // sends that succeeded
	sends  int
	closed int
}

func (e *endpoint) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	e.mu.Lock()
	e.sends++
	e.mu.Unlock()
	if err := e.do(ctx, m); err != nil {
		return connector.Answer{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, m)
	return connector.Answer{Status: 200}, nil
}

func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed++
	return nil
}

// closes returns how often it was closed.
func (e *endpoint) closes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// counts returns how many sends succeeded and how many there were.
func (e *endpoint) counts() (got, sends int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.got), e.sends
}

func takes() *endpoint {
	return &endpoint{do: func(context.Context, *message.Message) error { return nil }}
}

// refuses answers everything with the status.
func refuses(code int) *endpoint {
	return &endpoint{do: func(context.Context, *message.Message) error { return failure.FromStatus(code, 0) }}
}

// slow takes that long for each.
func slow(d time.Duration) *endpoint {
	return &endpoint{do: func(ctx context.Context, _ *message.Message) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return givenUp(ctx)
		}
	}}
}

func givenUp(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: "no answer in time"}
	}
	return &failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral, Message: "given up"}
}

// shelf keeps dead letters, and fails while err is set.
type shelf struct {
	mu      sync.Mutex
	letters []*message.DeadLetter
	err     error
	tries   int
}

func (s *shelf) put(ctx context.Context, l *message.DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.err != nil {
		return s.err
	}
	s.letters = append(s.letters, l)
	return nil
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *shelf) all() []*message.DeadLetter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*message.DeadLetter(nil), s.letters...)
}

// rig is a relay in a bubble of virtual time.
type rig struct {
	*testing.T
	fleet *deliver.Fleet
	relay *Relay
	shelf shelf
	began time.Time

	mu     sync.Mutex
	events []event.Event
	count  int
	random func() float64 // of the jitter; called with mu held
}

// inBubble runs the test in virtual time and checks at its end that every lane
// and every source is empty.
func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, began: time.Now(), random: func() float64 { return 0.5 }}
		r.fleet = deliver.NewFleet(deliver.Options{Events: r.take, Random: func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.random()
		}})
		r.relay = New(Options{Name: "shop", Fleet: r.fleet, Letters: r.shelf.put, Events: r.take, Memory: settle.NewMemory(settle.Options{})})
		test(r)
		synctest.Wait()
		r.nothingLeft()
		r.fleet.Close()
	})
}

func (r *rig) nothingLeft() {
	r.Helper()
	for _, s := range r.fleet.Status() {
		if s.Pending != 0 || s.Busy != 0 || s.Waiting != 0 {
			r.Errorf("lane %s is not empty at the end: %d places, %d workers, %d waits", s.Destination, s.Pending, s.Busy, s.Waiting)
		}
	}
	st := r.relay.Status()
	for _, s := range st.Sources {
		if s.InFlight != 0 || s.Bytes != 0 {
			r.Errorf("source %s has %d messages and %d bytes open at the end", s.Source, s.InFlight, s.Bytes)
		}
	}
	if n := r.relay.InFlight(); n != 0 || st.Draining != 0 {
		r.Errorf("%d messages in flight and %d generations draining at the end", n, st.Draining)
	}
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	if r.relay.current != nil && r.relay.current.open != 0 {
		r.Errorf("the generation is used by %d messages at the end", r.relay.current.open)
	}
}

func (r *rig) take(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

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

func spec(name string, e *endpoint, changes ...func(*deliver.Spec)) deliver.Spec {
	s := deliver.Spec{Name: name, Endpoint: deliver.Endpoint{Connector: e, Timeout: 5 * time.Second}, Retry: retry.Resolve(), Workers: 64, MaxPending: 512}
	for _, c := range changes {
		c(&s)
	}
	return s
}

func places(n int) func(*deliver.Spec) {
	return func(s *deliver.Spec) { s.MaxPending, s.Workers = n, n }
}

func guarded(s *deliver.Spec) {
	b := breaker.Defaults()
	s.Breaker = &b
}

// setup is a configuration in short.
type setup struct {
	specs   []deliver.Spec
	routes  func(to func(name string) Target) []*Route
	sources []SourceSpec
}

// web is a source with the default bounds that refuses when full.
func web() SourceSpec {
	return SourceSpec{Name: "web", MaxInFlight: 4096, MaxInFlightBytes: 64 << 20}
}

func (r *rig) configure(c setup) {
	r.Helper()
	set, err := r.fleet.Configure(c.specs)
	if err != nil {
		r.Fatal(err)
	}
	if c.sources == nil {
		c.sources = []SourceSpec{web()}
	}
	routes := c.routes(func(name string) Target {
		d, ok := set.Destination(name)
		if !ok {
			panic("no destination " + name)
		}
		return Target{To: d}
	})
	bySource := map[string][]*Route{}
	for _, s := range c.sources {
		bySource[s.Name] = routes
	}
	if _, err := r.relay.Swap(Config{Routes: bySource, Destinations: set, Sources: c.sources}); err != nil {
		r.Fatal(err)
	}
}

// toAll is one route for each destination, named after it.
func toAll(names ...string) func(func(string) Target) []*Route {
	return func(to func(string) Target) (routes []*Route) {
		for _, n := range names {
			routes = append(routes, &Route{Name: "to-" + n, Choose: chooses(to(n))})
		}
		return routes
	}
}

func chooses(targets ...Target) func(context.Context, *message.Message) ([]Target, error) {
	return func(context.Context, *message.Message) ([]Target, error) { return targets, nil }
}

func bestEffort(t Target) Target { t.Required = BestEffort; return t }

// next makes a delivery with a fresh id.
func (r *rig) next(source string) connector.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	id := fmt.Sprintf("m%d", r.count)
	return connector.Delivery{Message: &message.Message{ID: id, Source: source, Time: time.Now(), Body: []byte("body of " + id)}}
}

// handle settles a delivery of the source its message names.
func (r *rig) handle(ctx context.Context, d connector.Delivery) connector.Settlement {
	h, err := r.relay.Handler(d.Message.Source)
	if err != nil {
		panic(err)
	}
	return h.Handle(ctx, d)
}

// send settles a fresh message of the source web.
func (r *rig) send() connector.Settlement { return r.handle(r.Context(), r.next("web")) }

// start settles in the background.
func (r *rig) start(ctx context.Context, d connector.Delivery) <-chan connector.Settlement {
	done := make(chan connector.Settlement, 1)
	go func() { done <- r.handle(ctx, d) }()
	synctest.Wait()
	return done
}

// goOn starts a fresh message of web.
func (r *rig) goOn() <-chan connector.Settlement { return r.start(r.Context(), r.next("web")) }

// pending reports whether nothing has come yet.
func pending(c <-chan connector.Settlement) bool {
	synctest.Wait()
	select {
	case s := <-c:
		panic(fmt.Sprintf("settled already: %+v", s))
	default:
		return true
	}
}

func (r *rig) lane(name string) deliver.LaneStatus {
	for _, s := range r.fleet.Status() {
		if s.Destination == name {
			return s
		}
	}
	return deliver.LaneStatus{}
}

func (r *rig) at() time.Duration { return time.Since(r.began) }
