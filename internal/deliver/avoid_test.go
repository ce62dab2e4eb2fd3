package deliver

// Catches: a fallback that a request avoids and that is sent to all the same, told
// of, or counted as somewhere to go; one whose own fallbacks go with it, or get
// another deadline; a request that avoids nothing and is changed by that.

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// avoiding is a delivery to a that passes over the names.
func (r *rig) avoiding(names ...string) Result {
	r.Helper()
	d, ok := r.set.Destination("a")
	if !ok {
		r.Fatal("no destination a")
	}
	place, ok := d.Enter()
	if !ok {
		r.Fatal("the lane of a is full")
	}
	return d.Deliver(r.Context(), Request{Message: &message.Message{ID: "m1", Source: "web", Time: time.Now(), Body: []byte("body")}, Place: place, Avoid: names})
}

func TestWhatIsAvoidedIsPassedOver(t *testing.T) {
	tests := []struct {
		name   string
		avoid  []string
		c      act
		hops   string // left
		status Status
		by     string
	}{
		{"nothing", nil, well, "a exhausted, b permanent", Delivered, "c"},
		{"one in the middle, its own fallback stays", []string{"b"}, well, "a exhausted", Delivered, "c"},
		{"the last", []string{"c"}, well, "a exhausted, b permanent", Failed, ""},
		{"all", []string{"b", "c"}, well, "a exhausted", Failed, ""},
		{"the destination itself is no fallback", []string{"a"}, well, "a exhausted, b permanent", Delivered, "c"},
		{"who is not there", []string{"z"}, status(400), "a exhausted, b permanent, c permanent", Failed, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a, b, c := always(status(503)), always(status(400)), always(test.c)
				r.configure(spec("a", a, attempts(2), fallback("b")), spec("b", b, fallback("c")), spec("c", c))
				res := r.avoiding(test.avoid...)
				if reasons(res) != test.hops || res.Status != test.status || res.Endpoint != test.by {
					t.Errorf("left %q, status %d by %q; want %q, %d, %q", reasons(res), res.Status, res.Endpoint, test.hops, test.status, test.by)
				}
				hops := r.told(event.Hopped)
				if len(hops) != len(res.Hops) {
					t.Errorf("%d hops were told, %d taken", len(hops), len(res.Hops))
				}
				for i, h := range hops {
					to := test.by
					if i+1 < len(hops) {
						to = hops[i+1].Destination
					}
					if h.To != to {
						t.Errorf("hop %d from %s went to %q, want %q", i, h.Destination, h.To, to)
					}
				}
			})
		})
	}
}

// TestWithOnlyAnAvoidedFallbackItWaits has nowhere to go from an open breaker.
func TestWithOnlyAnAvoidedFallbackItWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(well, status(503), status(503)), always(well)
		r.configure(spec("a", a, attempts(1), guarded(2), fallback("b")), spec("b", b))
		r.avoiding("b")
		r.avoiding("b")
		if res := r.avoiding("b"); res.Status != Delivered || res.Endpoint != "a" || len(b.seen()) != 0 {
			t.Errorf("status %d by %q, left %q; b saw %d", res.Status, res.Endpoint, reasons(res), len(b.seen()))
		}
	})
}

// TestTheFallbackOfOneThatIsAvoidedHasTheDeadlineBefore passes b over, whose own
// deadline would cut c's retrying short.
func TestTheFallbackOfOneThatIsAvoidedHasTheDeadlineBefore(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(
			spec("a", always(status(400)), deadline(time.Minute), fallback("b")),
			spec("b", always(well), deadline(time.Millisecond), fallback("c")),
			spec("c", always(well, status(503), status(503), status(503))),
		)
		if res := r.avoiding("b"); res.Status != Delivered || res.Endpoint != "c" || res.Attempts != 5 {
			t.Errorf("status %d by %q after %d attempts, left %q; want c after 5", res.Status, res.Endpoint, res.Attempts, reasons(res))
		}
	})
}
