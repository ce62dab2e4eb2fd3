package limit_test

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/limit"
)

const sec = time.Second

// budgets draws settings whose numbers are whole millionths.
func budgets() *rapid.Generator[limit.BudgetSettings] {
	return rapid.Custom(func(t *rapid.T) limit.BudgetSettings {
		return limit.BudgetSettings{
			Ratio:        float64(rapid.OneOf(rapid.IntRange(0, 1_000_000), rapid.IntRange(0, 10_000_000)).Draw(t, "millionths of a ratio")) / 1e6,
			MinPerSecond: float64(rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 5_000_000)).Draw(t, "millionths a second")) / 1e6,
			Window:       rapid.OneOf(rapid.SampledFrom([]time.Duration{sec, 10 * sec}), rapid.Map(rapid.Int64Range(1e8, 1e11), func(n int64) time.Duration { return time.Duration(n) })).Draw(t, "window"),
		}
	})
}

// history is what was counted, each at the latest time that the budget was told
// until then.
type history struct {
	now           time.Time
	firsts, taken []time.Time
}

func (h *history) tell(now time.Time) {
	if now.After(h.now) {
		h.now = now
	}
}

// within counts the moments from one to another, both ends included.
func within(moments []time.Time, from, to time.Time) (n int64) {
	for _, at := range slices.Backward(moments) {
		if at.Before(from) {
			break
		}
		if !at.After(to) {
			n++
		}
	}
	return n
}

// over reports by whether taken exceeds ratio × firsts + a second's floor × t.
func over(s limit.BudgetSettings, taken, firsts int64, t time.Duration) bool {
	allowed := new(big.Rat).Mul(big.NewRat(int64(math.Round(s.Ratio*1e6)), 1e6), big.NewRat(firsts, 1))
	floor := new(big.Rat).Mul(big.NewRat(int64(math.Round(s.MinPerSecond*1e6)), 1e6), big.NewRat(int64(t), 1e9))
	return big.NewRat(taken, 1).Cmp(allowed.Add(allowed, floor)) > 0
}

// step draws a step of time that matters to a window.
func step(t *rapid.T, window time.Duration) time.Duration {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, int64(window)/8), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.SampledFrom([]time.Duration{0, 1, window / 20, window/20 - 1, window, window - 1, window + 1, -window / 30, 3 * window}),
	).Draw(t, "step")
}

// The promise, for any arrivals: of each granted repeat, and of any stretch.
func TestBudgetKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := budgets().Draw(t, "settings")
		b, h, now := limit.NewBudget(s, start), &history{now: start}, start
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 4:
				now = now.Add(step(t, s.Window))
			case what < 7:
				h.tell(now)
				for range rapid.IntRange(1, 20).Draw(t, "firsts") {
					b.First(now)
					h.firsts = append(h.firsts, h.now)
				}
			case what == 7:
				h.tell(now)
				b.Configure(now, s)
			default:
				h.tell(now)
				for range rapid.IntRange(1, 10).Draw(t, "wanted") {
					left := b.Left(now)
					ok := b.Take(now)
					if ok != (left > 0) || ok && b.Left(now) != left-1 {
						t.Fatalf("%d left, take says %v, then %d left", left, ok, b.Left(now))
					}
					if !ok {
						continue
					}
					h.taken = append(h.taken, h.now)
					from := h.now.Add(-s.Window)
					taken, firsts := within(h.taken, from, h.now), within(h.firsts, from, h.now)
					if over(s, taken, firsts, s.Window) {
						t.Fatalf("%d repeats to %d first attempts with %+v", taken, firsts, s)
					}
				}
			}
		}
		for i, from := range h.taken {
			for _, to := range h.taken[i:] {
				taken, firsts := within(h.taken, from, to), within(h.firsts, from.Add(-s.Window), to)
				if length := to.Sub(from); over(s, taken, firsts, length+s.Window) {
					t.Fatalf("%d repeats in %v, to %d first attempts then and before, with %+v", taken, length, firsts, s)
				}
			}
		}
	})
}

// At steady traffic, nine tenths of what the formula allows are granted, but for
// one a window, whether the repeats are wanted all the time or now and then.
func TestBudgetIsNotUselesslyStrict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := budgets().Draw(t, "settings")
		perWindow := rapid.IntRange(100, 1000).Draw(t, "first attempts a window")
		every := s.Window / time.Duration(perWindow)
		wanted := rapid.IntRange(1, perWindow/20).Draw(t, "repeats are wanted with each n-th of them")
		b, granted := limit.NewBudget(s, start), 0
		const windows = 12
		n := int(windows * s.Window / every)
		for i := range n {
			now := start.Add(time.Duration(i) * every)
			b.First(now)
			for i%wanted == 0 && b.Take(now) {
				// The first two windows fill up.
				if now.Sub(start) >= 2*s.Window {
					granted++
				}
			}
		}
		allowed := s.Ratio*float64(perWindow) + s.MinPerSecond*s.Window.Seconds()
		// A tenth of the last window may be yet to come.
		if want := (0.9*allowed - 1) * (windows - 3); float64(granted) < want {
			t.Fatalf("%d granted, want %v, with %+v and %d a window", granted, want, s, perWindow)
		}
	})
}

// Over any reloads the promise holds as far back as every window since then has
// looked.
func TestBudgetConfigure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := budgets().Draw(t, "settings")
		b, h, now := limit.NewBudget(s, start), &history{now: start}, start
		known := start // nothing from here on is forgotten too early
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 3:
				now = now.Add(step(t, s.Window))
			case what < 5:
				h.tell(now)
				for range rapid.IntRange(1, 20).Draw(t, "firsts") {
					b.First(now)
					h.firsts = append(h.firsts, h.now)
				}
			case what == 5:
				h.tell(now)
				if from := h.now.Add(-s.Window); from.After(known) {
					known = from
				}
				s = budgets().Draw(t, "new settings")
				b.Configure(now, s)
			default:
				h.tell(now)
				for range rapid.IntRange(1, 10).Draw(t, "wanted") {
					if !b.Take(now) {
						break
					}
					h.taken = append(h.taken, h.now)
					from := h.now.Add(-s.Window)
					firsts := within(h.firsts, from, h.now)
					if known.After(from) {
						from = known
					}
					if taken := within(h.taken, from, h.now); over(s, taken, firsts, s.Window) {
						t.Fatalf("%d repeats to %d first attempts with %+v", taken, firsts, s)
					}
				}
			}
		}
	})
}

// What was counted is still there under new settings.
func TestBudgetConfigureForgetsNothing(t *testing.T) {
	s := limit.BudgetSettings{Ratio: 0.5, Window: 10 * sec}
	b := limit.NewBudget(s, start)
	for range 100 {
		b.First(start.Add(5 * sec))
	}
	for range 20 {
		b.Take(start.Add(5 * sec))
	}
	for _, c := range []struct {
		s    limit.BudgetSettings
		left int
	}{
		{limit.BudgetSettings{Ratio: 1, Window: 10 * sec}, 80},
		{limit.BudgetSettings{Ratio: 0.1, Window: 10 * sec}, 0},
		{limit.BudgetSettings{Ratio: 0.5, MinPerSecond: 3, Window: 20 * sec}, 90},
		{limit.BudgetSettings{Ratio: 0.5, Window: 7 * sec}, 30},
		{limit.BudgetSettings{Ratio: 0.5, Window: 3 * sec}, 0}, // all of it is out of the window
		{s, 0},
	} {
		b.Configure(start.Add(10*sec), c.s)
		if got := b.Left(start.Add(10 * sec)); got != c.left {
			t.Errorf("%+v: %d left, want %d", c.s, got, c.left)
		}
	}
}

// A window's new length moves nothing out of it that is in it, and nothing in:
// only the slot is known of what was counted.
func TestBudgetConfigureIsCareful(t *testing.T) {
	after := func(hundredths int) time.Time { return start.Add(time.Duration(hundredths) * 10 * time.Millisecond) }
	b := limit.NewBudget(limit.BudgetSettings{MinPerSecond: 2, Window: 10 * sec}, start) // slots of 0.5 s
	b.Take(after(45))
	b.Configure(after(90), limit.BudgetSettings{MinPerSecond: 2, Window: sec / 2})
	if got := b.Left(after(90)); got != 0 {
		t.Errorf("%d left, and the repeat is in the window", got)
	}
	b = limit.NewBudget(limit.BudgetSettings{Ratio: 1, Window: 10 * sec}, start)
	b.First(after(5))
	b.Configure(after(90), limit.BudgetSettings{Ratio: 1, Window: sec / 2})
	if got := b.Left(after(90)); got != 0 {
		t.Errorf("%d left, and the first attempt is out of the window", got)
	}
}

// A window that twenty slots don't quite fill begins in one more.
func TestBudgetOfAnOddWindow(t *testing.T) {
	const window = 100*time.Millisecond + 19
	b := limit.NewBudget(limit.BudgetSettings{MinPerSecond: 10, Window: window}, start)
	at := start.Add(5*time.Millisecond - 1) // the last of its slot
	b.Take(at)
	if got := b.Left(at.Add(window)); got != 0 {
		t.Errorf("%d left at the window's end", got)
	}
	if got := b.Left(at.Add(window + 1)); got != 1 {
		t.Errorf("%d left after it", got)
	}
}

// The examples of the page: a fifth of the traffic, and ten a second anyway.
func TestBudgetByHand(t *testing.T) {
	b := limit.NewBudget(limit.DefaultBudget(), start)
	left := func(after time.Duration, want int) {
		t.Helper()
		if got := b.Left(start.Add(after)); got != want {
			t.Errorf("after %v: %d left, want %d", after, got, want)
		}
	}
	left(0, 100)
	for range 1004 {
		b.First(start)
	}
	left(0, 300)
	for range 250 {
		b.Take(start.Add(5 * sec))
	}
	left(5*sec, 50)
	left(10*sec, 50)
	left(10*sec+1, 0) // the first attempts are out of the window, the repeats are not
	left(15*sec, 0)
	left(15*sec+500*time.Millisecond-1, 0)
	left(15*sec+500*time.Millisecond, 100)
	left(0, 100) // a clock that went back
	left(time.Hour, 100)
}

func TestBudgetBounds(t *testing.T) {
	for _, s := range []limit.BudgetSettings{{}, {math.NaN(), math.NaN(), -1}, {-1, -1, math.MinInt64}} {
		b := limit.NewBudget(s, start)
		b.First(start)
		if b.Take(start) {
			t.Errorf("%+v lets a repeat through", s)
		}
	}
	b := limit.NewBudget(limit.BudgetSettings{Ratio: math.Inf(1), MinPerSecond: math.Inf(1), Window: math.MaxInt64}, start)
	b.First(start)
	if got, want := b.Left(start), 100_000*24*60*60+10; got != want {
		t.Errorf("%d left, want %d", got, want)
	}
	if b := limit.NewBudget(limit.BudgetSettings{Ratio: 1, Window: 100 * time.Millisecond}, start); b.Left(start.AddDate(200, 0, 0)) != 0 {
		t.Error("two centuries without a message left something")
	}
	old := limit.NewBudget(limit.BudgetSettings{Ratio: 1, Window: sec}, time.Unix(-5, 0))
	old.First(time.Unix(-4, 0))
	old.First(time.Unix(0, 1))
	if got := old.Left(time.Unix(0, 5)); got != 2 {
		t.Errorf("%d left around 1970", got)
	}
}

func TestBudgetCheck(t *testing.T) {
	for _, s := range []limit.BudgetSettings{limit.DefaultBudget(), {0, 0, 100 * time.Millisecond}, {10, 100_000, 24 * time.Hour}} {
		if got := s.Check(); got != nil {
			t.Errorf("%+v: %v", s, got)
		}
	}
	want := []limit.Problem{
		{"ratio", "must be from 0 to 10, not NaN"},
		{"min_per_second", "must be from 0 to 100000, not -1"},
		{"window", "must be from 100ms to 24h, not 0s"},
	}
	if diff := cmp.Diff(want, limit.BudgetSettings{Ratio: math.NaN(), MinPerSecond: -1}.Check()); diff != "" {
		t.Error(diff)
	}
}
