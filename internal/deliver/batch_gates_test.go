package deliver

// These tests catch: a batch that takes more of the gates than one send, that the
// breaker, the hold or the budget counts wrong, or that hangs for ever.

import (
	"context"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/message"
)

// A batch takes one worker and one token, and grows while it waits for them.
func TestABatchIsOneSendAtTheGates(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(int, []string) (time.Duration, []error, error) { return time.Second, nil, nil })
		r.configure(spec("a", b, batched(4), workers(1)))
		all := r.startMany(r.Context(), 4, "a")
		all = append(all, r.startMany(r.Context(), 2, "a")...)
		time.Sleep(500 * time.Millisecond) // long past MaxWait, at the gate
		all = append(all, r.startMany(r.Context(), 1, "a")...)
		arrivedAll(r, all)
		r.batches("0s m1 m2 m3 m4", "1s m5 m6 m7")(b)
	})
	inBubble(t, func(r *rig) {
		b := r.bulk(nil)
		r.configure(spec("a", b, batched(2), func(s *Spec) { s.RateLimit = &limit.Rate{PerSecond: 1, Burst: 1} }))
		arrivedAll(r, r.startMany(r.Context(), 4, "a"))
		r.batches("0s m1 m2", "1s m3 m4")(b)
	})
}

// The breaker counts one outcome a batch, and an answer for one message says that
// the endpoint is there.
func TestTheBreakerCountsABatchOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		outcomes := []error{failure.FromStatus(503, 0), failure.FromStatus(503, 0)}
		b := r.bulk(func(n int, ids []string) (time.Duration, []error, error) {
			if n == 1 {
				return 0, []error{outcomes[0], nil}, nil
			}
			return 0, outcomes, nil
		})
		r.configure(spec("a", b, batched(2), attempts(1), guarded(3), failWhenOpen))
		for range 3 {
			if s := r.lane("a"); s.Endpoints[0].Breaker != event.BreakerClosed {
				r.Fatalf("open after %q", b.seen())
			}
			for _, done := range r.startMany(r.Context(), 2, "a") {
				<-done
			}
		}
		if s := r.lane("a"); s.Endpoints[0].Breaker != event.BreakerOpen {
			r.Errorf("two of three batches failed, and the breaker is %v", s.Endpoints[0].Breaker)
		}
		if res := r.deliver(r.Context(), "a"); reasons(res) != "a breaker_open" || res.Took != 0 {
			r.Errorf("%s after %v", reasons(res), res.Took)
		}
	})
}

// What one message is told to wait holds the endpoint.
func TestAMessageOfABatchHoldsTheEndpoint(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(n int, ids []string) (time.Duration, []error, error) {
			if n == 1 {
				return 0, []error{nil, failure.FromStatus(429, 3*time.Second)}, nil
			}
			return 0, nil, nil
		})
		r.configure(spec("a", b, batched(2)))
		arrivedAll(r, r.startMany(r.Context(), 2, "a"))
		r.batches("0s m1 m2", "3.05s m2")(b)
	})
}

func TestAHungBatchTimesOut(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(int, []string) (time.Duration, []error, error) { return time.Hour, nil, nil })
		r.configure(spec("a", b, batched(2), attempts(2), timeout(time.Second)), spec("other", always(well)))
		all := r.startMany(r.Context(), 4, "a")
		for _, done := range all {
			if res := <-done; reasons(res) != "a exhausted" || res.Attempts != 2 {
				r.Errorf("%s after %d", reasons(res), res.Attempts)
			}
		}
	})
}

// The budget counts messages: each is a first attempt, each that goes again a
// retry.
func TestTheBudgetCountsMessages(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(n int, _ []string) (time.Duration, []error, error) {
			if n <= 2 {
				return 0, nil, failure.FromStatus(503, 0)
			}
			return 0, nil, nil
		})
		r.configure(spec("a", b, batched(5), func(s *Spec) {
			s.RetryBudget = &limit.BudgetSettings{Ratio: 0.2, MinPerSecond: 0, Window: 10 * time.Second}
		}))
		left := 0
		for _, done := range r.startMany(r.Context(), 10, "a") {
			if res := <-done; reasons(res) == "a budget" {
				left++
			} else if res.Status != Delivered {
				r.Errorf("%s", reasons(res))
			}
		}
		if left != 8 { // a fifth of ten may go again
			r.Errorf("%d of 10 had no retry left, want 8", left)
		}
	})
}

// A message whose patience goes while its batch is being made ready leaves the batch's
// hands off: under the race detector, one that looks then is seen.
func TestPatienceEndsWhileABatchBoards(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(nil)
		slow := in("a", b)
		slow.Transform = func(_ context.Context, m *message.Message) (*message.Message, error) {
			time.Sleep(3*patience + time.Second)
			return m, nil
		}
		r.configure(of("g", balance.Failover, []Member{slow, in("b", r.bulk(nil))}, batched(2)))
		arrivedAll(r, []<-chan Result{r.startPatiently("g"), r.startPatiently("g")})
		r.batches("1m2s m1 m2")(b)
	})
}
