package deliver

// These tests catch: relays that share a store and send as many retries each as
// they may together; a budget that stays spent, or stops retries for good, when
// the store is away; an idle lane that keeps the store busy; a goroutine that
// outlives its lane.

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/memory"
)

// counters are counters that can be away, and count how often they are asked.
type counters struct {
	kv.Counters
	mu   sync.Mutex
	away bool
	asks int
}

func (c *counters) Add(ctx context.Context, series string, slots []kv.Slot, ttl time.Duration) ([]kv.Slot, error) {
	c.mu.Lock()
	c.asks++
	away := c.away
	c.mu.Unlock()
	if away {
		return nil, &kv.Unavailable{Op: kv.OpAdd, Outcome: kv.Unknown, Cause: errors.New("connection refused")}
	}
	return c.Counters.Add(ctx, series, slots, ttl)
}

// asked returns how often they were asked since the last time.
func (c *counters) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.asks
	c.asks = 0
	return n
}

func (c *counters) setAway(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

func shared(c kv.Counters) func(*Spec) { return func(s *Spec) { s.BudgetCounters = c } }

// relays are two fleets that send to one endpoint through lanes of one name.
func relays(t *testing.T, s Spec) (both []*rig) {
	for range 2 {
		r := &rig{T: t, began: time.Now()}
		r.fleet = NewFleet(Options{Events: r.take, Random: func() float64 { return 0.5 }})
		r.configure(s)
		both = append(both, r)
	}
	return both
}

func closeAll(rigs []*rig) {
	for _, r := range rigs {
		r.fleet.Close()
	}
}

// retriesOf delivers a message that fails, every so often, and returns how many
// retries there were.
func retriesOf(e *endpoint, each time.Duration, n int, rigs ...*rig) int {
	before := len(e.seen())
	for range n {
		for _, r := range rigs {
			r.deliver(r.Context(), "a")
		}
		time.Sleep(each)
	}
	return len(e.seen()) - before - n*len(rigs)
}

// budgeting is a lane without a breaker whose messages fail and are retried once
// at most, ten retries in ten seconds.
func budgeting(e *endpoint, more ...func(*Spec)) Spec {
	return spec("a", e, append([]func(*Spec){attempts(2), budgeted(0, 1, 10*time.Second)}, more...)...)
}

func TestRelaysShareARetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		e := always(status(503))
		rigs := relays(t, budgeting(e, shared(store)))
		defer closeAll(rigs)
		// Forty failures in ten seconds: ten retries, and one or two that one relay
		// took before it heard of the other's.
		if got := retriesOf(e, 400*ms, 20, rigs...); got < 8 || got > 12 {
			t.Errorf("%d retries of two relays, want about 10", got)
		}
	})
}

func TestWithoutTheStoreABudgetIsLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counters{Counters: memory.New(memory.Options{})}
		e := always(status(503))
		rigs := relays(t, budgeting(e, shared(store)))
		defer closeAll(rigs)
		retriesOf(e, 400*ms, 20, rigs...)
		store.setAway(true)
		time.Sleep(20 * time.Second)
		if got := retriesOf(e, 400*ms, 20, rigs...); got < 18 || got > 22 {
			t.Errorf("%d retries of two relays without their store, want about 10 each", got)
		}
		store.setAway(false)
		time.Sleep(20 * time.Second)
		if got := retriesOf(e, 400*ms, 20, rigs...); got < 8 || got > 12 {
			t.Errorf("%d retries of two relays that have it back, want about 10", got)
		}
	})
}

func TestABudgetIsExchangedWhileThereIsTraffic(t *testing.T) {
	inBubble(t, func(r *rig) {
		store := &counters{Counters: memory.New(memory.Options{})}
		e := always(well)
		r.configure(budgeting(e, shared(store)))
		time.Sleep(time.Hour)
		if n := store.asked(); n != 0 {
			t.Errorf("asked %d times before anything was sent", n)
		}
		for range 100 {
			r.deliver(r.Context(), "a")
			time.Sleep(100 * ms)
		}
		if n := store.asked(); n < 18 || n > 22 { // ten seconds of half a second each
			t.Errorf("asked %d times in ten seconds", n)
		}
		time.Sleep(time.Minute)
		store.asked()
		time.Sleep(time.Hour)
		if n := store.asked(); n != 0 {
			t.Errorf("asked %d times while nothing was sent", n)
		}
		store.setAway(true)
		for range 100 {
			r.deliver(r.Context(), "a")
			time.Sleep(100 * ms)
		}
		if n := store.asked(); n < 8 || n > 12 {
			t.Errorf("asked %d times in ten seconds while it was away", n)
		}
		// A reload without the store ends it.
		r.configure(budgeting(e))
		store.asked()
		for range 100 {
			r.deliver(r.Context(), "a")
			time.Sleep(100 * ms)
		}
		if n := store.asked(); n > 1 {
			t.Errorf("asked %d times after a reload without it", n)
		}
	})
}
