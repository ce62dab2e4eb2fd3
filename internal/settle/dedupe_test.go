package settle_test

// These tests catch a duplicate that passes, a message that is taken for one
// after a nack, a message that waits for a store or for a relay that died, and a
// memory without a bound.

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/memory"
	"github.com/pawlhq/pawl/internal/settle"
)

// begun begins and wants what is found.
func begun(t testing.TB, d *settle.Dedupe, key string, want settle.Found) *settle.Claim {
	t.Helper()
	c, found := d.Begin(t.Context(), key)
	if found != want {
		t.Fatalf("%s: found %d, want %d", key, found, want)
	}
	return c
}

// waited is how a wait ended.
type waited struct {
	found settle.Found
	err   error
	after time.Duration
}

func wait(ctx context.Context, c *settle.Claim) <-chan waited {
	done, began := make(chan waited, 1), time.Now()
	go func() {
		found, err := c.Wait(ctx)
		done <- waited{found, err, time.Since(began)}
	}()
	return done
}

// still fails the test where the wait has ended.
func still(t *testing.T, c <-chan waited) {
	t.Helper()
	synctest.Wait()
	select {
	case w := <-c:
		t.Fatalf("ended: %+v", w)
	default:
	}
}

// two are two relays that share a store.
func two(store kv.Marks) (a, b *settle.Dedupe) {
	o := settle.DedupeOptions{TTL: time.Minute, Store: store, Scope: "shop/web/"}
	return settle.NewDedupe(o), settle.NewDedupe(o)
}

func TestAKeyCountsOnceItsMessageEndedWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := settle.NewDedupe(settle.DedupeOptions{TTL: time.Minute})
		begun(t, d, "k", settle.First).Forget(t.Context())
		begun(t, d, "k", settle.First).Settle(t.Context())
		begun(t, d, "other", settle.First).Settle(t.Context())
		time.Sleep(time.Minute - time.Nanosecond)
		begun(t, d, "k", settle.Settled)
		time.Sleep(time.Nanosecond)
		begun(t, d, "k", settle.First).Forget(t.Context())
	})
}

func TestTheSecondWaitsForTheFirst(t *testing.T) {
	stores := map[string]func() (a, b *settle.Dedupe){
		"one relay":  func() (a, b *settle.Dedupe) { d := settle.NewDedupe(settle.DedupeOptions{}); return d, d },
		"two relays": func() (a, b *settle.Dedupe) { return two(memory.New(memory.Options{})) },
	}
	for name, make := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := make()
				first := begun(t, a, "k", settle.First)
				second := wait(t.Context(), begun(t, b, "k", settle.InFlight))
				third := wait(t.Context(), begun(t, b, "k", settle.InFlight))
				time.Sleep(time.Hour) // much longer than a lease
				still(t, second)
				first.Settle(t.Context())
				for _, w := range []<-chan waited{second, third} {
					if got := <-w; got.found != settle.Settled || got.err != nil {
						t.Errorf("after the first was settled: %+v", got)
					}
				}

				first = begun(t, a, "n", settle.First)
				c := begun(t, b, "n", settle.InFlight)
				second = wait(t.Context(), c)
				still(t, second)
				first.Forget(t.Context())
				if got := <-second; got.found != settle.First || got.err != nil {
					t.Fatalf("after the first was forgotten: %+v", got)
				}
				c.Settle(t.Context())
				time.Sleep(time.Second)
				begun(t, a, "n", settle.Settled)
			})
		})
	}
}

func TestThoseThatWaitForAKeyAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(memory.New(memory.Options{}))
		for _, d := range []*settle.Dedupe{a, b} { // b's first asks for all
			if d == a {
				defer begun(t, d, "k", settle.First).Settle(t.Context())
			}
			var waiting []*settle.Claim
			for range settle.MaxWaiting {
				waiting = append(waiting, begun(t, d, "k", settle.InFlight))
			}
			begun(t, d, "k", settle.Crowded)
			for _, c := range waiting[1:] {
				c.Leave()
			}
			begun(t, d, "k", settle.InFlight).Leave()
			waiting[0].Leave()
		}
	})
}

// The relay that was only told of a key forgets it with the one that settled it.
func TestTheTimeOfAKeyIsItsFirstMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(memory.New(memory.Options{}))
		begun(t, a, "k", settle.First).Settle(t.Context())
		time.Sleep(40 * time.Second)
		begun(t, b, "k", settle.Settled)
		time.Sleep(20 * time.Second)
		begun(t, b, "k", settle.First).Forget(t.Context())
	})
}

// Another relay's end is heard of soon, however long the message took.
func TestTheEndElsewhereIsHeardSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(memory.New(memory.Options{}))
		first := begun(t, a, "k", settle.First)
		second := wait(t.Context(), begun(t, b, "k", settle.InFlight))
		time.Sleep(time.Hour)
		first.Settle(t.Context())
		if got := <-second; got.found != settle.Settled || got.after > time.Hour+time.Second {
			t.Errorf("%+v", got)
		}
	})
}

// A wait that is given up leaves the key to the next, and holds nothing up.
func TestAWaitIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(memory.New(memory.Options{}))
		first := begun(t, a, "k", settle.First)
		ctx, cancel := context.WithCancel(t.Context())
		asks := wait(ctx, begun(t, b, "k", settle.InFlight))
		behind := wait(t.Context(), begun(t, b, "k", settle.InFlight))
		still(t, asks)
		cancel()
		if got := <-asks; !errors.Is(got.err, context.Canceled) {
			t.Errorf("given up: %+v", got)
		}
		still(t, behind)
		first.Settle(t.Context())
		if got := <-behind; got.found != settle.Settled {
			t.Errorf("the next: %+v", got)
		}
	})
}

// A relay that died renews nothing: its mark is over after the lease.
func TestADeadRelayBlocksForALeaseAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		dead := &dying{Store: store}
		a, _ := two(dead)
		_, b := two(store)
		begun(t, a, "k", settle.First)
		time.Sleep(time.Minute)
		dead.die()
		c := begun(t, b, "k", settle.InFlight)
		got := <-wait(t.Context(), c)
		if got.found != settle.First || got.after < 5*time.Second || got.after > 10*time.Second {
			t.Errorf("%+v, want to be the first within 10 seconds", got)
		}
		c.Settle(t.Context())
	})
}

// dying is a store that fails everything once it is told to.
type dying struct {
	kv.Store
	mu   sync.Mutex
	dead bool
	how  kv.Outcome
	asks int
}

func (s *dying) die()  { s.set(true) }
func (s *dying) back() { s.set(false) }

func (s *dying) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store = memory.New(memory.Options{})
}

func (s *dying) set(dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead, s.asks = dead, 0
}

func (s *dying) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks
}

func (s *dying) at(op kv.Op) (kv.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	if s.dead {
		return nil, &kv.Unavailable{Op: op, Outcome: s.how, Cause: errors.New("connection refused")}
	}
	return s.Store, nil
}

func (s *dying) Mark(ctx context.Context, key, owner string, lease time.Duration) (kv.State, error) {
	store, err := s.at(kv.OpMark)
	if err != nil {
		return kv.State{}, err
	}
	return store.Mark(ctx, key, owner, lease)
}

func (s *dying) Keep(ctx context.Context, key, owner string, lease time.Duration) error {
	store, err := s.at(kv.OpKeep)
	if err != nil {
		return err
	}
	return store.Keep(ctx, key, owner, lease)
}

func (s *dying) Settle(ctx context.Context, key, owner string, ttl time.Duration) error {
	store, err := s.at(kv.OpSettle)
	if err != nil {
		return err
	}
	return store.Settle(ctx, key, owner, ttl)
}

func (s *dying) Forget(ctx context.Context, key, owner string) error {
	store, err := s.at(kv.OpForget)
	if err != nil {
		return err
	}
	return store.Forget(ctx, key, owner)
}

// With the store away each relay goes on by itself, and together again when it
// is back.
func TestWithoutItsStoreARelayGoesOn(t *testing.T) {
	for _, how := range []kv.Outcome{kv.NotDone, kv.Unknown} {
		t.Run(how.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &dying{Store: memory.New(memory.Options{}), how: how}
				o := settle.DedupeOptions{TTL: time.Hour, Store: store}
				a, b := settle.NewDedupe(o), settle.NewDedupe(o)
				begun(t, a, "before", settle.First).Settle(t.Context())
				open := begun(t, a, "open", settle.First)
				store.die()
				begun(t, a, "before", settle.Settled)
				begun(t, a, "during", settle.First).Settle(t.Context())
				begun(t, a, "during", settle.Settled)
				begun(t, b, "during", settle.First).Settle(t.Context()) // nobody told it
				open.Settle(t.Context())
				begun(t, a, "open", settle.Settled)
				// Many messages in ten seconds ask it about ten times each.
				store.die()
				for i := range 1000 {
					time.Sleep(10 * time.Millisecond)
					begun(t, a, string(rune('a'+i)), settle.First).Forget(t.Context())
				}
				if n := store.asked(); n < 8 || n > 30 {
					t.Errorf("asked %d times in ten seconds", n)
				}
				store.back()
				time.Sleep(2 * time.Second)
				begun(t, a, "after", settle.First).Settle(t.Context())
				begun(t, b, "after", settle.Settled)
			})
		})
	}
}

// Each operation that a store at rest is not asked for is told.
func TestWhatIsNotAskedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &dying{Store: memory.New(memory.Options{}), how: kv.NotDone}
		var mu sync.Mutex
		skipped := map[kv.Op]int{}
		d := settle.NewDedupe(settle.DedupeOptions{TTL: time.Hour, Store: store, Skipped: func(op kv.Op) {
			mu.Lock()
			defer mu.Unlock()
			skipped[op]++
		}})
		want := func(mark, keep, settle int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if skipped[kv.OpMark] != mark || skipped[kv.OpKeep] != keep || skipped[kv.OpSettle] != settle {
				t.Errorf("skipped %v, want %d, %d, %d", skipped, mark, keep, settle)
			}
		}
		store.die()
		first := begun(t, d, "is asked", settle.First)
		want(0, 0, 0)
		second := begun(t, d, "is not", settle.First)
		want(1, 0, 0)
		time.Sleep(4 * time.Second) // one of two renewals asks
		synctest.Wait()
		want(1, 1, 0)
		first.Settle(t.Context()) // one of them may have a mark there, and asks
		second.Settle(t.Context())
		want(1, 1, 1)
		store.back()
		time.Sleep(time.Second)
		begun(t, d, "is there again", settle.First).Settle(t.Context())
		want(1, 1, 1)
	})
}

// What refuses one key, or has no room for one more, is there still.
func TestAStoreThatRefusesIsNotAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &dying{Store: memory.New(memory.Options{Max: 1})}
		a, b := two(store)
		full := begun(t, a, "has the only room", settle.First)
		begun(t, a, "finds none", settle.First).Forget(t.Context())
		full.Settle(t.Context())
		begun(t, b, "has the only room", settle.Settled)
	})
}

// A store that lost everything, as one that was restarted, learns what is in
// flight.
func TestAStoreThatForgotIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &dying{Store: memory.New(memory.Options{})}
		a, b := two(s)
		c := begun(t, a, "k", settle.First)
		s.restart()
		time.Sleep(time.Minute)
		second := wait(t.Context(), begun(t, b, "k", settle.InFlight))
		still(t, second)
		c.Settle(t.Context())
		if got := <-second; got.found != settle.Settled {
			t.Errorf("%+v", got)
		}
	})
}

func TestKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := settle.NewDedupe(settle.DedupeOptions{Max: 3})
		for _, k := range []string{"1", "2", "3", "4"} {
			begun(t, d, k, settle.First).Settle(t.Context())
		}
		if d.Len() != 3 {
			t.Errorf("%d keys", d.Len())
		}
		begun(t, d, "1", settle.First).Forget(t.Context()) // the oldest went
		begun(t, d, "2", settle.Settled)
	})
}

func TestScopesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		a := settle.NewDedupe(settle.DedupeOptions{Store: store, Scope: "a/"})
		b := settle.NewDedupe(settle.DedupeOptions{Store: store, Scope: "b/"})
		begun(t, a, "k", settle.First).Settle(t.Context())
		begun(t, b, "k", settle.First).Settle(t.Context())
	})
}
