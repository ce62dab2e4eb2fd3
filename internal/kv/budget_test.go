package kv_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/memory"
)

// exchange tells the store what a budget counted, and the budget what the others
// did.
func exchange(t *testing.T, b *limit.Budget, s kv.Counters) {
	t.Helper()
	added := b.Export(time.Now(), nil)
	var slots []kv.Slot
	for _, x := range added {
		slots = append(slots, kv.Slot{Number: x.Number, Counts: []int64{x.Firsts, x.Taken}})
	}
	series := "budget " + added[0].Width.String()
	totals, err := s.Add(t.Context(), series, slots, 22*added[0].Width)
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(added)
	for i, x := range totals {
		known[i].Counts = limit.Counts{Firsts: x.Counts[0], Taken: x.Counts[1]}
	}
	b.Import(time.Now(), added, known)
}

// The counters are enough for a retry budget that several relays share: any
// window's slots go in one call, and what one relay took is gone for the other
// until it has left the window.
func TestBudgetsShareAStore(t *testing.T) {
	for _, window := range []time.Duration{100 * time.Millisecond, 100*time.Millisecond + 19, 10 * time.Second, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Options{})
			settings := limit.BudgetSettings{Ratio: 1, Window: window}
			a, b := limit.NewBudget(settings, time.Now()), limit.NewBudget(settings, time.Now())
			for range 10 {
				a.First(time.Now())
			}
			for range 4 {
				if !a.Take(time.Now()) {
					t.Fatal("no budget")
				}
			}
			exchange(t, a, s)
			exchange(t, b, s)
			if got := b.Left(time.Now()); got != 6 {
				t.Errorf("window %v: %d left at the other relay, want 6", window, got)
			}
			time.Sleep(2 * window)
			exchange(t, b, s)
			if got := s.Len(); got != 0 {
				t.Errorf("window %v: %d slots are kept that nobody needs", window, got)
			}
		})
	}
}
