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

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
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
