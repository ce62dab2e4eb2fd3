// Package kvtest is the suite that every kv.Store passes, with a proxy that
// stands before a server and fails on demand. Only tests import it.
package kvtest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
)

// Harness opens what is tested.
type Harness struct {
	// Open returns one more client of the same data. The suite closes it.
	Open func(t testing.TB) kv.Store
	// Within runs a test, in a bubble of virtual time say; nil runs it as it is.
	Within func(t *testing.T, f func(*testing.T))
}

// test is one of the suite's.
type test struct {
	name string
	f    func(*rig)
}

// rig is what a test works with.
type rig struct {
	*testing.T
	ctx  context.Context
	a, b kv.Store // two clients of one store
	salt string
}

const (
	// short is a lease or a time to live that a test sees the end of: long enough
	// for what is to happen before it on a busy machine, and nothing fails if it
	// isn't.
	short = 150 * time.Millisecond
	long  = time.Hour
	// patience is how long a test waits for what must come.
	patience = 30 * time.Second
	// slack is for the rounding of clocks.
	slack = 5 * time.Millisecond
)

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	within := h.Within
	if within == nil {
		within = func(t *testing.T, f func(*testing.T)) { f(t) }
	}
	for _, tests := range [][]test{markTests, counterTests, commonTests} {
		for _, c := range tests {
			t.Run(c.name, func(t *testing.T) {
				within(t, func(t *testing.T) {
					r := &rig{T: t, ctx: t.Context(), a: h.Open(t), b: h.Open(t), salt: rand.Text()}
					defer r.close()
					c.f(r)
				})
			})
		}
	}
}

func (r *rig) close() {
	r.must(r.a.Close())
	r.must(r.b.Close())
}

// key makes a key of this test.
func (r *rig) key(name string) string { return r.salt + name }

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// is checks an error.
func (r *rig) is(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("the error is %v, want %v", err, want)
	}
}

// mark marks for an hour, and checks what is found.
func (r *rig) mark(s kv.Store, key, owner string, want kv.Found) kv.State {
	r.Helper()
	return r.markFor(s, key, owner, long, want)
}

func (r *rig) markFor(s kv.Store, key, owner string, lease time.Duration, want kv.Found) kv.State {
	r.Helper()
	got, err := s.Mark(r.ctx, key, owner, lease)
	r.must(err)
	if got.Found != want {
		r.Fatalf("%s finds %v, want %v", owner, got, want)
	}
	return got
}

// until asks again and again until the answer is yes.
func (r *rig) until(what string, yes func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); !yes(); {
		if time.Now().After(end) {
			r.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// untilTwo waits until a key is free for owner two, who has it then.
func (r *rig) untilTwo(s kv.Store, key string) {
	r.Helper()
	r.until("the key is free", func() bool {
		got, err := s.Mark(r.ctx, key, "two", long)
		r.must(err)
		return got.Found == kv.Mine
	})
}

// notEarly checks that what was to last for short did.
func (r *rig) notEarly(start time.Time) {
	r.Helper()
	if passed := time.Since(start); passed < short-slack {
		r.Errorf("over after %v, want %v", passed, short)
	}
}

// unavailable checks an error, its outcome and its cause, if that is not nil.
func unavailable(t testing.TB, err error, op kv.Op, outcome kv.Outcome, cause error) {
	t.Helper()
	u, ok := errors.AsType[*kv.Unavailable](err)
	switch {
	case !ok || !errors.Is(err, kv.ErrUnavailable):
		t.Fatalf("the error is %v, want Unavailable", err)
	case u.Op != op || u.Outcome != outcome:
		t.Errorf("%v of %s, want %v of %s: %v", u.Outcome, u.Op, outcome, op, err)
	case cause != nil && !errors.Is(err, cause):
		t.Errorf("the cause is %v, want %v", u.Cause, cause)
	}
}

// operations are all of them, each with its name.
func operations(s kv.Store, key, owner string) map[kv.Op]func(context.Context) error {
	return map[kv.Op]func(context.Context) error{
		kv.OpMark:   func(ctx context.Context) error { _, err := s.Mark(ctx, key, owner, long); return err },
		kv.OpKeep:   func(ctx context.Context) error { return s.Keep(ctx, key, owner, long) },
		kv.OpSettle: func(ctx context.Context) error { return s.Settle(ctx, key, owner, long) },
		kv.OpForget: func(ctx context.Context) error { return s.Forget(ctx, key, owner) },
		kv.OpAdd: func(ctx context.Context) error {
			_, err := s.Add(ctx, key, []kv.Slot{{Counts: []int64{1}}}, long)
			return err
		},
		kv.OpPing: s.Ping,
	}
}
