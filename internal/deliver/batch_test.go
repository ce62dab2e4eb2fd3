package deliver

// These tests catch: a batch that gathers too long or past a bound; a message that
// is refused and takes its peers along, that gets the outcome of another, or that
// can't leave; a batch that takes more of the gates than one send; anything that
// is left behind.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// bulk is an endpoint that takes batches. fate says what becomes of the nth batch,
// from 1, and of each of its messages.
type bulk struct {
	fate func(n int, ids []string) (time.Duration, []error, error)

	mu      sync.Mutex
	batches []string // "0s m1 m2"
	began   time.Time
	open    int
	peak    int
}

func (b *bulk) Send(context.Context, *message.Message) (connector.Answer, error) {
	panic("a destination with batches sends batches of one")
}
func (b *bulk) Close() error { return nil }

func (b *bulk) SendBatch(ctx context.Context, batch []*message.Message) (connector.BatchAnswer, error) {
	var ids []string
	for _, m := range batch {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids) // those that come at one moment come in any order
	b.mu.Lock()
	b.batches = append(b.batches, fmt.Sprint(time.Since(b.began), " ", strings.Join(ids, " ")))
	n := len(b.batches)
	b.open++
	b.peak = max(b.peak, b.open)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open--
	}()
	if b.fate == nil {
		return connector.BatchAnswer{}, nil
	}
	takes, byID, err := b.fate(n, ids)
	if !sleep(ctx, takes) {
		return connector.BatchAnswer{}, givenUp(ctx)
	}
	if err != nil || byID == nil {
		return connector.BatchAnswer{}, err
	}
	each := make([]error, len(batch))
	for i, m := range batch {
		each[i] = byID[slices.Index(ids, m.ID)]
	}
	return connector.BatchAnswer{Each: each}, nil
}

func (b *bulk) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.batches)
}

// batched gives a destination batches of at most so many messages and 1 KiB, that
// gather for 50 ms.
func batched(messages int) func(*Spec) {
	return func(s *Spec) {
		s.Batch = &Batch{MaxMessages: messages, MaxBytes: 1 << 10, MaxWait: 50 * time.Millisecond}
	}
}

func (r *rig) bulk(fate func(int, []string) (time.Duration, []error, error)) *bulk {
	return &bulk{fate: fate, began: r.began}
}

func (r *rig) batches(want ...string) func(*bulk) {
	return func(b *bulk) {
		r.Helper()
		if diff := cmp.Diff(want, b.seen()); diff != "" {
			r.Errorf("batches (-want +got)\n%s", diff)
		}
	}
}

// startMany delivers so many messages in the background, one after the other.
func (r *rig) startMany(ctx context.Context, n int, to string) []<-chan Result {
	var all []<-chan Result
	for range n {
		all = append(all, r.start(ctx, to))
	}
	return all
}

func arrivedAll(r *rig, all []<-chan Result) {
	r.Helper()
	for i, done := range all {
		if res := <-done; res.Status != Delivered {
			r.Errorf("message %d: %v, %s", i+1, res.Status, reasons(res))
		}
	}
}

func TestBatchGathers(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*Spec)
		messages int
		want     []string
	}{
		"until it is full":             {func(*Spec) {}, 3, []string{"0s m1 m2 m3"}},
		"for its time":                 {func(*Spec) {}, 2, []string{"50ms m1 m2"}},
		"full, and the rest":           {func(*Spec) {}, 4, []string{"0s m1 m2 m3", "50ms m4"}},
		"until it has the bytes":       {func(s *Spec) { s.Batch.MaxBytes = 20 }, 2, []string{"0s m1 m2"}},
		"no more bytes than it may":    {func(s *Spec) { s.Batch.MaxBytes = 19 }, 2, []string{"0s m1", "50ms m2"}},
		"what is as large goes alone":  {func(s *Spec) { s.Batch.MaxBytes = 10 }, 2, []string{"0s m1", "0s m2"}},
		"one alone":                    {func(s *Spec) { s.Batch.MaxMessages = 1 }, 2, []string{"0s m1", "0s m2"}},
		"no longer than half the time": {deadline(40 * time.Millisecond), 2, []string{"20ms m1 m2"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				b := r.bulk(nil)
				r.configure(spec("a", b, batched(3), c.change))
				arrivedAll(r, r.startMany(r.Context(), c.messages, "a"))
				r.batches(c.want...)(b)
				sent := 0
				for _, e := range r.told(event.BatchSent) {
					sent += e.Number
				}
				if name != "one alone" && name != "what is as large goes alone" && sent != c.messages {
					r.Errorf("told of %d messages in batches", sent)
				}
				if n := len(r.told(event.AttemptEnded)); n != c.messages {
					r.Errorf("told of %d attempts of %d messages", n, c.messages)
				}
			})
		})
	}
}

// A message's outcome is its own: one is refused, one goes again, one arrives.
func TestEachMessageOfABatchHasItsOutcome(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(n int, ids []string) (time.Duration, []error, error) {
			if n > 1 {
				return 0, nil, nil
			}
			return 0, []error{nil, failure.FromStatus(422, 0), failure.FromStatus(503, 0)}, nil
		})
		r.configure(spec("a", b, batched(3)))
		all := r.startMany(r.Context(), 3, "a")
		first, second, third := <-all[0], <-all[1], <-all[2]
		if first.Status != Delivered || first.Attempts != 1 || reasons(second) != "a permanent" || second.Attempts != 1 {
			r.Errorf("%v after %d; %s after %d", first.Status, first.Attempts, reasons(second), second.Attempts)
		}
		if third.Status != Delivered || third.Attempts != 2 {
			r.Errorf("the third is %v after %d", third.Status, third.Attempts)
		}
		r.batches("0s m1 m2 m3", "150ms m3")(b) // 100 ms of backoff, 50 ms of gathering
	})
}

// A batch that is refused as a whole has a message at fault: each goes alone, and
// only that one is refused.
func TestARefusedBatchGoesOneByOne(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(_ int, ids []string) (time.Duration, []error, error) {
			if slices.Contains(ids, "m2") {
				return 0, nil, failure.FromStatus(400, 0)
			}
			return 0, nil, nil
		})
		r.configure(spec("a", b, batched(3), attempts(1), guarded(1)))
		all := r.startMany(r.Context(), 3, "a")
		for i, done := range all {
			res, bad := <-done, i == 1
			if (res.Status == Delivered) == bad || bad && reasons(res) != "a permanent" || res.Attempts != 2 {
				r.Errorf("m%d: %v, %q after %d attempts", i+1, res.Status, reasons(res), res.Attempts)
			}
		}
		if got := b.seen(); len(got) != 4 || got[0] != "0s m1 m2 m3" {
			r.Errorf("batches %q", got)
		}
	})
}

// What fails for another reason fails for all of them, and they go again together.
func TestAFailedBatchGoesAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(n int, _ []string) (time.Duration, []error, error) {
			if n == 1 {
				return 0, nil, failure.FromStatus(503, 0)
			}
			return 0, nil, nil
		})
		r.configure(spec("a", b, batched(2)))
		arrivedAll(r, r.startMany(r.Context(), 2, "a"))
		r.batches("0s m1 m2", "100ms m1 m2")(b)
	})
}

func TestAMessageLeavesABatch(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(nil)
		r.configure(spec("a", b, batched(3)))
		ctx, cancel := context.WithCancel(r.Context())
		gone, stays := r.start(ctx, "a"), r.start(r.Context(), "a")
		time.Sleep(10 * time.Millisecond)
		cancel()
		if res := <-gone; reasons(res) != "a cancelled" || res.Attempts != 0 {
			r.Errorf("%s after %d", reasons(res), res.Attempts)
		}
		arrivedAll(r, []<-chan Result{stays})
		r.batches("50ms m2")(b)

		ctx, cancel = context.WithCancel(r.Context())
		all := r.startMany(ctx, 2, "a")
		cancel() // all of them, while they gather
		<-all[0]
		<-all[1]
		time.Sleep(time.Second)
		r.batches("50ms m2")(b)
	})
}

// A batch that everybody left at a shut gate leaves it too.
func TestABatchThatEverybodyLeft(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(nil)
		r.configure(spec("a", b, batched(2)))
		r.fleet.Pause("a")
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		for _, done := range r.startMany(ctx, 2, "a") {
			if res := <-done; reasons(res) != "a cancelled" {
				r.Errorf("%s", reasons(res))
			}
		}
		synctest.Wait()
		r.nothingLeft()
		r.fleet.Resume("a")
		time.Sleep(time.Second)
		r.batches()(b)
	})
}

// A deadline that passes while the batch stands at the gates is its message's
// alone.
func TestADeadlineAtTheGates(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(nil)
		r.configure(spec("a", b, batched(3), deadline(time.Second)))
		r.fleet.Pause("a")
		first := r.start(r.Context(), "a")
		time.Sleep(500 * time.Millisecond)
		second := r.start(r.Context(), "a")
		if res := <-first; reasons(res) != "a deadline" || res.Took != time.Second {
			r.Errorf("%s after %v", reasons(res), res.Took)
		}
		r.fleet.Resume("a")
		arrivedAll(r, []<-chan Result{second})
		r.batches("1s m2")(b)
	})
}

// One outcome is counted, the best that any of the messages has.
func TestVerdictOfABatch(t *testing.T) {
	alive, suspect, neutral, sick := failure.FromStatus(422, 0), failure.FromStatus(404, 0), failure.FromStatus(429, 0), failure.FromStatus(500, 0)
	for _, c := range []struct {
		each []*failure.Error
		want *failure.Error
	}{
		{[]*failure.Error{sick, nil, alive}, nil},
		{[]*failure.Error{sick, neutral, suspect, alive}, alive},
		{[]*failure.Error{sick, neutral, suspect}, suspect},
		{[]*failure.Error{sick, neutral, sick}, neutral},
		{[]*failure.Error{sick, sick}, sick},
	} {
		if got := verdict(c.each); got != c.want {
			t.Errorf("%v: %v, want %v", c.each, got, c.want)
		}
	}
}

// Once it is being sent a message waits for its outcome; only when all are given
// up is the send.
func TestGivingUpABatch(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(int, []string) (time.Duration, []error, error) { return time.Second, nil, nil })
		r.configure(spec("a", b, batched(2)))
		one, cancelOne := context.WithCancel(r.Context())
		two, cancelTwo := context.WithCancel(r.Context())
		defer cancelTwo()
		first, second := r.start(one, "a"), r.start(two, "a")
		cancelOne()
		arrivedAll(r, []<-chan Result{first, second})
		if r.at() != time.Second {
			r.Errorf("after %v", r.at())
		}
		one, cancelOne = context.WithCancel(r.Context())
		first, second = r.start(one, "a"), r.start(two, "a")
		time.Sleep(100 * time.Millisecond)
		cancelOne()
		time.Sleep(100 * time.Millisecond)
		cancelTwo()
		if res := <-first; reasons(res) != "a cancelled" {
			r.Errorf("%s", reasons(res))
		}
		<-second
		if r.at() != 1200*time.Millisecond {
			r.Errorf("after %v", r.at())
		}
	})
}

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

// In a group a batch that failed goes to the next member, with those that were
// where it was.
func TestABatchGoesToTheNextMember(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := r.bulk(func(int, []string) (time.Duration, []error, error) { return 0, nil, failure.FromStatus(500, 0) })
		west := r.bulk(nil)
		r.configure(of("g", balance.Failover, []Member{in("east", east), in("west", west)}, batched(2)))
		arrivedAll(r, r.startMany(r.Context(), 2, "g"))
		r.batches("0s m1 m2")(east)
		r.batches("0s m1 m2")(west)
	})
}

// Whatever comes, and whatever becomes of it: no batch is over its bounds or more
// than the workers, each message has one outcome, which is the one that was made
// for it, and nothing is left.
func TestBatchesAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most, crew := rapid.IntRange(2, 5).Draw(rt, "messages"), rapid.IntRange(1, 3).Draw(rt, "workers")
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		fates := rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "ok", "422", "once 503", "poison"}), n, n).Draw(rt, "fates")
		gaps := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 0, 10, 49, 50, 200}), n, n).Draw(rt, "gaps")
		takes := rapid.SampledFrom([]time.Duration{0, 30, 300}).Draw(rt, "takes") * time.Millisecond
		cancelled := rapid.IntRange(0, n).Draw(rt, "cancelled") // 0: none
		inBubble(t, func(r *rig) {
			tried := map[string]int{}
			b := r.bulk(nil)
			b.fate = func(_ int, ids []string) (time.Duration, []error, error) {
				b.mu.Lock()
				defer b.mu.Unlock()
				each := make([]error, len(ids))
				for i, id := range ids {
					tried[id]++
					k := 0
					_, _ = fmt.Sscanf(id, "m%d", &k)
					switch fates[k-1] {
					case "422":
						each[i] = failure.FromStatus(422, 0)
					case "once 503":
						if tried[id] == 1 {
							each[i] = failure.FromStatus(503, 0)
						}
					case "poison":
						return takes, nil, failure.FromStatus(400, 0)
					}
				}
				return takes, each, nil
			}
			r.configure(spec("a", b, batched(most), workers(crew)))
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			var all []<-chan Result
			for i := range n {
				time.Sleep(gaps[i] * time.Millisecond)
				if i+1 == cancelled {
					all = append(all, r.start(ctx, "a"))
					time.AfterFunc(20*time.Millisecond, cancel)
					continue
				}
				all = append(all, r.start(r.Context(), "a"))
			}
			for i, done := range all {
				res := <-done
				switch bad := fates[i] == "422" || fates[i] == "poison"; {
				case i+1 == cancelled && reasons(res) == "a cancelled":
				case bad && reasons(res) != "a permanent", !bad && res.Status != Delivered:
					rt.Fatalf("m%d, which is %s: %v %s", i+1, fates[i], res.Status, reasons(res))
				}
				if most := retry.Resolve().Attempts + 1; res.Attempts > most {
					rt.Fatalf("m%d: %d attempts", i+1, res.Attempts)
				}
			}
			for _, one := range b.seen() {
				if ids := strings.Fields(one)[1:]; len(ids) > most || len(slices.Compact(ids)) != len(ids) {
					rt.Fatalf("a batch of %q", one)
				}
			}
			if b.peak > crew {
				rt.Fatalf("%d batches at once with %d workers", b.peak, crew)
			}
			synctest.Wait()
			for name, l := range r.fleet.lanes {
				if len(l.batches.open) != 0 {
					rt.Fatalf("a batch is left in %s", name)
				}
			}
		})
	})
}

func TestABatchThatPanics(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := r.bulk(func(int, []string) (time.Duration, []error, error) { panic("boom") })
		r.configure(spec("a", b, batched(2), attempts(1)))
		for _, done := range r.startMany(r.Context(), 2, "a") {
			if res := <-done; reasons(res) != "a exhausted" {
				r.Errorf("%s", reasons(res))
			}
		}
	})
}
