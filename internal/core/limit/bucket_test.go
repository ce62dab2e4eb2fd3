// These tests catch a bucket that lets more through than its burst and its rate,
// over any history and at any rate, one that is stricter than that, one that
// drifts over many tokens, a token that is given back twice over, and a caller
// who comes when he was told to and is refused. budget_test.go and share_test.go
// catch a budget that grants more than its formula, alone, over reloads or
// together with other relays, one that grants uselessly little, and a lost
// answer of a store that loosens it.
package limit_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/limit"
)

var start = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

// rates draws from the whole range, as many slow ones as fast ones.
func rates() *rapid.Generator[limit.Rate] {
	return rapid.Custom(func(t *rapid.T) limit.Rate {
		perSecond := math.Pow(10, rapid.Float64Range(-2, 5).Draw(t, "log10 of the rate"))
		burst := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, limit.MaxBurst)).Draw(t, "burst")
		return limit.Rate{PerSecond: perSecond, Burst: burst}
	})
}

// exact is a bucket in fractions, as one would explain it: level is how many
// tokens are missing.
type exact struct {
	now        time.Time
	perNano    *big.Rat
	burst      *big.Rat
	level      *big.Rat
	configured time.Time
}

var one = big.NewRat(1, 1)

func newExact(r limit.Rate) *exact {
	e := &exact{now: start, level: new(big.Rat), configured: start}
	e.rate(r)
	return e
}

func (e *exact) rate(r limit.Rate) {
	e.perNano = big.NewRat(int64(math.Round(r.PerSecond*1e9)), 1e18)
	e.burst = big.NewRat(int64(r.Burst), 1)
}

func (e *exact) drain(by *big.Rat) {
	if e.level.Sub(e.level, by).Sign() < 0 {
		e.level.SetInt64(0)
	}
}

// earned is what comes in d.
func (e *exact) earned(d time.Duration) *big.Rat {
	return new(big.Rat).Mul(e.perNano, big.NewRat(int64(d), 1))
}

func (e *exact) tell(now time.Time) {
	if now.After(e.now) {
		e.drain(e.earned(now.Sub(e.now)))
		e.now = now
	}
}

func (e *exact) take() bool {
	after := new(big.Rat).Add(e.level, one)
	if after.Cmp(e.burst) > 0 {
		return false
	}
	e.level = after
	return true
}

func (e *exact) put(taken time.Time) {
	back := new(big.Rat).Sub(one, e.earned(e.now.Sub(taken)))
	if back.Sign() > 0 && !taken.Before(e.configured) {
		e.drain(back)
	}
}

func (e *exact) configure(r limit.Rate) {
	old := e.perNano
	e.rate(r)
	if old.Cmp(e.perNano) != 0 {
		e.configured = e.now
	}
}

func (e *exact) left() int {
	room := new(big.Rat).Sub(e.burst, e.level)
	if room.Sign() < 0 {
		return 0
	}
	return int(new(big.Int).Quo(room.Num(), room.Denom()).Int64())
}

// wait draws a step of time that matters at the rate, now and then backwards.
func wait(t *rapid.T, r limit.Rate) time.Duration {
	token := time.Duration(1e9 / r.PerSecond)
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, 3*int64(token)), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.SampledFrom([]time.Duration{0, 1, token, token - 1, token + 1, -token, time.Hour}),
	).Draw(t, "wait")
}

type used struct {
	at    time.Time // by the latest of the clocks told
	taken time.Time // the now of the Take
	put   bool
}

// Whatever is done to it, a bucket answers as the exact one does; who comes at
// Look gets a token, and a nanosecond before it nobody does.
func TestBucketIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rates().Draw(t, "rate")
		b, e := limit.NewBucket(r, start), newExact(r)
		now := start
		var tokens []used
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 3:
				now = now.Add(wait(t, r))
			case what == 3:
				if rapid.Bool().Draw(t, "changes") {
					r = rates().Draw(t, "new rate")
				}
				b.Configure(now, r)
				e.tell(now)
				e.configure(r)
			case what == 4 && len(tokens) > 0:
				i := rapid.IntRange(0, len(tokens)-1).Draw(t, "which")
				if !tokens[i].put {
					tokens[i].put = true
					b.Put(now, tokens[i].taken)
					e.tell(now)
					e.put(tokens[i].taken)
				}
			default:
				e.tell(now)
				want := e.take()
				if got := b.Take(now); got != want {
					t.Fatalf("take: %v, want %v; %v of %v tokens are missing", got, want, e.level.FloatString(20), e.burst)
				}
				if want {
					tokens = append(tokens, used{e.now, now, false})
				}
			}
			e.tell(now)
			if got := b.Left(now); got != e.left() {
				t.Fatalf("%d left, want %d", got, e.left())
			}
			at := b.Look(now)
			if at.After(now) {
				early := *b
				if early.Take(at.Add(-1)) {
					t.Fatalf("came before %v and got a token", at)
				}
			}
			at2 := *b
			if !at2.Take(at) {
				t.Fatalf("came at %v, as told, and was refused", at)
			}
		}
	})
}

// In any stretch of time at most burst + rate × t tokens are used, whatever is
// put back in between.
func TestBucketNeverLetsMoreThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rates().Draw(t, "rate")
		r.Burst = rapid.IntRange(1, 5).Draw(t, "small burst")
		b, now, latest := limit.NewBucket(r, start), start, start
		var tokens []used
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 11).Draw(t, "what"); {
			case what < 4:
				now = now.Add(wait(t, r))
				b.Look(now)
			case what == 4:
				b.Configure(now, r)
			case what < 8 && len(tokens) > 0:
				i := rapid.IntRange(max(0, len(tokens)-6), len(tokens)-1).Draw(t, "which")
				if !tokens[i].put {
					tokens[i].put = true
					b.Put(now, tokens[i].taken)
				}
			case b.Take(now):
				if now.After(latest) {
					latest = now
				}
				tokens = append(tokens, used{latest, now, false})
			}
			if now.After(latest) {
				latest = now
			}
		}
		// A stretch from the i-th to the j-th used token has j − i + 1 of them,
		// at most burst + rate × (tj − ti): so what k − rate × tk rises by is
		// at most burst − 1.
		perNano := big.NewRat(int64(math.Round(r.PerSecond*1e9)), 1e18)
		var lowest *big.Rat
		var k int64
		for _, token := range tokens {
			if token.put {
				continue
			}
			k++
			f := new(big.Rat).Mul(perNano, big.NewRat(int64(token.at.Sub(start)), 1))
			f.Sub(big.NewRat(k, 1), f)
			if lowest == nil || f.Cmp(lowest) < 0 {
				lowest = f
			}
			if rise := new(big.Rat).Sub(f, lowest); rise.Cmp(big.NewRat(int64(r.Burst-1), 1)) > 0 {
				t.Fatalf("up to %v: %v tokens more than the rate, burst %d", token.at, rise.FloatString(6), r.Burst-1)
			}
		}
	})
}

// The n-th token after the burst comes at n ÷ rate, however many came before. With
// a burst of 1 that holds only for whole nanoseconds a token: a caller can't come
// at a fraction of one, and nothing lies ready to make up for it.
func TestBucketDoesNotDrift(t *testing.T) {
	for _, r := range []limit.Rate{{0.01, 1}, {0.3, 2}, {3, 2}, {7, 10}, {12345.678, 500}, {99_999.999999999, 2}, {100_000, 100_000}} {
		b, now := limit.NewBucket(r, start), start
		const n = 300_000
		for range r.Burst + n {
			now = b.Look(now)
			if !b.Take(now) {
				t.Fatalf("%v: refused at its time", r)
			}
		}
		// n × 10^18 ÷ billionths, rounded up.
		want := new(big.Int).Mul(big.NewInt(n), big.NewInt(1e18))
		billionths := big.NewInt(int64(math.Round(r.PerSecond * 1e9)))
		want.Add(want, billionths).Sub(want, big.NewInt(1)).Quo(want, billionths)
		if got := int64(now.Sub(start)); got != want.Int64() {
			t.Errorf("%v: %d ns for %d tokens, want %v", r, got, n, want)
		}
	}
}

// TestLookPastOthers holds it to what comes of it: the others take their tokens
// one by one as soon as they are there. With a burst of one each of them may lose
// the part of a nanosecond that it waits too long.
func TestLookPastOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rates().Draw(t, "rate")
		b, now := limit.NewBucket(r, start), start
		for range min(rapid.IntRange(0, 20).Draw(t, "taken before"), r.Burst) {
			b.Take(now)
		}
		now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "then")))
		n := rapid.IntRange(0, 50).Draw(t, "others")
		want := b.LookPast(now, n)
		if left := b.Left(now); (n < left) != want.Equal(now) {
			t.Fatalf("behind %d others and with %d tokens there: %v from now", n, left, want.Sub(now))
		}
		at := now
		for range n {
			at = b.Look(at)
			if !b.Take(at) {
				t.Fatal("no token though it was said to be there")
			}
		}
		if late := b.Look(at).Sub(want); late < 0 || late > time.Duration(n) {
			t.Fatalf("behind %d others: told %v from now, it comes %v later", n, want.Sub(now), late)
		}
	})
}

// The story that Put has to get right: a token that lay in the bucket while it
// filled up again has come back by itself.
func TestPutDoesNotGiveTwice(t *testing.T) {
	b := limit.NewBucket(limit.Rate{PerSecond: 1, Burst: 2}, start)
	after := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	take := func(ms int, want bool) {
		t.Helper()
		if got := b.Take(after(ms)); got != want {
			t.Errorf("after %d ms: %v", ms, got)
		}
	}
	take(0, true) // the one that is put back
	take(700, true)
	b.Put(after(700), start) // 0.3 of it
	take(700, true)
	take(999, false)
	take(1700, true)
	b.Put(after(1700), after(1700)) // all of it
	take(1700, true)
	take(1700, false)
	b.Put(after(1700), after(9999)) // taken in the future, by a clock that was set: one token still
	take(1700, true)
	take(1700, false)
	b.Put(after(9999), after(1700))
	if got := b.Left(after(9999)); got != 2 {
		t.Errorf("%d left of a burst of 2", got)
	}
}

// Taken stays taken over a new rate and a new burst.
func TestBucketConfigure(t *testing.T) {
	b := limit.NewBucket(limit.Rate{PerSecond: 10, Burst: 10}, start)
	for range 8 {
		b.Take(start)
	}
	b.Configure(start, limit.Rate{PerSecond: 2, Burst: 10})
	if got := b.Left(start); got != 2 {
		t.Errorf("%d left, want 2", got)
	}
	b.Configure(start, limit.Rate{PerSecond: 2, Burst: 4}) // 8 are missing of 4
	if got, want := b.Look(start), start.Add(2500*time.Millisecond); !got.Equal(want) {
		t.Errorf("the next comes at %v, want %v", got, want)
	}
	b.Configure(start, limit.Rate{PerSecond: 2, Burst: 20})
	if got := b.Left(start); got != 12 {
		t.Errorf("%d left, want 12", got)
	}
}

func TestRateBounds(t *testing.T) {
	// Settings that were never checked can do no harm.
	for _, r := range []limit.Rate{{}, {math.NaN(), -1}, {math.Inf(-1), math.MinInt}, {math.Inf(1), math.MaxInt}} {
		b := limit.NewBucket(r, start)
		if !b.Take(start) {
			t.Errorf("%v: the first token is refused", r)
		}
		now := start
		for range 3 {
			now = b.Look(now)
			if !b.Take(now) {
				t.Errorf("%v: refused at %v", r, now)
			}
		}
		if d := now.Sub(start); d > 300*time.Second {
			t.Errorf("%v: three tokens took %v", r, d)
		}
	}
	for perSecond, burst := range map[float64]int{0.5: 1, 1: 1, 1.5: 2, 50: 50, 1e9: 100_000, math.NaN(): 1} {
		if got := limit.NewRate(perSecond).Burst; got != burst {
			t.Errorf("the burst of %v is %d, want %d", perSecond, got, burst)
		}
	}
}

func TestRateCheck(t *testing.T) {
	for _, r := range []limit.Rate{{0.01, 1}, {100_000, 1_000_000}} {
		if got := r.Check(); got != nil {
			t.Errorf("%v: %v", r, got)
		}
	}
	want := []limit.Problem{
		{"per_second", "must be from 0.01 to 100000, not 0"},
		{"burst", "must be from 1 to 1000000, not 0"},
	}
	if diff := cmp.Diff(want, limit.Rate{}.Check()); diff != "" {
		t.Error(diff)
	}
	if got := (limit.Rate{PerSecond: math.NaN(), Burst: 1_000_001}).Check(); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestAllocatesNothing(t *testing.T) {
	b, g, now := limit.NewBucket(limit.NewRate(1000), start), limit.NewBudget(limit.DefaultBudget(), start), start
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		b.Look(now)
		b.Take(now)
		b.Put(now, now)
		g.First(now)
		g.Take(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkBucket(b *testing.B) {
	bucket, now := limit.NewBucket(limit.NewRate(100_000), start), start
	for b.Loop() {
		now = bucket.Look(now)
		bucket.Take(now)
	}
}

func BenchmarkBudget(b *testing.B) {
	budget, now := limit.NewBudget(limit.DefaultBudget(), start), start
	for b.Loop() {
		now = now.Add(time.Millisecond)
		budget.First(now)
		budget.Take(now)
	}
}
