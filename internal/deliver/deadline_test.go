package deliver

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
)

func TestAWaitPastTheDeadlineIsNotBegun(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(status(503)), always(well)
		r.configure(spec("a", a, deadline(time.Second), fallback("b")), spec("b", b))
		res := r.deliver(r.Context(), "a")
		// Waits of 100, 200, 400 and 800 ms: the last would end at 1.5 s.
		if reasons(res) != "a deadline" || res.Endpoint != "b" || res.Took != 700*ms {
			t.Errorf("left %q for %q after %v, want a by deadline at 700ms", reasons(res), res.Endpoint, res.Took)
		}
	})
}

func TestAnAttemptMayRunOverTheDeadline(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well.taking(4 * time.Second))
		r.configure(spec("a", a, deadline(time.Second)))
		if res := r.deliver(r.Context(), "a"); res.Status != Delivered || res.Took != 4*time.Second {
			t.Errorf("%s after %v: the deadline ends the retrying, never an attempt", reasons(res), res.Took)
		}
	})
}

func TestPastTheDeadlineEachFallbackGetsOneAttempt(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b, c, d := always(hangs), always(status(503)), always(hangs), always(asks(429, time.Second))
		r.configure(
			spec("a", a, deadline(2*time.Second), timeout(3*time.Second), fallback("b", "c", "d")),
			spec("b", b), spec("c", c, timeout(2*time.Second), fallback("c2")), spec("d", d),
			spec("c2", always(status(500))))
		res := r.deliver(r.Context(), "a")
		if want := "a deadline, b deadline, c deadline, c2 deadline, d deadline"; reasons(res) != want {
			t.Errorf("left %q, want %q", reasons(res), want)
		}
		if res.Attempts != 5 || len(res.Hops) != 5 {
			t.Fatalf("%d attempts over %d hops, want one each", res.Attempts, len(res.Hops))
		}
		for _, h := range res.Hops {
			if len(h.Attempts) != 1 {
				t.Errorf("%s got %d attempts, want exactly one", h.Destination, len(h.Attempts))
			}
		}
		if res.Took != 5*time.Second { // 3 s of a, 2 s of c
			t.Errorf("took %v, want 5s", res.Took)
		}
	})
}

// A fallback's waits lie within its one timeout: for a place, at the gate, and
// then for what is left of the attempt.
func TestPastTheDeadlineWaitsCountAgainstTheTimeout(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(hangs), always(hangs)
		r.configure(
			spec("a", a, deadline(time.Second), timeout(time.Second), fallback("b")),
			spec("b", b, timeout(3*time.Second), workers(1), attempts(2)))
		before := r.start(r.Context(), "b") // has b's worker until 3 s
		res := r.deliver(r.Context(), "a")
		// Left a at 1 s, so b's one attempt is over at 4 s: it waits until 3 s.
		if got := r.times(b); len(got) != 2 || got[1] != 3*time.Second {
			t.Errorf("b was sent to at %v, want 0s and 3s", got)
		}
		if reasons(res) != "a deadline, b deadline" || res.Took != 4*time.Second {
			t.Errorf("left %q after %v, want b by its deadline at 4s", reasons(res), res.Took)
		}
		<-before
	})
}

func TestAFallbacksOwnDeadlineCanOnlyShorten(t *testing.T) {
	tests := []struct {
		own, want time.Duration
		hop       message.HopReason
	}{
		{500 * ms, 400 * ms, message.HopDeadline},        // a exhausted at 100 ms, b tries at 100, 200, 400
		{time.Hour, 800 * ms, message.HopDeadline},       // a's second bounds b: 100, 200, 400, 800
		{0, 800 * ms, message.HopDeadline},               // so does it without one of its own
		{time.Nanosecond, 100 * ms, message.HopDeadline}, // one attempt it always has
	}
	for _, test := range tests {
		inBubble(t, func(r *rig) {
			b := always(status(503))
			r.configure(spec("a", always(status(503)), deadline(time.Second), attempts(2), fallback("b")), spec("b", b, deadline(test.own)))
			res := r.deliver(r.Context(), "a")
			if reasons(res) != "a exhausted, b deadline" || res.Took != test.want {
				t.Errorf("own deadline %v: left %q after %v, want b left after %v", test.own, reasons(res), res.Took, test.want)
			}
		})
	}
}

// c is a fallback of b: b's deadline bounds c. d is a's own: b's does not.
func TestNestedDeadlines(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b, c, d := always(status(400)), always(status(503)), always(status(503)), always(status(503))
		r.configure(
			spec("a", a, deadline(10*time.Second), fallback("b", "d")),
			spec("b", b, deadline(200*ms), fallback("c")), spec("c", c), spec("d", d))
		res := r.deliver(r.Context(), "a")
		if want := "a permanent, b deadline, c deadline, d exhausted"; reasons(res) != want {
			t.Errorf("left %q, want %q", reasons(res), want)
		}
		if diff := cmp.Diff([]time.Duration{100 * ms, 200 * ms}, r.times(c)); diff != "" {
			t.Errorf("c within b's deadline (-want +got):\n%s", diff)
		}
		if got := len(d.seen()); got != 5 {
			t.Errorf("d got %d attempts, want all of its five", got)
		}
	})
}

// Whatever the chain is, it ends by its deadline and one timeout for each
// destination that was left then.
func TestAChainEndsInTime(t *testing.T) {
	for _, first := range []act{hangs, status(503), asks(429, time.Hour), reset.taking(900 * ms)} {
		for _, rest := range []act{hangs, status(503), asks(503, 30*time.Second), reset.taking(4 * time.Second)} {
			inBubble(t, func(r *rig) {
				r.configure(
					spec("a", always(first), deadline(7*time.Second), fallback("b", "c"), guarded(1)),
					spec("b", always(rest), workers(1), places(1), guarded(1)), spec("c", always(rest), places(1), fallback("d")), spec("d", always(rest)))
				var all []<-chan Result
				for range 5 {
					all = append(all, r.start(r.Context(), "a"))
				}
				for _, c := range all {
					if res := <-c; res.Took > 7*time.Second+4*5*time.Second {
						t.Errorf("took %v: %s", res.Took, reasons(res))
					}
				}
			})
		}
	}
}

func TestAFullFallbackIsWaitedForWithinTheDeadline(t *testing.T) {
	tests := []struct {
		name    string
		holds   time.Duration // how long b's only place is taken
		change  func(*Spec)
		want    string
		took    time.Duration
		arrived Status
	}{
		{"in time", 2 * time.Second, deadline(0), "a permanent", 2 * time.Second, Delivered},
		{"not within its timeout", 4 * time.Second, deadline(0), "a permanent, b full", 3 * time.Second, Failed},
		{"not within the deadline", 4 * time.Second, deadline(time.Second), "a permanent, b full", time.Second, Failed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.configure(
					spec("a", always(status(400)), fallback("b"), test.change),
					spec("b", always(well), places(1), timeout(3*time.Second)))
				d, _ := r.set.Destination("b")
				place, _ := d.Enter()
				go func() {
					time.Sleep(test.holds)
					place.Leave()
				}()
				res := r.deliver(r.Context(), "a")
				if reasons(res) != test.want || res.Took != test.took || res.Status != test.arrived {
					t.Errorf("left %q after %v, want %q after %v", reasons(res), res.Took, test.want, test.took)
				}
				time.Sleep(test.holds)
			})
		})
	}
}
