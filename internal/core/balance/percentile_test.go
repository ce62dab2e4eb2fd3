package balance_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/balance"
)

// Any quantile of the last twelve slots is within 5 % of the sample that it is.
func TestPercentileAgainstAllSamples(t *testing.T) {
	type sample struct {
		slot int64
		d    time.Duration
	}
	rapid.Check(t, func(t *rapid.T) {
		p, now, latest := balance.NewPercentile(start), start, start
		var samples []sample
		slot := func() int64 { return int64(latest.Sub(start) / (5 * sec)) }
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, sec, 5*sec - 1, 7 * sec, 59 * sec, -3 * sec, time.Hour}).Draw(t, "wait"))
			if now.After(latest) {
				latest = now
			}
			for range rapid.IntRange(0, 30).Draw(t, "samples") {
				log := rapid.Float64Range(math.Log(50e3), math.Log(7200e9)).Draw(t, "log of the sample")
				d := time.Duration(math.Exp(log))
				p.Observe(now, d)
				samples = append(samples, sample{slot(), min(max(d, balance.Shortest), balance.Longest)})
			}
			var within []time.Duration
			for _, s := range samples {
				if slot()-s.slot < 12 {
					within = append(within, s.d)
				}
			}
			slices.Sort(within)
			millionths := rapid.IntRange(1, 1_000_000).Draw(t, "millionths")
			got, ok := p.Quantile(now, float64(millionths)/1e6)
			if ok != (len(within) >= balance.MinSamples) {
				t.Fatalf("of %d samples: %v", len(within), ok)
			}
			if !ok {
				continue
			}
			want := within[(millionths*len(within)+999_999)/1_000_000-1]
			if off := math.Abs(float64(got-want)) / float64(want); off > 0.05 {
				t.Fatalf("%v, want %v: %.1f %% off", got, want, 100*off)
			}
		}
	})
}

// Every value is within 5 % of itself, at the edges of the buckets too.
func TestPercentileError(t *testing.T) {
	for d := float64(balance.Shortest); d <= float64(balance.Longest); d *= 1.003 {
		p := balance.NewPercentile(start)
		for range balance.MinSamples {
			p.Observe(start, time.Duration(d))
		}
		got, _ := p.Quantile(start, 0.95)
		if off := math.Abs(float64(got)-d) / d; off > 0.05 {
			t.Errorf("%v for %v: %.2f %% off", got, time.Duration(d), 100*off)
		}
	}
}

func TestPercentileByHand(t *testing.T) {
	p := balance.NewPercentile(start)
	for i := range 19 {
		p.Observe(start, time.Duration(i+1)*100*ms)
	}
	if d, ok := p.Quantile(start, 0.95); ok {
		t.Errorf("of 19 samples %v", d)
	}
	p.Observe(start.Add(59*sec), time.Hour)
	near := func(after time.Duration, q float64, want time.Duration) {
		t.Helper()
		got, ok := p.Quantile(start.Add(after), q)
		if !ok || math.Abs(float64(got-want)) > 0.05*float64(want) {
			t.Errorf("after %v the quantile %v is %v, %v, want %v", after, q, got, ok, want)
		}
	}
	near(59*sec, 0.95, 1900*ms)
	near(59*sec, 0.951, time.Hour)
	near(59*sec, 1, time.Hour)
	near(59*sec, math.NaN(), time.Hour)
	near(59*sec, 7, time.Hour)
	near(59*sec, 0.5, sec)
	near(59*sec, 0, 100*ms)
	near(59*sec, -1, 100*ms)
	near(0, 0.5, sec) // a clock that went back
	for range 20 {
		p.Observe(start.Add(60*sec), -sec)
	}
	near(60*sec, 0.95, balance.Shortest) // the first slot is forgotten
	if d, ok := p.Quantile(start.Add(120*sec), 0.95); ok {
		t.Errorf("a minute later still %v", d)
	}
}

// 0.07 × 100 is a little more than 7 in floating point.
func TestPercentileRanksExactly(t *testing.T) {
	p := balance.NewPercentile(start)
	for i := range 100 {
		p.Observe(start, time.Duration(i+1)*100*ms)
	}
	for i := range 10 {
		q := float64(i+1) / 100
		got, _ := p.Quantile(start, q)
		if want := time.Duration(i+1) * 100 * ms; math.Abs(float64(got-want)) > 0.05*float64(want) {
			t.Errorf("the quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestPercentileAllocatesNothing(t *testing.T) {
	p, now := balance.NewPercentile(start), start
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(sec)
		p.Observe(now, ms)
		p.Quantile(now, 0.95)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPercentile(b *testing.B) {
	p, now := balance.NewPercentile(start), start
	for b.Loop() {
		now = now.Add(ms)
		p.Observe(now, time.Duration(now.Nanosecond()))
		p.Quantile(now, 0.95)
	}
}
