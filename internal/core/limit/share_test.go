package limit_test

import (
	"math"
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

// What the store does not say that it has is not left out: a request that was
// lost is made good for repeats. One that was done, its answer lost, adds
// repeats twice and first attempts once.
func TestLostExchange(t *testing.T) {
	s := limit.BudgetSettings{Ratio: 1, MinPerSecond: 2, Window: 10 * sec}
	for lost, want := range map[string]int{"the request": 0 + 20 - 3, "the answer": 10 + 20 - 2*3} {
		a, b, shared := limit.NewBudget(s, start), limit.NewBudget(s, start), store{}
		for range 10 {
			a.First(start)
		}
		for range 3 {
			a.Take(start)
		}
		request := a.Export(start, nil)
		if lost == "the answer" {
			shared.add(request)
		}
		exchange(a, shared, start)
		exchange(b, shared, start)
		if got := b.Left(start); got != want {
			t.Errorf("%s was lost: %d left to the other, want %d", lost, got, want)
		}
	}
}

// After a reload that changes the window, the old window's counters say nothing,
// though their numbers may be those of slots now: at these lengths they are
// seven apart.
func TestImportOfAnotherWindow(t *testing.T) {
	for _, held := range []limit.Counts{{Firsts: 100}, {Taken: 100}} {
		s := limit.BudgetSettings{Ratio: 1, Window: 10 * sec}
		b := limit.NewBudget(s, start)
		b.First(start)
		added := b.Export(start, nil)
		others := store{}
		for _, x := range added {
			others[counter{x.Number, x.Width}] = held
		}
		totals := others.add(added)
		s.Window += 20
		b.Configure(start, s)
		b.Import(start, added, totals)
		if got := b.Left(start); got != 1 {
			t.Errorf("%v: %d left, want 1", held, got)
		}
	}
}

// A window that changes and changes back doesn't count its own first attempts
// again when it finds them in the store.
func TestImportAfterTwoReloads(t *testing.T) {
	s, other := limit.BudgetSettings{Ratio: 1, Window: 10 * sec}, limit.BudgetSettings{Ratio: 1, Window: 15 * sec}
	b, shared := limit.NewBudget(s, start), store{}
	for range 100 {
		b.First(start)
	}
	exchange(b, shared, start)
	b.Configure(start, other)
	b.Configure(start, s)
	exchange(b, shared, start)
	if got := b.Left(start); got != 100 {
		t.Errorf("%d left, want 100", got)
	}
	// Later slots count as ever.
	now := start.Add(sec)
	added := b.Export(now, nil)
	shared[counter{added[len(added)-1].Number, added[0].Width}] = limit.Counts{Firsts: 7}
	b.Import(now, added, shared.add(added))
	if got := b.Left(now); got != 107 {
		t.Errorf("%d left, want 107", got)
	}
}

// Numbers that no store should hold overflow nothing and land nowhere.
func TestImportOfNonsense(t *testing.T) {
	const most = 100_000_000_000 // first attempts that count
	s := limit.BudgetSettings{Ratio: 10, MinPerSecond: 1, Window: sec}
	now := start.Add(1)
	for n, want := range map[int64]int{-1: 1, math.MinInt64: 1, math.MaxInt64: 10*most + 1} {
		b := limit.NewBudget(s, now)
		added := b.Export(now, nil)
		last := added[len(added)-1]
		last.Number += 3
		last.Firsts = 5
		totals := []limit.Slot{last, {Number: n, Width: last.Width, Counts: last.Counts}} // not of the window
		for _, x := range added {
			x.Firsts = n
			totals = append(totals, x)
		}
		b.Import(now, added, totals)
		if got := b.Left(now); got != want {
			t.Errorf("first attempts %d: %d left, want %d", n, got, want)
		}
		for i := range totals {
			totals[i].Counts = limit.Counts{Taken: n}
		}
		b.Import(now, added, totals)
		if got, none := b.Left(now), n > 0; (got == 0) != none || got > 1 {
			t.Errorf("repeats %d: %d left", n, got)
		}
	}
	b := limit.NewBudget(s, now)
	future := b.Export(now, nil)[10:11]
	future[0].Number += 22 // the same place in a ring
	future[0].Firsts = 5
	b.Import(now, nil, future)
	if got := b.Left(now); got != 1 {
		t.Errorf("a slot to come: %d left, want 1", got)
	}
}
