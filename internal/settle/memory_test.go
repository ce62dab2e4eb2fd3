package settle

// Catches: a repeat that is delivered a second time, a nack that is answered
// from memory, one caller joined to another's message, a memory that grows
// without bound.

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
)

var (
	key       = Key{"web", "alice", "order-1"}
	delivered = Outcome{event.SettledDelivered, "order-1"}
)

func TestRepeatJoinsTheOneInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Options{})
		first, found := m.Begin(key, []byte("a"))
		if found != First {
			t.Fatalf("found %d, want First", found)
		}
		repeat, found := m.Begin(key, []byte("a"))
		if found != InFlight {
			t.Fatalf("found %d, want InFlight", found)
		}
		got := make(chan Outcome, 1)
		go func() {
			o, ok := repeat.Wait(t.Context())
			if !ok {
				t.Error("nothing to share")
			}
			got <- o
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("answered before the end")
		default:
		}
		first.Keep(delivered)
		if o := <-got; o != delivered {
			t.Errorf("joined to %+v", o)
		}
	})
}

func TestAnsweredFromMemoryUntilKeepIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Options{})
		ticket, _ := m.Begin(key, []byte("a"))
		time.Sleep(time.Hour) // virtual; memory counts from the end
		ticket.Keep(delivered)
		time.Sleep(10*time.Minute - 1)
		again, found := m.Begin(key, []byte("a"))
		if found != Settled || again.Outcome() != delivered {
			t.Fatalf("found %d %+v, want the outcome", found, again.Outcome())
		}
		time.Sleep(time.Nanosecond)
		if _, found := m.Begin(key, []byte("a")); found != First {
			t.Errorf("found %d after 10 minutes, want First", found)
		}
	})
}

func TestOtherBodyIsAConflictOtherCallerIsNot(t *testing.T) {
	m := NewMemory(Options{})
	ticket, _ := m.Begin(key, []byte("a"))
	if _, found := m.Begin(key, []byte("b")); found != Conflict {
		t.Errorf("in flight: found %d, want Conflict", found)
	}
	ticket.Keep(delivered)
	if _, found := m.Begin(key, []byte("b")); found != Conflict {
		t.Errorf("settled: found %d, want Conflict", found)
	}
	for _, other := range []Key{{"web", "bob", "order-1"}, {"api", "alice", "order-1"}, {"web", "alice", "order-2"}} {
		if _, found := m.Begin(other, []byte("b")); found != First {
			t.Errorf("%+v: found %d, want First", other, found)
		}
	}
}

func TestForgottenIsANewTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Options{})
		first, _ := m.Begin(key, nil)
		repeat, _ := m.Begin(key, nil)
		first.Forget()
		if _, ok := repeat.Wait(t.Context()); ok {
			t.Error("the repeat was answered with a nack from memory")
		}
		if _, found := m.Begin(key, nil); found != First {
			t.Errorf("found %d, want First", found)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	m := NewMemory(Options{})
	m.Begin(key, nil)
	repeat, _ := m.Begin(key, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := repeat.Wait(ctx); ok {
		t.Error("an outcome from nowhere")
	}
}

func TestBoundedByEntries(t *testing.T) {
	m := NewMemory(Options{Max: 100})
	for i := range 1000 {
		k := Key{ID: fmt.Sprint(i)}
		ticket, _ := m.Begin(k, nil)
		ticket.Keep(Outcome{event.SettledDelivered, k.ID})
	}
	if m.Len() != 100 || len(m.byKey) != 100 {
		t.Errorf("%d outcomes and %d keys, want 100 of each", m.Len(), len(m.byKey))
	}
	if _, found := m.Begin(Key{ID: "999"}, nil); found != Settled {
		t.Error("the newest was dropped")
	}
	if _, found := m.Begin(Key{ID: "0"}, nil); found != First {
		t.Error("the oldest was kept")
	}
}

// Of many repeats at once one alone settles the message, again after each nack.
func TestOneOfManyIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Options{})
		nacks, settled, answered := 0, 0, make(chan Outcome, 1+MaxWaiting)
		for range cap(answered) {
			go func() {
				for {
					ticket, found := m.Begin(key, []byte("a"))
					switch found {
					case First:
						time.Sleep(time.Second)
						if nacks < 3 {
							nacks++
							ticket.Forget()
							continue
						}
						settled++
						ticket.Keep(delivered)
						answered <- ticket.Outcome()
						return
					case InFlight:
						if o, ok := ticket.Wait(t.Context()); ok {
							answered <- o
							return
						}
					case Settled:
						answered <- ticket.Outcome()
						return
					case Conflict, Crowded:
						t.Errorf("found %d: a conflict with itself, or no room for the last", found)
						return
					}
				}
			}()
		}
		for range cap(answered) {
			if o := <-answered; o != delivered {
				t.Errorf("answered with %+v", o)
			}
		}
		if settled != 1 || nacks != 3 {
			t.Errorf("settled %d times after %d nacks, want once after 3", settled, nacks)
		}
	})
}

// Repeats hold bodies that nobody else counts, so only so many wait for one
// message; others are not touched by it.
func TestOnlySoManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Options{})
		first, _ := m.Begin(key, nil)
		ctx, cancel := context.WithCancel(t.Context())
		for range MaxWaiting {
			repeat, found := m.Begin(key, nil)
			if found != InFlight {
				t.Fatalf("found %d, want InFlight", found)
			}
			go repeat.Wait(ctx)
		}
		if _, found := m.Begin(key, nil); found != Crowded {
			t.Errorf("one too many: found %d", found)
		}
		if _, found := m.Begin(Key{ID: "other"}, nil); found != First {
			t.Errorf("another message: found %d", found)
		}
		cancel()
		synctest.Wait()
		repeat, found := m.Begin(key, nil)
		if found != InFlight {
			t.Errorf("after they went: found %d", found)
		}
		first.Keep(delivered)
		if o, ok := repeat.Wait(t.Context()); !ok || o != delivered {
			t.Errorf("the last one hears %+v, %v", o, ok)
		}
	})
}
