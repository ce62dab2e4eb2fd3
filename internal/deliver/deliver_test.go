package deliver

// Catches: a destination left too early, too late or with the wrong reason; a
// schedule that is not the one on paper; a deadline that ends the message
// instead of its retrying, or does not end that; a place, worker, trial or wait
// that leaks; one sick destination that hurts another. Everything runs in
// virtual time against scripted endpoints, and every test ends with the check
// that all lanes are empty.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

const ms = time.Millisecond

func TestWhyADestinationIsLeft(t *testing.T) {
	boom := func(context.Context, *message.Message) (*message.Message, error) {
		return nil, errors.New("no such field")
	}
	tests := []struct {
		name   string
		a      func(e *endpoint) []Spec // destinations; a is the head
		first  *endpoint
		want   string // hops
		status Status
		tries  int
	}{
		{"arrives at once", only(), always(well), "", Delivered, 1},
		{"arrives at the last try", only(), always(well, status(503), reset, status(500), status(429)), "", Delivered, 5},
		{"exhausted", only(), always(status(503)), "a exhausted", Failed, 5},
		{"one attempt is no retry", only(attempts(1)), always(status(503)), "a exhausted", Failed, 1},
		{"permanent", only(), always(status(400)), "a permanent", Failed, 1},
		{"permanent after a retry", only(), always(status(404), status(503)), "a permanent", Failed, 2},
		{"a certificate", only(), always(act{err: &failure.Error{Tags: failure.Tags{failure.TLS}, Class: failure.Permanent}}), "a permanent", Failed, 1},
		{"an error nobody classified is retried", only(), always(act{raw: errors.New("what?")}), "a exhausted", Failed, 5},
		{"a panic is retried", only(), always(panics), "a exhausted", Failed, 5},
		{"the timeout", only(attempts(2)), always(hangs), "a exhausted", Failed, 2},
		{"the deadline", only(deadline(time.Second)), always(status(503)), "a deadline", Failed, 4},
		{"too old", only(ttl(time.Second)), always(status(503)), "a permanent", Failed, 4},
		{"its transform", only(func(s *Spec) { s.Transform = boom }), always(well), "a permanent", Failed, 0},
		{"a fallback has it", withB(well), always(status(503)), "a exhausted", Delivered, 6},
		{"both are left", withB(status(400)), always(status(503)), "a exhausted, b permanent", Failed, 6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.configure(test.a(test.first)...)
				res := r.deliver(r.Context(), "a")
				if reasons(res) != test.want || res.Status != test.status || res.Attempts != test.tries {
					t.Errorf("left %q, status %d after %d attempts; want %q, %d, %d",
						reasons(res), res.Status, res.Attempts, test.want, test.status, test.tries)
				}
				if n := len(test.first.seen()); test.status == Failed && len(res.Hops) == 1 && n != test.tries {
					t.Errorf("the endpoint saw %d sends, counted were %d", n, test.tries)
				}
			})
		})
	}
}

func only(changes ...func(*Spec)) func(*endpoint) []Spec {
	return func(e *endpoint) []Spec { return []Spec{spec("a", e, changes...)} }
}

func withB(b act) func(*endpoint) []Spec {
	return func(e *endpoint) []Spec { return []Spec{spec("a", e, fallback("b")), spec("b", always(b))} }
}

func TestScheduleOfTheDefaults(t *testing.T) {
	tests := []struct {
		random float64
		want   []time.Duration
	}{
		{0, []time.Duration{0, 0, 0, 0, 0}},
		{0.5, []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms}},
		{0.999999, []time.Duration{0, 200 * ms, 600 * ms, 1400 * ms, 3000 * ms}},
	}
	for _, test := range tests {
		inBubble(t, func(r *rig) {
			r.fleet.opts.Random = func() float64 { return test.random }
			e := always(status(503))
			r.configure(spec("a", e))
			r.deliver(r.Context(), "a")
			got := r.times(e)
			for i := range got {
				got[i] = got[i].Round(ms)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("random %v (-want +got):\n%s", test.random, diff)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		name   string
		first  act
		change func(*Spec)
		want   time.Duration
	}{
		{"respected", asks(503, 3*time.Second), func(*Spec) {}, 3 * time.Second},
		{"cut to max_backoff", asks(429, time.Hour), func(*Spec) {}, 10 * time.Second},
		{"cut to max_retry_after", asks(429, time.Hour), func(s *Spec) { s.Retry.MaxRetryAfter = time.Minute }, time.Minute},
		{"ignored where the user says so", asks(429, 3*time.Second), func(s *Spec) { s.Retry.RespectRetryAfter = false }, 100 * ms},
		{"zero is the computed backoff", asks(429, 0), func(*Spec) {}, 100 * ms},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				e := always(well, test.first)
				r.configure(spec("a", e, test.change))
				if res := r.deliver(r.Context(), "a"); res.Status != Delivered {
					t.Fatalf("status %d, %s", res.Status, reasons(res))
				}
				if got := r.times(e); len(got) != 2 || got[1] != test.want {
					t.Errorf("sends at %v, the second should be at %v", got, test.want)
				}
			})
		})
	}
}

func TestAnsweredWellAndStillNo(t *testing.T) {
	says := func(ok bool, err error) func(*Spec) {
		return func(s *Spec) {
			s.Success = func(context.Context, connector.Answer) (bool, error) { return ok, err }
		}
	}
	already := func(tags ...failure.Tag) func(*Spec) { return func(s *Spec) { s.DeliveredOn = tags } }
	tests := []struct {
		name   string
		change func(*Spec)
		act    act
		want   string
		tags   string
	}{
		{"success says yes", says(true, nil), well, "", ""},
		{"success says no", says(false, nil), well, "a exhausted", "refused, 200"},
		{"success fails", says(true, errors.New("not an object")), well, "a exhausted", "refused, 200"},
		{"success is not asked about a failure", says(true, nil), status(400), "a permanent", "4xx, 400"},
		{"delivered_on", already("409"), status(409), "", ""},
		{"delivered_on a class", already("4xx"), status(410), "", ""},
		{"delivered_on another", already("409"), status(410), "a permanent", "4xx, 410"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.configure(spec("a", always(test.act), test.change))
				res := r.deliver(r.Context(), "a")
				tags, _ := res.Last()
				if reasons(res) != test.want || tags.String() != test.tags {
					t.Errorf("left %q with %q, want %q with %q", reasons(res), tags, test.want, test.tags)
				}
			})
		})
	}
}

func TestTransformShapesOnlyItsDestination(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(status(400)), always(well)
		shout := func(_ context.Context, m *message.Message) (*message.Message, error) {
			return m.With(func(m *message.Message) { m.Body = []byte("shaped for a") }), nil
		}
		explode := func(context.Context, *message.Message) (*message.Message, error) { panic("boom") }
		c := always(well)
		r.configure(
			spec("a", a, fallback("c", "b"), func(s *Spec) { s.Transform = shout }),
			spec("b", b), spec("c", c, func(s *Spec) { s.Transform = explode }))
		res := r.deliver(r.Context(), "a")
		if res.Endpoint != "b" || reasons(res) != "a permanent, c permanent" {
			t.Errorf("arrived at %q after %q", res.Endpoint, reasons(res))
		}
		if got := a.seen()[0].body; got != "shaped for a" {
			t.Errorf("a got %q", got)
		}
		if got := b.seen()[0]; got.body != "body of m1" || got.id != "m1" {
			t.Errorf("b got %+v, want the message as its route made it", got)
		}
		if len(c.seen()) != 0 {
			t.Error("c was sent to although its transform panicked")
		}
	})
}

func TestTimedOutWhateverTheConnectorSays(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(spec("a", plain{}, attempts(1)))
		res := r.deliver(r.Context(), "a")
		if tags, _ := res.Last(); !tags.Has(failure.Timeout) || res.Took != 5*time.Second {
			t.Errorf("tags %q after %v, want timeout after 5s", tags, res.Took)
		}
	})
}

// plain hangs and then returns ctx's own error, as careless connectors do.
type plain struct{}

func (plain) Send(ctx context.Context, _ *message.Message) (connector.Answer, error) {
	<-ctx.Done()
	return connector.Answer{}, ctx.Err()
}

func (plain) Close() error { return nil }

func TestTooOldIsNotSentAnyMore(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(status(503).taking(900*ms)), always(well)
		r.configure(spec("a", a, attempts(2), ttl(time.Second), fallback("b")), spec("b", b))
		res := r.deliver(r.Context(), "a")
		// The retry would begin at exactly its age; b is reached before that.
		if reasons(res) != "a permanent" || res.Endpoint != "b" || res.Took != 900*ms {
			t.Errorf("left %q for %q after %v", reasons(res), res.Endpoint, res.Took)
		}
		r.configure(spec("a", always(status(503).taking(2*time.Second)), attempts(1), ttl(time.Second), fallback("b")), spec("b", b))
		res = r.deliver(r.Context(), "a")
		if tags, _ := res.Last(); reasons(res) != "a exhausted, b permanent" || !tags.Has(failure.Expired) {
			t.Errorf("left %q with %q: the letter must say that it expired", reasons(res), tags)
		}
		d, _ := r.set.Destination("b") // nor does it wait for a place there
		var full []Place
		for p, ok := d.Enter(); ok; p, ok = d.Enter() {
			full = append(full, p)
		}
		if res = r.deliver(r.Context(), "a"); reasons(res) != "a exhausted, b permanent" || res.Took != 2*time.Second {
			t.Errorf("left %q after %v", reasons(res), res.Took)
		}
		for i := range full {
			full[i].Leave()
		}
	})
}

func TestTooOldWhileItWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := always(well)
		r.configure(spec("a", always(hangs), workers(1), attempts(1), ttl(time.Second), fallback("b")), spec("b", b))
		first := r.start(r.Context(), "a") // has the worker for 5 s
		res := r.deliver(r.Context(), "a")
		if tags, _ := res.Last(); reasons(res) != "a permanent" || !tags.Has(failure.Expired) || res.Took != time.Second || res.Attempts != 0 {
			t.Errorf("left %q with %q after %v and %d attempts", reasons(res), tags, res.Took, res.Attempts)
		}
		<-first
		if len(b.seen()) != 0 {
			t.Error("b got a message that was too old")
		}
	})
}

// The shorter of deadline and age says why.
func TestDeadlineAndAge(t *testing.T) {
	tests := []struct {
		deadline, ttl time.Duration
		want          string
	}{
		{time.Second, 1200 * ms, "a deadline"},
		{1200 * ms, time.Second, "a permanent"},
	}
	for _, test := range tests {
		for name, always := range map[string]*endpoint{"between tries": always(status(503)), "in a hold": always(asks(503, 9*time.Second))} {
			inBubble(t, func(r *rig) {
				r.configure(spec("a", always, deadline(test.deadline), ttl(test.ttl)))
				if res := r.deliver(r.Context(), "a"); reasons(res) != test.want {
					t.Errorf("%s, deadline %v, ttl %v: left %q, want %q", name, test.deadline, test.ttl, reasons(res), test.want)
				}
			})
		}
	}
}
