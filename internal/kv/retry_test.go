package kv_test

// These tests catch an operation that is tried too often or not again, a repeat
// of what must not be repeated, a wait past the caller's deadline, a timeout that
// is not per attempt, and two keys that are stored as one.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/kvtest"
	"github.com/pawlhq/pawl/internal/kv/memory"
)

// flaky is a store whose operations fail first.
type flaky struct {
	kv.Store
	fail  []kv.Outcome  // of the first operations
	hang  time.Duration // of every operation
	tries []time.Time
}

func (f *flaky) try(ctx context.Context, op kv.Op) error {
	n := len(f.tries)
	f.tries = append(f.tries, time.Now())
	if f.hang > 0 {
		select {
		case <-time.After(f.hang):
		case <-ctx.Done():
			return &kv.Unavailable{Op: op, Cause: ctx.Err()}
		}
	}
	if n < len(f.fail) {
		return &kv.Unavailable{Op: op, Outcome: f.fail[n], Cause: errCut}
	}
	return nil
}

var errCut = errors.New("cut")

func (f *flaky) Mark(ctx context.Context, key, owner string, lease time.Duration) (kv.State, error) {
	if err := f.try(ctx, kv.OpMark); err != nil {
		return kv.State{}, err
	}
	return f.Store.Mark(ctx, key, owner, lease)
}

func (f *flaky) Keep(ctx context.Context, key, owner string, lease time.Duration) error {
	if err := f.try(ctx, kv.OpKeep); err != nil {
		return err
	}
	return f.Store.Keep(ctx, key, owner, lease)
}

func (f *flaky) Settle(ctx context.Context, key, owner string, ttl time.Duration) error {
	if err := f.try(ctx, kv.OpSettle); err != nil {
		return err
	}
	return f.Store.Settle(ctx, key, owner, ttl)
}

func (f *flaky) Forget(ctx context.Context, key, owner string) error {
	if err := f.try(ctx, kv.OpForget); err != nil {
		return err
	}
	return f.Store.Forget(ctx, key, owner)
}

func (f *flaky) Add(ctx context.Context, series string, slots []kv.Slot, ttl time.Duration) ([]kv.Slot, error) {
	if err := f.try(ctx, kv.OpAdd); err != nil {
		return nil, err
	}
	return f.Store.Add(ctx, series, slots, ttl)
}

func (f *flaky) Ping(ctx context.Context) error {
	if err := f.try(ctx, kv.OpPing); err != nil {
		return err
	}
	return f.Store.Ping(ctx)
}

const (
	unknown = kv.Unknown
	notDone = kv.NotDone
	refused = kv.Refused
)

var policy = kv.Policy{
	Attempts: 3,
	Backoff:  backoff.Schedule{Initial: 100 * time.Millisecond, Max: time.Second, Factor: 2, Jitter: backoff.None},
	Timeout:  time.Second,
}

// call is one operation on a mark that its owner has.
type call func(ctx context.Context, s kv.Store) error

var calls = map[kv.Op]call{
	kv.OpMark:   func(ctx context.Context, s kv.Store) error { _, err := s.Mark(ctx, "k", "one", time.Hour); return err },
	kv.OpKeep:   func(ctx context.Context, s kv.Store) error { return s.Keep(ctx, "k", "one", time.Hour) },
	kv.OpSettle: func(ctx context.Context, s kv.Store) error { return s.Settle(ctx, "k", "one", time.Hour) },
	kv.OpForget: func(ctx context.Context, s kv.Store) error { return s.Forget(ctx, "k", "one") },
	kv.OpAdd: func(ctx context.Context, s kv.Store) error {
		_, err := s.Add(ctx, "k", []kv.Slot{{Counts: []int64{1}}}, time.Hour)
		return err
	},
	kv.OpPing: func(ctx context.Context, s kv.Store) error { return s.Ping(ctx) },
}

// run calls an operation on a flaky store and returns when it was tried, counted
// from the start.
func run(t *testing.T, op kv.Op, f *flaky, p kv.Policy, within time.Duration) (tries []time.Duration, took time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		f.Store = memory.New(memory.Options{})
		if _, err := f.Store.Mark(t.Context(), "k", "one", time.Hour); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		if within > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, within)
			defer cancel()
		}
		start := time.Now()
		err = calls[op](ctx, kv.Retry(f, p))
		took = time.Since(start)
		for _, at := range f.tries {
			tries = append(tries, at.Sub(start))
		}
	})
	return tries, took, err
}

func TestRetry(t *testing.T) {
	for op := range calls {
		for _, c := range []struct {
			fail         []kv.Outcome
			tries, added int
			ok, addOK    bool
		}{
			{nil, 1, 1, true, true},
			{[]kv.Outcome{notDone}, 2, 2, true, true},
			{[]kv.Outcome{notDone, notDone}, 3, 3, true, true},
			{[]kv.Outcome{notDone, notDone, notDone}, 3, 3, false, false},
			{[]kv.Outcome{unknown}, 2, 1, true, false},
			{[]kv.Outcome{notDone, unknown}, 3, 2, true, false},
			{[]kv.Outcome{refused}, 1, 1, false, false},
			{[]kv.Outcome{unknown, refused}, 2, 1, false, false},
		} {
			tries, ok := c.tries, c.ok
			if op == kv.OpAdd {
				tries, ok = c.added, c.addOK
			}
			got, took, err := run(t, op, &flaky{fail: c.fail}, policy, 0)
			if len(got) != tries || (err == nil) != ok || !ok && !errors.Is(err, errCut) {
				t.Errorf("%s, %v: %d tries, %v; want %d", op, c.fail, len(got), err, tries)
			}
			if want := []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond}[len(got)-1]; took != want {
				t.Errorf("%s, %v: took %v, want %v", op, c.fail, took, want)
			}
		}
	}
}

// An answer is no failure, whatever it says.
func TestAnswersAreNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Store: memory.New(memory.Options{})}
		s := kv.Retry(f, policy)
		if err := s.Keep(t.Context(), "nobody's", "one", time.Hour); !errors.Is(err, kv.ErrLost) {
			t.Error(err)
		}
		if err := s.Settle(t.Context(), "", "one", time.Hour); !errors.Is(err, kv.ErrInvalid) {
			t.Error(err)
		}
		if len(f.tries) != 2 {
			t.Errorf("%d tries", len(f.tries))
		}
	})
}

func TestTimeoutIsPerAttempt(t *testing.T) {
	tries, took, err := run(t, kv.OpMark, &flaky{hang: time.Hour}, policy, 0)
	if want := 3*time.Second + 300*time.Millisecond; len(tries) != 3 || took != want || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d tries, %v, %v", len(tries), took, err)
	}
	none := policy
	none.Timeout = 0
	if tries, took, err := run(t, kv.OpMark, &flaky{hang: time.Hour}, none, 0); len(tries) != 1 || took != time.Hour || err != nil {
		t.Errorf("without a timeout: %d tries, %v, %v", len(tries), took, err)
	}
}

func TestDeadlineOfTheCaller(t *testing.T) {
	always := []kv.Outcome{notDone, notDone, notDone}
	for within, want := range map[time.Duration]int{
		99 * time.Millisecond:  1, // the wait would end after it
		100 * time.Millisecond: 1, // and with it nothing can be tried
		101 * time.Millisecond: 2,
		301 * time.Millisecond: 3,
	} {
		tries, took, err := run(t, kv.OpMark, &flaky{fail: always}, policy, within)
		if len(tries) != want || !errors.Is(err, errCut) || want < 3 && took == within {
			t.Errorf("within %v: %d tries, %v, %v", within, len(tries), took, err)
		}
	}
	if tries, took, err := run(t, kv.OpMark, &flaky{hang: time.Hour}, policy, 500*time.Millisecond); len(tries) != 1 || took != 500*time.Millisecond || !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("hanging: %d tries, %v, %v", len(tries), took, err)
	}
}

func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Store: memory.New(memory.Options{}), fail: []kv.Outcome{notDone}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		start := time.Now()
		err := kv.Retry(f, policy).Ping(ctx)
		if took := time.Since(start); took != 50*time.Millisecond || !errors.Is(err, errCut) || len(f.tries) != 1 {
			t.Errorf("%v, %d tries, %v", took, len(f.tries), err)
		}
	})
}

func TestNoRetry(t *testing.T) {
	for _, n := range []int{1, 0, -1} {
		p := policy
		p.Attempts = n
		if tries, _, err := run(t, kv.OpMark, &flaky{fail: []kv.Outcome{notDone}}, p, 0); len(tries) != 1 || err == nil {
			t.Errorf("%d attempts: %d tries, %v", n, len(tries), err)
		}
	}
}

// The default gives up before a second has passed, and spreads its retries.
func TestDefaultPolicy(t *testing.T) {
	p := kv.DefaultPolicy()
	waits := map[time.Duration]bool{}
	for range 20 {
		tries, took, err := run(t, kv.OpMark, &flaky{hang: time.Hour}, p, 0)
		if len(tries) != 2 || took > 600*time.Millisecond || err == nil {
			t.Fatalf("%d tries, %v, %v", len(tries), took, err)
		}
		waits[tries[1]] = true
	}
	if len(waits) < 10 {
		t.Errorf("20 retries came after %d different waits", len(waits))
	}
}

// A store with retries is a store.
func TestRetryKeepsTheContract(t *testing.T) {
	var shared *memory.Store
	kvtest.Run(t, kvtest.Harness{
		Within: func(t *testing.T, f func(*testing.T)) {
			shared = memory.New(memory.Options{})
			synctest.Test(t, f)
		},
		Open: func(testing.TB) kv.Store { return kv.Retry(shared, kv.DefaultPolicy()) },
	})
}

func TestShortKeysAreBoundedAndDiffer(t *testing.T) {
	keys := rapid.Custom(func(t *rapid.T) string {
		k := rapid.StringOfN(rapid.SampledFrom([]rune("=#a")), 0, 6, -1).Draw(t, "key")
		if rapid.Bool().Draw(t, "long") {
			k += strings.Repeat("a", rapid.IntRange(245, 260).Draw(t, "more"))
		}
		if rapid.Bool().Draw(t, "shortened") {
			k = kv.Short(k)
		}
		return k
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		if len(kv.Short(a)) > 257 {
			t.Fatalf("%d bytes", len(kv.Short(a)))
		}
		if (a == b) != (kv.Short(a) == kv.Short(b)) {
			t.Fatalf("%q and %q are %q and %q", a, b, kv.Short(a), kv.Short(b))
		}
	})
}

func TestErrorsTell(t *testing.T) {
	err := error(&kv.Unavailable{Op: kv.OpAdd, Outcome: kv.Refused, Cause: errCut})
	if got, want := err.Error(), "store unavailable: add: cut"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if errors.Is(err, kv.ErrLost) || !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, errCut) {
		t.Error("errors.Is does not find its way")
	}
}
