// These tests catch a schedule that is not the one on paper, a wait that leaves
// its bounds or overflows at a high n, and a jitter that does not spread.
package backoff_test

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/backoff"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// relay are the defaults of a destination, jobs those of a job.
var (
	relay = backoff.Schedule{Initial: 200 * ms, Max: 10 * s, Factor: 2, Jitter: backoff.Full}
	jobs  = backoff.Schedule{Initial: 10 * s, Max: time.Hour, Factor: 2, Jitter: backoff.Spread, Spread: 0.25}
)

func TestGoldenSchedules(t *testing.T) {
	type window struct{ Base, Lo, Hi time.Duration }
	equal, none := relay, relay
	equal.Jitter, none.Jitter = backoff.Equal, backoff.None
	for _, c := range []struct {
		name     string
		schedule backoff.Schedule
		want     []window
	}{
		{"relay", relay, []window{
			{200 * ms, 0, 200 * ms}, {400 * ms, 0, 400 * ms}, {800 * ms, 0, 800 * ms}, {1600 * ms, 0, 1600 * ms},
			{3200 * ms, 0, 3200 * ms}, {6400 * ms, 0, 6400 * ms}, {10 * s, 0, 10 * s}, {10 * s, 0, 10 * s},
		}},
		{"relay, equal", equal, []window{
			{200 * ms, 100 * ms, 200 * ms}, {400 * ms, 200 * ms, 400 * ms}, {800 * ms, 400 * ms, 800 * ms},
		}},
		{"relay, none", none, []window{
			{200 * ms, 200 * ms, 200 * ms}, {400 * ms, 400 * ms, 400 * ms}, {800 * ms, 800 * ms, 800 * ms},
		}},
		{"jobs", jobs, []window{
			{10 * s, 7500 * ms, 12500 * ms}, {20 * s, 15 * s, 25 * s}, {40 * s, 30 * s, 50 * s},
			{80 * s, 60 * s, 100 * s}, {160 * s, 120 * s, 200 * s}, {320 * s, 240 * s, 400 * s},
			{640 * s, 480 * s, 800 * s}, {1280 * s, 960 * s, 1600 * s}, {2560 * s, 1920 * s, 3200 * s},
			{3600 * s, 2700 * s, 4500 * s}, // the jitter alone passes the cap
		}},
	} {
		var got []window
		for n := 1; n <= len(c.want); n++ {
			lo, hi := c.schedule.Bounds(n)
			got = append(got, window{c.schedule.Base(n), lo, hi})
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

// A job that keeps failing is given up about 21m 10s after its first attempt.
func TestJobGivenUpAfter(t *testing.T) {
	var sum time.Duration
	for n := 1; n < 8; n++ {
		sum += jobs.Delay(n, 0.5)
	}
	if sum != 21*time.Minute+10*s {
		t.Errorf("given up after %v", sum)
	}
}

func TestDelayAtKnownU(t *testing.T) {
	with := func(j backoff.Jitter) backoff.Schedule {
		return backoff.Schedule{Initial: s, Max: 8 * s, Factor: 2, Jitter: j, Spread: 0.5}
	}
	for _, c := range []struct {
		jitter backoff.Jitter
		u      float64
		want   time.Duration
	}{
		{backoff.None, 0, 2 * s}, {backoff.None, 0.75, 2 * s},
		{backoff.Full, 0, 0}, {backoff.Full, 0.25, 500 * ms}, {backoff.Full, 0.5, s},
		{backoff.Equal, 0, s}, {backoff.Equal, 0.5, 1500 * ms},
		{backoff.Spread, 0, s}, {backoff.Spread, 0.5, 2 * s}, {backoff.Spread, 0.75, 2500 * ms},
		{"", 0.5, s}, {"odd", 0.5, s},
		{backoff.Full, -1, 0}, {backoff.Full, 2, 2 * s}, {backoff.Full, math.NaN(), 0},
	} {
		if got := with(c.jitter).Delay(2, c.u); got != c.want {
			t.Errorf("%q at %v: %v, want %v", c.jitter, c.u, got, c.want)
		}
	}
}

func TestOddValues(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name     string
		schedule backoff.Schedule
		n        int
		lo, hi   time.Duration
	}{
		{"zero", backoff.Schedule{}, 3, 0, 0},
		{"no initial", backoff.Schedule{Max: s, Factor: 2, Jitter: backoff.None}, 10_000, 0, 0},
		{"no cap is a cap of zero", backoff.Schedule{Initial: s, Factor: 2, Jitter: backoff.None}, 1, 0, 0},
		{"initial above the cap", backoff.Schedule{Initial: 5 * s, Max: s, Factor: 2, Jitter: backoff.None}, 1, s, s},
		{"negative", backoff.Schedule{Initial: -s, Max: -s, Factor: -1, Jitter: backoff.None}, 5, 0, 0},
		{"factor below 1", backoff.Schedule{Initial: s, Max: 9 * s, Factor: 0.5, Jitter: backoff.None}, 5, s, s},
		{"factor NaN", backoff.Schedule{Initial: s, Max: 9 * s, Factor: nan, Jitter: backoff.None}, 5, s, s},
		{"factor infinite", backoff.Schedule{Initial: s, Max: 9 * s, Factor: inf, Jitter: backoff.None}, 2, 9 * s, 9 * s},
		{"n of 0 is 1", backoff.Schedule{Initial: s, Max: 9 * s, Factor: 2, Jitter: backoff.None}, 0, s, s},
		{"n below 0 is 1", backoff.Schedule{Initial: s, Max: 9 * s, Factor: 2, Jitter: backoff.None}, math.MinInt, s, s},
		{"n of the largest int", backoff.Schedule{Initial: 1, Max: 9 * s, Factor: 2, Jitter: backoff.None}, math.MaxInt, 9 * s, 9 * s},
		{"spread above 1", backoff.Schedule{Initial: s, Max: s, Jitter: backoff.Spread, Spread: 7}, 1, 0, 2 * s},
		{"spread NaN", backoff.Schedule{Initial: s, Max: s, Jitter: backoff.Spread, Spread: nan}, 1, s, s},
		{"spread past the longest time", backoff.Schedule{
			Initial: math.MaxInt64, Max: math.MaxInt64, Jitter: backoff.Spread, Spread: 1}, 1, 0, math.MaxInt64},
	} {
		if lo, hi := c.schedule.Bounds(c.n); lo != c.lo || hi != c.hi {
			t.Errorf("%s: bounds %v and %v, want %v and %v", c.name, lo, hi, c.lo, c.hi)
		}
	}
}

func schedules() *rapid.Generator[backoff.Schedule] {
	return rapid.Custom(func(t *rapid.T) backoff.Schedule {
		return backoff.Schedule{
			Initial: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "initial")),
			Max:     time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "max")),
			Factor:  rapid.Float64Range(1, 100).Draw(t, "factor"),
			Jitter:  rapid.SampledFrom([]backoff.Jitter{backoff.None, backoff.Full, backoff.Equal, backoff.Spread}).Draw(t, "jitter"),
			Spread:  rapid.Float64Range(0, 1).Draw(t, "spread"),
		}
	})
}

func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := schedules().Draw(t, "schedule")
		n := rapid.OneOf(rapid.IntRange(1, 80), rapid.IntRange(1, 10_000), rapid.IntRange(1, math.MaxInt)).Draw(t, "n")
		base := c.Base(n)
		if base < 0 || base > c.Max {
			t.Fatalf("base %v is not within 0 and %v", base, c.Max)
		}
		if next := c.Base(min(n, math.MaxInt-1) + 1); next < base {
			t.Fatalf("wait %d is %v, the next is shorter: %v", n, base, next)
		}
		lo, hi := c.Bounds(n)
		if c.Jitter != backoff.Spread && hi > c.Max {
			t.Fatalf("%v passes the cap %v", hi, c.Max)
		}
		last := time.Duration(-1)
		for _, u := range []float64{0, rapid.Float64Range(0, 0.5).Draw(t, "u"), 0.5, math.Nextafter(1, 0)} {
			d := c.Delay(n, u)
			if d < lo || d > hi || d < 0 {
				t.Fatalf("delay %v at u=%v is not within %v and %v", d, u, lo, hi)
			}
			if d < last {
				t.Fatalf("delay falls as u grows: %v after %v", d, last)
			}
			last = d
		}
	})
}

// The formula in exact arithmetic, where the factor is whole.
func TestBaseIsTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		initial := rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "initial")
		most := rapid.Int64Range(1, int64(30*24*time.Hour)).Draw(t, "max")
		factor := rapid.Int64Range(1, 100).Draw(t, "factor")
		n := rapid.IntRange(1, 10_000).Draw(t, "n")
		want := new(big.Int).Exp(big.NewInt(factor), big.NewInt(int64(n-1)), nil)
		want.Mul(want, big.NewInt(initial))
		if want.Cmp(big.NewInt(most)) > 0 {
			want.SetInt64(most)
		}
		c := backoff.Schedule{Initial: time.Duration(initial), Max: time.Duration(most), Factor: float64(factor)}
		if got := c.Base(n); int64(got) != want.Int64() {
			t.Fatalf("base %d, want %v", got, want)
		}
	})
}

// Evenly spread u give evenly spread waits over the whole window.
func TestDistribution(t *testing.T) {
	const steps, parts = 10_000, 10
	for _, j := range []backoff.Jitter{backoff.Full, backoff.Equal, backoff.Spread} {
		c := backoff.Schedule{Initial: 8 * s, Max: 8 * s, Factor: 2, Jitter: j, Spread: 0.25}
		lo, hi := c.Bounds(1)
		var counts [parts]int
		for i := range steps {
			d := c.Delay(1, (float64(i)+0.5)/steps)
			counts[int(int64(d-lo)*parts/int64(hi-lo))]++
		}
		if slices.Max(counts[:])-slices.Min(counts[:]) > 2 {
			t.Errorf("%s spreads unevenly: %v", j, counts)
		}
	}
}

func TestJitterValid(t *testing.T) {
	for j, want := range map[backoff.Jitter]bool{"none": true, "full": true, "equal": true, "spread": true, "": false, "Full": false} {
		if j.Valid() != want {
			t.Errorf("%q: valid %v", j, !want)
		}
	}
}
