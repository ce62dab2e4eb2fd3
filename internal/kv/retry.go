package kv

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawlhq/pawl/internal/core/backoff"
)

// Policy says how an operation is retried.
type Policy struct {
	// Attempts counts the first one; 1 is no retry. Less is taken as 1.
	Attempts int
	// Backoff says how long the n-th retry waits.
	Backoff backoff.Schedule
	// Timeout is per attempt; zero or less is none.
	Timeout time.Duration
}

// DefaultPolicy is what a store has unless it says otherwise. Messages wait for
// their store, so it gives up after half a second: a store next door answers
// within a millisecond, one on another continent within 200, and one that was
// restarted is back at the second attempt or not soon.
func DefaultPolicy() Policy {
	return Policy{
		Attempts: 2,
		Backoff:  backoff.Schedule{Initial: 20 * time.Millisecond, Max: time.Second, Factor: 2, Jitter: backoff.Full},
		Timeout:  250 * time.Millisecond,
	}
}

// Retry returns the store with every operation retried. No store retries by
// itself, so this is the one place that does. A wait that would end after the
// caller's deadline is not begun. What is returned is the last attempt's error.
//
// What is Refused is not tried again. What may have been done is, where a repeat
// is harmless:
//
//   - Mark: the owner's own mark is Mine again, with the same lease.
//   - Keep: the lease ends that long from the repeat.
//   - Settle: what this owner settled stays as it is.
//   - Forget: what is not there is left so; the next one's mark is another
//     owner's.
//   - Ping has no effect.
//
// Add is repeated only where it is known that nothing was added.
func Retry(s Store, p Policy) Store { return &retried{store: s, policy: p} }

type retried struct {
	store  Store
	policy Policy
}

// repeat is when a failed operation may be tried again.
type repeat uint8

const (
	harmless    repeat = iota + 1 // unless it was refused
	onlyNotDone                   // where nothing was done
)

func (r repeat) allows(err error) bool {
	u, ok := errors.AsType[*Unavailable](err)
	if !ok {
		return false // an answer
	}
	switch r {
	case harmless:
		return u.Outcome != Refused
	case onlyNotDone:
		return u.Outcome == NotDone
	}
	return false
}

func (r *retried) do(ctx context.Context, when repeat, try func(context.Context) error) error {
	for n := 1; ; n++ {
		err := r.attempt(ctx, try)
		if err == nil || n >= r.policy.Attempts || !when.allows(err) || !r.wait(ctx, n) {
			return err
		}
	}
}

func (r *retried) attempt(ctx context.Context, try func(context.Context) error) error {
	if r.policy.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.policy.Timeout)
		defer cancel()
	}
	return try(ctx)
}

// wait waits before the n-th retry, and reports whether there is to be one.
func (r *retried) wait(ctx context.Context, n int) bool {
	d := r.policy.Backoff.Delay(n, rand.Float64())
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (r *retried) Mark(ctx context.Context, key, owner string, lease time.Duration) (state State, err error) {
	err = r.do(ctx, harmless, func(ctx context.Context) (err error) {
		state, err = r.store.Mark(ctx, key, owner, lease)
		return err
	})
	return state, err
}

func (r *retried) Keep(ctx context.Context, key, owner string, lease time.Duration) error {
	return r.do(ctx, harmless, func(ctx context.Context) error { return r.store.Keep(ctx, key, owner, lease) })
}

func (r *retried) Settle(ctx context.Context, key, owner string, ttl time.Duration) error {
	return r.do(ctx, harmless, func(ctx context.Context) error { return r.store.Settle(ctx, key, owner, ttl) })
}

func (r *retried) Forget(ctx context.Context, key, owner string) error {
	return r.do(ctx, harmless, func(ctx context.Context) error { return r.store.Forget(ctx, key, owner) })
}

func (r *retried) Add(ctx context.Context, series string, slots []Slot, ttl time.Duration) (totals []Slot, err error) {
	err = r.do(ctx, onlyNotDone, func(ctx context.Context) (err error) {
		totals, err = r.store.Add(ctx, series, slots, ttl)
		return err
	})
	return totals, err
}

func (r *retried) Ping(ctx context.Context) error { return r.do(ctx, harmless, r.store.Ping) }

func (r *retried) Close() error { return r.store.Close() }
