package limit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/limit"
)

// counter names a counter of the store.
type counter struct {
	number int64
	width  time.Duration
}

// store keeps two numbers a slot, as a shared store would.
type store map[counter]limit.Counts

// add adds and returns the totals, in one step.
func (s store) add(slots []limit.Slot) (totals []limit.Slot) {
	for _, x := range slots {
		c := counter{x.Number, x.Width}
		s[c] = limit.Counts{Firsts: s[c].Firsts + x.Firsts, Taken: s[c].Taken + x.Taken}
		totals = append(totals, limit.Slot{Number: x.Number, Width: x.Width, Counts: s[c]})
	}
	return totals
}

// exchange is what a relay does now and then.
func exchange(b *limit.Budget, s store, now time.Time) {
	added := b.Export(now, nil)
	b.Import(now, added, s.add(added))
}

// Relays that exchange before and after each repeat keep the promise together,
// whatever happens to the store's answers.
func TestRelaysKeepThePromiseTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := budgets().Draw(t, "settings")
		var (
			relays [3]*limit.Budget
			shared = store{}
			h      = &history{now: start}
			now    = start
		)
		for i := range relays {
			relays[i] = limit.NewBudget(s, start.Add(-time.Duration(i)*sec))
		}
		// sync goes on until the store has said that it has everything.
		sync := func(b *limit.Budget) {
			for {
				switch rapid.SampledFrom([]string{"done", "done", "answer lost", "not done"}).Draw(t, "exchange") {
				case "done":
					exchange(b, shared, now)
					return
				case "answer lost":
					shared.add(b.Export(now, nil))
				case "not done":
					b.Export(now, nil)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			b := rapid.SampledFrom(relays[:]).Draw(t, "relay")
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 3:
				if d := step(t, s.Window); d > 0 {
					now = now.Add(d)
				}
				h.tell(now)
			case what < 6:
				for range rapid.IntRange(1, 20).Draw(t, "firsts") {
					b.First(now)
					h.firsts = append(h.firsts, now)
				}
			case what == 6: // another window for a moment, and back
				other := budgets().Draw(t, "new settings")
				sync(b)
				b.Configure(now, other)
				b.Configure(now, s)
			default:
				sync(b)
				for range rapid.IntRange(1, 10).Draw(t, "wanted") {
					if !b.Take(now) {
						break
					}
					h.taken = append(h.taken, now)
					from := now.Add(-s.Window)
					taken, firsts := within(h.taken, from, now), within(h.firsts, from, now)
					if over(s, taken, firsts, s.Window) {
						t.Fatalf("%d repeats of all to %d first attempts of all, with %+v", taken, firsts, s)
					}
				}
				sync(b)
			}
		}
	})
}

// Two relays with nothing in the way get what one would.
func TestRelaysShareTheFirstAttempts(t *testing.T) {
	s := limit.BudgetSettings{Ratio: 0.5, MinPerSecond: 1, Window: 10 * sec}
	a, b, shared, now := limit.NewBudget(s, start), limit.NewBudget(s, start), store{}, start.Add(3*sec)
	both := func(wantA, wantB int) {
		t.Helper()
		if gotA, gotB := a.Left(now), b.Left(now); gotA != wantA || gotB != wantB {
			t.Errorf("%d and %d left, want %d and %d", gotA, gotB, wantA, wantB)
		}
	}
	for range 100 {
		a.First(now)
	}
	both(60, 10)
	exchange(a, shared, now)
	exchange(b, shared, now)
	both(60, 60)
	for range 50 {
		b.Take(now)
	}
	exchange(b, shared, now)
	both(60, 10) // a knows with its next exchange
	exchange(a, shared, now)
	exchange(a, shared, now)
	both(10, 10)
	// The store is away: what is known of the others leaves the window with its
	// slots, and b is alone.
	now = now.Add(10*sec + 500*time.Millisecond)
	for range 10 {
		a.First(now)
		b.First(now)
	}
	both(15, 15)
}

// After a reload that changes the window, the old window's counters say nothing.
func TestImportOfAnotherWindow(t *testing.T) {
	s := limit.BudgetSettings{Ratio: 1, Window: 10 * sec}
	b := limit.NewBudget(s, start)
	b.First(start)
	added := b.Export(start, nil)
	totals := store{{added[len(added)-1].Number, added[0].Width}: {Firsts: 100}}.add(added)
	b.Configure(start, limit.BudgetSettings{Ratio: 1, Window: 20 * sec})
	b.Import(start, added, totals)
	if got := b.Left(start); got != 1 {
		t.Errorf("%d left, want 1", got)
	}
}

// Numbers that no store should hold overflow nothing.
func TestImportOfNonsense(t *testing.T) {
	s := limit.BudgetSettings{Ratio: 10, MinPerSecond: 1, Window: sec}
	for _, n := range []int64{-1, -1 << 63, 1<<63 - 1} {
		b := limit.NewBudget(s, start)
		added := b.Export(start, nil)
		var totals []limit.Slot
		for _, x := range added {
			totals = append(totals,
				limit.Slot{Number: x.Number, Width: x.Width, Counts: limit.Counts{Firsts: n}},
				limit.Slot{Number: n, Width: x.Width, Counts: limit.Counts{Firsts: 5}})
		}
		b.Import(start, added, totals)
		if got := b.Left(start); got < 1 {
			t.Errorf("first attempts %d: %d left", n, got)
		}
		for i := range totals {
			totals[i].Counts = limit.Counts{Taken: n}
		}
		b.Import(start, added, totals)
		if got, none := b.Left(start), n > 0; (got == 0) != none {
			t.Errorf("repeats %d: %d left", n, got)
		}
	}
}
