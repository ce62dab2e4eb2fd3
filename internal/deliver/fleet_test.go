package deliver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

func TestConfigureRefuses(t *testing.T) {
	e := always(well)
	tests := []struct {
		name  string
		specs []Spec
		want  string
	}{
		{"a name twice", []Spec{spec("a", e), spec("a", e)}, `destination "a" is there twice`},
		{"an unknown fallback", []Spec{spec("a", e, fallback("b"))}, `falls back to "b", which is not there`},
		{"itself", []Spec{spec("a", e, fallback("a"))}, `destination "a" falls back to itself`},
		{"a cycle", []Spec{spec("a", e, fallback("b")), spec("b", e, fallback("c")), spec("c", e, fallback("b"))}, "falls back to itself"},
	}
	for _, test := range tests {
		inBubble(t, func(r *rig) {
			old := always(well)
			r.configure(spec("a", old))
			_, err := r.fleet.Configure(test.specs)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", test.name, err, test.want)
			}
			if old.closes() != 0 || r.deliver(r.Context(), "a").Status != Delivered {
				t.Errorf("%s: a refused configuration changed something", test.name)
			}
		})
	}
}

func TestADestinationStandsOnceInAChain(t *testing.T) {
	inBubble(t, func(r *rig) {
		no := always(status(400))
		r.configure(spec("a", no, fallback("b", "c")), spec("b", no, fallback("d")), spec("c", no, fallback("d", "e")), spec("d", no), spec("e", no))
		res := r.deliver(r.Context(), "a")
		if want := "a permanent, b permanent, d permanent, c permanent, e permanent"; reasons(res) != want {
			t.Errorf("left %q, want %q", reasons(res), want)
		}
	})
}

// The old connector is closed after its last send; messages that wait, those
// of the old configuration too, take the new one.
func TestAConnectorIsSwapped(t *testing.T) {
	inBubble(t, func(r *rig) {
		old, fresh := always(well.taking(time.Second)), always(well.taking(time.Second))
		r.configure(spec("a", old, workers(1)))
		first, second := r.start(r.Context(), "a"), r.start(r.Context(), "a")
		time.Sleep(500 * ms)
		r.configure(spec("a", fresh, workers(1)))
		if old.closes() != 0 {
			t.Error("closed under a send")
		}
		<-first
		synctest.Wait()
		if old.closes() != 1 {
			t.Error("not closed after the last send")
		}
		<-second
		if len(old.seen()) != 1 || len(fresh.seen()) != 1 || old.lates()+fresh.lates() != 0 {
			t.Errorf("old got %d, new %d, %d sends on a closed one", len(old.seen()), len(fresh.seen()), old.lates()+fresh.lates())
		}
		r.configure(spec("a", fresh, workers(1)))
		if fresh.closes() != 0 {
			t.Error("handing in the same connector closed it")
		}
		third := always(well)
		r.configure(spec("a", third))
		if fresh.closes() != 1 {
			t.Error("an idle one is not closed at once")
		}
	})
}

func TestEndpointStateLivesOnOverReloads(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, guarded(1), attempts(1), failWhenOpen))
		r.deliver(r.Context(), "a")
		r.configure(spec("a", a, guarded(1), attempts(1), failWhenOpen))
		if res := r.deliver(r.Context(), "a"); reasons(res) != "a breaker_open" {
			t.Errorf("left %q: the reload forgot the breaker", reasons(res))
		}
		a.change(asks(429, 8*time.Second))
		r.configure(spec("a", a, attempts(1)))
		r.deliver(r.Context(), "a")
		r.configure(spec("a", a, attempts(1), deadline(time.Second)))
		if res := r.deliver(r.Context(), "a"); reasons(res) != "a deadline" || res.Attempts != 0 {
			t.Errorf("left %q after %d attempts: the reload forgot the hold", reasons(res), res.Attempts)
		}
	})
}

// A reload takes the breaker away under a send, another brings one back: the
// send ends with the breaker it began at, and its message may be tried again.
func TestABreakerComesAndGoesUnderASend(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503).taking(time.Second))
		r.configure(spec("a", a, guarded(5), attempts(3)))
		c := r.start(r.Context(), "a")
		r.configure(spec("a", a, attempts(3)))
		r.configure(spec("a", a, guarded(5), attempts(3)))
		time.Sleep(1500 * ms)
		r.configure(spec("a", a, attempts(3)))
		if res := <-c; reasons(res) != "a exhausted" || res.Attempts != 3 {
			t.Errorf("left %q after %d attempts", reasons(res), res.Attempts)
		}
	})
}

// Those who wait hear of a reload that shortens the open time.
func TestAReloadThatShortensTheOpenTime(t *testing.T) {
	inBubble(t, func(r *rig) {
		open := func(d time.Duration) func(*Spec) {
			return func(s *Spec) { s.Breaker.OpenFor, s.Breaker.MaxOpenFor = d, d }
		}
		a := always(well, status(503))
		r.configure(spec("a", a, guarded(1), open(time.Hour)))
		c := r.start(r.Context(), "a")
		time.Sleep(time.Second)
		r.configure(spec("a", a, guarded(1), open(5*time.Second)))
		if res := <-c; res.Status != Delivered || res.Took != 6*time.Second {
			t.Errorf("%s after %v, want delivered after 6s", reasons(res), res.Took)
		}
	})
}

// Whoever hears an event may look at the status: no lock is held then. And a
// breaker whose open time is over is told of although nobody sends.
func TestEventsAreSentWithoutLocks(t *testing.T) {
	inBubble(t, func(r *rig) {
		moved := 0
		r.fleet.opts.Events = func(e event.Event) {
			r.fleet.Status()
			if e.Kind == event.BreakerMoved && e.Breaker == event.BreakerHalfOpen {
				moved++
			}
		}
		r.configure(spec("a", always(status(503)), guarded(1), attempts(1)))
		r.deliver(r.Context(), "a")
		time.Sleep(5 * time.Second)
		if r.lane("a"); moved != 1 {
			t.Errorf("told %d times of the half-open breaker, want once", moved)
		}
		r.deliver(r.Context(), "a")
		time.Sleep(10 * time.Second)
		r.configure(spec("a", always(well), guarded(1), attempts(1)))
		if moved != 2 {
			t.Errorf("told %d times of the half-open breaker, want twice", moved)
		}
	})
}

func TestMoreWorkersServeThoseWhoWait(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well.taking(time.Second))
		r.configure(spec("a", a, workers(1)))
		var all []<-chan Result
		for range 4 {
			all = append(all, r.start(r.Context(), "a"))
		}
		r.configure(spec("a", a, workers(4)))
		for _, c := range all {
			if res := <-c; res.Took != time.Second {
				t.Errorf("took %v", res.Took)
			}
		}
	})
}

func TestRetire(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b, c := always(well), always(well), always(well)
		r.configure(spec("a", a), spec("b", b))
		first := r.set
		r.configure(spec("b", b), spec("c", c))
		second := r.set
		if a.closes()+b.closes()+c.closes() != 0 {
			t.Errorf("closed: a %d, b %d, c %d; both configurations are in use", a.closes(), b.closes(), c.closes())
		}
		r.fleet.Retire(first)
		if a.closes() != 1 || b.closes()+c.closes() != 0 || len(r.fleet.Status()) != 2 {
			t.Errorf("closed: a %d, b %d, c %d, want a alone", a.closes(), b.closes(), c.closes())
		}
		if res := r.deliver(r.Context(), "b"); res.Status != Delivered || b.lates() != 0 {
			t.Error("b does not work any more")
		}
		r.configure(spec("c", c))
		r.fleet.Retire(second)
		if b.closes() != 1 || c.closes() != 0 {
			t.Errorf("closed: b %d, c %d, want b alone", b.closes(), c.closes())
		}
		r.fleet.Close()
		if c.closes() != 1 {
			t.Error("Close left one open")
		}
	})
}

func TestEvents(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := always(well)
		r.configure(spec("a", always(status(503).taking(ms)), attempts(2), fallback("b")), spec("b", b))
		r.deliver(r.Context(), "a")
		r.configure(spec("a", always(status(400)), fallback("b")), spec("b", always(reset), attempts(1)))
		r.deliver(r.Context(), "a")
		tags, conn := failure.Tags{"5xx", "503"}, failure.Tags{"connect"}
		unavailable, bad := "HTTP 503 Service Unavailable", "HTTP 400 Bad Request"
		at := func(d time.Duration) time.Time { return r.began.Add(d) }
		attempt := func(id, to string, n int, o message.Outcome, waited, took, when time.Duration, tags failure.Tags, err string) event.Event {
			return event.Event{Kind: event.AttemptEnded, At: at(when), Destination: to, Endpoint: to, Route: "orders",
				MessageID: id, Number: n, Outcome: o, Waited: waited, Took: took, Tags: tags, Error: err}
		}
		hop := func(id, from, to string, why message.HopReason, when time.Duration, tags failure.Tags, err string) event.Event {
			return event.Event{Kind: event.Hopped, At: at(when), Destination: from, To: to, Route: "orders",
				MessageID: id, Hop: why, Tags: tags, Error: err}
		}
		want := []event.Event{
			attempt("m1", "a", 1, message.OutcomeRetry, 0, ms, ms, tags, unavailable),
			attempt("m1", "a", 2, message.OutcomeRetry, 100*ms, ms, 102*ms, tags, unavailable),
			hop("m1", "a", "b", message.HopExhausted, 102*ms, tags, unavailable),
			attempt("m1", "b", 1, message.OutcomeOK, 0, 0, 102*ms, nil, ""),
			{Kind: event.Delivered, At: at(102 * ms), Route: "orders", Destination: "a", Endpoint: "b", MessageID: "m1", Number: 3, Took: 102 * ms},
			attempt("m2", "a", 1, message.OutcomePermanent, 0, 0, 102*ms, failure.Tags{"4xx", "400"}, bad),
			hop("m2", "a", "b", message.HopPermanent, 102*ms, failure.Tags{"4xx", "400"}, bad),
			attempt("m2", "b", 1, message.OutcomeRetry, 0, 0, 102*ms, conn, "connection refused"),
			hop("m2", "b", "", message.HopExhausted, 102*ms, conn, "connection refused"),
			{Kind: event.DeliveryFailed, At: at(102 * ms), Route: "orders", Destination: "a", MessageID: "m2", Number: 2, Required: true,
				Hop: message.HopExhausted, Tags: conn, Error: "connection refused"},
		}
		if diff := cmp.Diff(want, r.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// Hops and attempts are what a dead letter tells: nothing may be missing.
func TestTheStoryOfAFailure(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(spec("a", always(status(400), asks(503, 2*time.Second).taking(ms)), fallback("b")), spec("b", always(reset), attempts(1)))
		res := r.deliver(r.Context(), "a")
		at := func(d time.Duration) time.Time { return r.began.Add(d) }
		want := []message.Hop{
			{Destination: "a", Reason: message.HopPermanent, At: at(2001 * ms), Tags: failure.Tags{"4xx", "400"}, Error: "HTTP 400 Bad Request",
				Attempts: []message.Attempt{
					{Number: 1, Endpoint: "a", At: at(0), Duration: ms, Outcome: message.OutcomeRetry, Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503 Service Unavailable"},
					{Number: 2, Endpoint: "a", At: at(2001 * ms), Waited: 2 * time.Second, Outcome: message.OutcomePermanent, Tags: failure.Tags{"4xx", "400"}, Error: "HTTP 400 Bad Request"},
				}},
			{Destination: "b", Reason: message.HopExhausted, At: at(2001 * ms), Tags: failure.Tags{"connect"}, Error: "connection refused",
				Attempts: []message.Attempt{
					{Number: 1, Endpoint: "b", At: at(2001 * ms), Outcome: message.OutcomeRetry, Tags: failure.Tags{"connect"}, Error: "connection refused"},
				}},
		}
		if diff := cmp.Diff(want, res.Hops); diff != "" {
			t.Errorf("hops (-want +got):\n%s", diff)
		}
	})
}

func TestKeyIsTheSameOnEveryAttempt(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(status(503)), always(well, reset)
		r.configure(spec("a", a, fallback("b")), spec("b", b))
		r.deliver(r.Context(), "a")
		for _, s := range append(a.seen(), b.seen()...) {
			if s.id != "m1" {
				t.Errorf("sent as %s", s.id)
			}
		}
	})
}
