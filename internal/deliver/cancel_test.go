package deliver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

func cancellable(r *rig) (context.Context, context.CancelFunc) {
	return context.WithCancel(r.Context())
}

// TestCancelled gives a delivery up in each of its waits and in flight. That
// nothing leaks is checked at the end of every test.
func TestCancelled(t *testing.T) {
	tests := []struct {
		name  string
		a     *endpoint
		specs func(a *endpoint) []Spec
		// first is done before the delivery; others run beside it.
		first  func(r *rig)
		others int
	}{
		{"in flight", always(hangs), only(), nil, 0},
		{"between tries", always(asks(503, 9*time.Second)), only(), nil, 0},
		{"for a worker", always(hangs), only(workers(1)), nil, 1},
		{"at an open breaker", always(status(503)), only(guarded(1), attempts(1)), func(r *rig) { r.deliver(r.Context(), "a") }, 0},
		{"behind a trial", always(well.taking(time.Minute), status(503)), only(guarded(1), attempts(1)), func(r *rig) {
			r.deliver(r.Context(), "a")
			time.Sleep(5 * time.Second)
		}, 1},
		{"as a trial", always(hangs, status(503)), only(guarded(1), attempts(1)), func(r *rig) {
			r.deliver(r.Context(), "a")
			time.Sleep(5 * time.Second)
		}, 0},
		{"in a hold", always(asks(429, 9*time.Second)), only(attempts(1)), func(r *rig) { r.deliver(r.Context(), "a") }, 0},
		{"on the ramp", always(hangs, asks(429, time.Second)), only(attempts(1)), func(r *rig) {
			r.deliver(r.Context(), "a")
			time.Sleep(time.Second)
		}, 2},
		{"paused", always(well), only(), func(r *rig) { r.fleet.Pause("a") }, 0},
		{"for a fallback's place", always(status(400)), func(a *endpoint) []Spec {
			return []Spec{spec("a", a, fallback("b"), attempts(1)), spec("b", always(hangs), places(1))}
		}, nil, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.configure(test.specs(test.a)...)
				if test.first != nil {
					test.first(r)
				}
				ctx, cancel := cancellable(r)
				var all []<-chan Result
				for range test.others + 1 {
					all = append(all, r.start(ctx, "a"))
				}
				time.Sleep(500 * ms)
				synctest.Wait()
				before := r.at()
				cancel()
				for _, c := range all {
					res := <-c
					if res.Status != Cancelled || res.Hops[len(res.Hops)-1].Reason != message.HopCancelled {
						t.Errorf("status %d, left %q", res.Status, reasons(res))
					}
				}
				if r.at() != before {
					t.Errorf("gave up only after %v", r.at()-before)
				}
			})
		})
	}
}

// An answer that came before the cancel counts.
func TestCancelledTooLate(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(spec("a", stubborn{}))
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if res := r.deliver(ctx, "a"); res.Status != Delivered || res.Took != 2*time.Second {
			t.Errorf("status %d after %v", res.Status, res.Took)
		}
	})
}

// Cancelled attempts say nothing about the endpoint.
func TestCancelledAttemptsDoNotOpenTheBreaker(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(spec("a", always(hangs), guarded(1)))
		for range 5 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			r.deliver(ctx, "a")
			cancel()
		}
		if s := r.lane("a"); s.Breaker != event.BreakerClosed {
			t.Errorf("the breaker is %v", s.Breaker)
		}
		for _, e := range r.told(event.AttemptEnded) {
			if e.Outcome != message.OutcomeCancelled {
				t.Errorf("outcome %q", e.Outcome)
			}
		}
	})
}
