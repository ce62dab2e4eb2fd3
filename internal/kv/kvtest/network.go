package kvtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/kv"
)

// Network opens a store that is a server.
type Network struct {
	// Addr is the server's own TCP address.
	Addr string
	// Open returns a client that goes through another address to it. The suite
	// closes it.
	Open func(t testing.TB, addr string) kv.Store
}

// wire is what a test of a network works with.
type wire struct {
	*rig  // a goes through the proxy, b to the server
	proxy *Proxy
}

// RunNetwork runs what goes wrong between a client and its server.
func RunNetwork(t *testing.T, n Network) {
	for _, c := range networkTests {
		t.Run(c.name, func(t *testing.T) {
			p := NewProxy(t, n.Addr)
			w := &wire{&rig{T: t, ctx: t.Context(), a: n.Open(t, p.Addr()), b: n.Open(t, n.Addr), salt: rand.Text()}, p}
			defer w.close()
			c.f(w)
		})
	}
}

// warm uses every operation once, so that both clients are connected and the
// server knows what they send.
func (w *wire) warm() {
	w.Helper()
	for _, s := range []kv.Store{w.a, w.b} {
		k := w.key(rand.Text())
		for _, op := range []kv.Op{kv.OpPing, kv.OpMark, kv.OpKeep, kv.OpSettle, kv.OpForget, kv.OpAdd} {
			w.must(operations(s, k, "warm")[op](w.ctx))
		}
	}
}

// insists retries for long enough that a test can do something meanwhile.
func insists(s kv.Store) kv.Store {
	return kv.Retry(s, kv.Policy{
		Attempts: 10_000,
		Backoff:  backoff.Schedule{Initial: 2 * time.Millisecond, Max: 2 * time.Millisecond, Jitter: backoff.None},
		Timeout:  patience,
	})
}

var networkTests = []struct {
	name string
	f    func(*wire)
}{
	{"the server is away, and comes back", func(w *wire) {
		k := w.key("k")
		for _, when := range []string{"from the start", "later"} {
			w.proxy.Cut()
			// A connection that broke may have been tried.
			w.until("it is known to be away "+when, func() bool {
				u, ok := errors.AsType[*kv.Unavailable](w.a.Ping(w.ctx))
				return ok && u.Outcome == kv.NotDone
			})
			for op, f := range operations(w.a, k, "one") {
				unavailable(w, f(w.ctx), op, kv.NotDone, nil)
			}
			w.proxy.Mend()
			w.until("it is back", func() bool { return w.a.Ping(w.ctx) == nil })
			w.warm()
		}
		w.mark(w.b, k, "two", kv.Mine)
	}},
	{"the answer is lost", func(w *wire) {
		marked := func(owner string, want kv.Found) func(string) {
			return func(k string) { w.mark(w.b, k, owner, want) }
		}
		for op, c := range map[kv.Op]struct {
			done  func(key string) // what the server has then
			after func(key string) // what it has after a repeat
		}{
			kv.OpMark:   {marked("two", kv.Taken), marked("two", kv.Taken)},
			kv.OpKeep:   {marked("two", kv.Taken), marked("two", kv.Taken)},
			kv.OpSettle: {marked("two", kv.Done), marked("one", kv.Done)},
			kv.OpForget: {marked("two", kv.Mine), marked("one", kv.Taken)},
			kv.OpAdd: {
				func(k string) { w.totals(w.add(w.b, k, slot(0, 0)), slot(0, 1)) },
				func(k string) { w.totals(w.add(w.b, k, slot(0, 0)), slot(0, 2)) },
			},
		} {
			w.Log(op)
			w.until("it is there", func() bool { return w.a.Ping(w.ctx) == nil })
			w.warm()
			k := w.key(string(op))
			if op != kv.OpMark && op != kv.OpAdd {
				w.mark(w.a, k, "one", kv.Mine)
			}
			f := operations(w.a, k, "one")[op]
			w.proxy.Swallow()
			failed := make(chan error, 1)
			go func() { failed <- f(w.ctx) }()
			w.proxy.WaitSilenced()
			w.proxy.Cut()
			unavailable(w, <-failed, op, kv.Unknown, nil)
			c.done(k)
			w.proxy.Mend()
			w.until("it is there again", func() bool { return w.a.Ping(w.ctx) == nil })
			w.must(f(w.ctx))
			c.after(k)
		}
	}},
	{"a lost answer is asked for again, and nothing counts twice", func(w *wire) {
		for _, op := range []kv.Op{kv.OpMark, kv.OpAdd} {
			w.until("it is there", func() bool { return w.a.Ping(w.ctx) == nil })
			w.warm()
			k := w.key(string(op))
			f := operations(insists(w.a), k, "one")[op]
			w.proxy.Swallow()
			ended := make(chan error, 1)
			go func() { ended <- f(w.ctx) }()
			w.proxy.WaitSilenced()
			w.proxy.Cut()
			w.proxy.Mend()
			switch err := <-ended; op {
			case kv.OpMark:
				w.must(err)
				w.mark(w.b, k, "two", kv.Taken)
			default:
				unavailable(w, err, op, kv.Unknown, nil)
				w.totals(w.add(w.b, k, slot(0, 0)), slot(0, 1))
			}
		}
	}},
	{"what was not done is tried again", func(w *wire) {
		w.proxy.Cut()
		k := w.key("k")
		ended := make(chan error, 1)
		go func() { ended <- operations(insists(w.a), k, "one")[kv.OpAdd](w.ctx) }()
		w.until("it is away", func() bool { return w.a.Ping(w.ctx) != nil })
		w.proxy.Mend()
		w.must(<-ended)
		w.totals(w.add(w.b, k, slot(0, 0)), slot(0, 1))
	}},
	{"a slow server's answers are nobody else's", func(w *wire) {
		w.warm()
		settled := w.key("settled")
		w.must(w.b.Settle(w.ctx, settled, "two", long))
		w.proxy.Hold()
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(w.ctx, short)
				defer cancel()
				for {
					_, err := w.a.Mark(ctx, w.key(fmt.Sprint(i)), "one", long)
					unavailableIn(w, err, context.DeadlineExceeded)
					if ctx.Err() != nil {
						return
					}
				}
			})
		}
		w.proxy.WaitSilenced()
		all.Wait()
		w.proxy.Mend()
		w.until("it is there", func() bool { return w.a.Ping(w.ctx) == nil })
		for i := range 32 {
			w.mark(w.b, w.key(fmt.Sprint(i)), "two", kv.Taken)
			w.mark(w.a, settled, "one", kv.Done)
			w.totals(w.add(w.a, w.key("n"), slot(0, 1)), slot(0, int64(i)+1))
		}
	}},
	{"a silent server holds nobody past the timeout", func(w *wire) {
		w.warm()
		w.proxy.Hold()
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				for j := range 40 {
					ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
					_, err := w.a.Mark(ctx, w.key(fmt.Sprint(i, " ", j)), "one", long)
					cancel()
					unavailableIn(w, err, nil)
				}
			})
		}
		all.Wait()
		w.until("the connection is given up", func() bool {
			ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
			defer cancel()
			unavailableIn(w, w.a.Ping(ctx), nil)
			return w.proxy.Accepted() > 1
		})
		w.proxy.Mend()
		w.until("it is there", func() bool { return w.a.Ping(w.ctx) == nil })
		w.mark(w.a, w.key("k"), "one", kv.Mine)
	}},
	{"a server that was silent from the start", func(w *wire) {
		w.proxy.Hold()
		ctx, cancel := context.WithTimeout(w.ctx, short)
		defer cancel()
		for op, f := range operations(w.a, w.key("k"), "one") {
			unavailable(w, f(ctx), op, kv.NotDone, context.DeadlineExceeded)
		}
		w.must(w.a.Close())
		unavailable(w, w.a.Ping(w.ctx), kv.OpPing, kv.NotDone, kv.ErrClosed)
	}},
	{"closed while an answer is awaited", func(w *wire) {
		w.warm()
		w.proxy.Hold()
		failed := make(chan error, 1)
		go func() { failed <- operations(w.a, w.key("k"), "one")[kv.OpMark](w.ctx) }()
		w.proxy.WaitSilenced()
		w.must(w.a.Close())
		unavailable(w, <-failed, kv.OpMark, kv.Unknown, nil)
		w.mark(w.b, w.key("k"), "two", kv.Taken)
	}},
}

// unavailableIn checks an error, also in a goroutine that is not the test's own,
// and its cause, if that is not nil.
func unavailableIn(t testing.TB, err, cause error) {
	if !errors.Is(err, kv.ErrUnavailable) || cause != nil && !errors.Is(err, cause) {
		t.Errorf("the error is %v, want Unavailable and %v", err, cause)
	}
}
