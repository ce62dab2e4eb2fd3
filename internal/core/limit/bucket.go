package limit

import (
	"math"
	"math/bits"
	"time"
)

const (
	// nano is how many parts a token a second has: rates are whole billionths
	// of one, so that all arithmetic on them is exact.
	nano = 1_000_000_000
	// tokenWork is what one token costs in the unit in which a bucket earns
	// its rate, in billionths, each nanosecond.
	tokenWork = nano * nano
)

// Bucket is a token bucket: it holds up to Burst tokens, each Take uses one, and
// they come back at PerSecond. In any stretch of time t at most
//
//	burst + rate × t
//
// of its tokens are used, whatever comes in between; where Configure changed
// the rate, rate × t is the sum over the parts, and burst the largest.
//
// It keeps what is missing from it as the time that its rate needs to refill
// it: the generic cell rate algorithm (ITU-T I.371), in whole nanoseconds and
// the exact fraction of one, so that no rate drifts at any number of tokens.
// Nothing allocates.
type Bucket struct {
	now  time.Time // the latest time it was told
	rate int64     // billionths of a token a second
	// configured is when rate last changed.
	configured time.Time
	token      span // how long one token takes to come
	room       span // the missing time up to which one more may be taken
	missing    span // until it is full
}

// NewBucket returns a full bucket. Numbers out of the bounds of Rate are taken
// as the nearest bound.
func NewBucket(r Rate, now time.Time) *Bucket {
	b := &Bucket{now: now, configured: now}
	b.apply(r)
	return b
}

// FullAt returns when the bucket is full if nobody takes, to be written down for
// a bucket that goes on elsewhere: see Since.
func (b *Bucket) FullAt(now time.Time) time.Time {
	b.tell(now)
	at := b.now.Add(time.Duration(b.missing.ns))
	if b.missing.part > 0 {
		at = at.Add(1)
	}
	return at
}

// Since returns the bucket that is full at a time, as FullAt told it.
func Since(r Rate, full, now time.Time) *Bucket {
	b := NewBucket(r, now)
	most := b.room.plus(b.token, b.rate)
	if missing := (span{ns: int64(full.Sub(now))}); missing.ns > 0 {
		b.missing = missing
		if most.less(missing) {
			b.missing = most
		}
	}
	return b
}

func (b *Bucket) apply(r Rate) {
	b.rate = int64(math.Round(between(MinPerSecond, r.PerSecond, MaxPerSecond) * nano))
	b.token = b.times(1)
	b.room = b.times(uint64(min(max(r.Burst, 1), MaxBurst)) - 1)
}

// times returns how long n tokens take to come. 10^6 tokens at 0.01 a second are
// 10^17 ns, well within an int64.
func (b *Bucket) times(n uint64) span {
	high, low := bits.Mul64(n, tokenWork)
	return spanOf(high, low, b.rate)
}

// tell moves the bucket's time forward.
func (b *Bucket) tell(now time.Time) {
	if passed := now.Sub(b.now); passed > 0 {
		b.now = now
		b.reduce(span{ns: int64(passed)})
	}
}

// reduce takes d from what is missing, which is never less than nothing.
func (b *Bucket) reduce(d span) {
	if b.missing.less(d) {
		b.missing = span{}
		return
	}
	b.missing = b.missing.minus(d, b.rate)
}

// Look returns the earliest moment at which Take succeeds if nobody else takes
// and nothing is put back or configured: now where there is a token.
func (b *Bucket) Look(now time.Time) time.Time { return b.LookPast(now, 0) }

// LookPast is Look for one who stands behind others that will take a token each
// before: at most MaxBurst of them are reckoned with.
func (b *Bucket) LookPast(now time.Time, others int) time.Time {
	b.tell(now)
	missing := b.missing
	if others > 0 {
		missing = missing.plus(b.times(uint64(min(others, MaxBurst))), b.rate)
	}
	if !b.room.less(missing) {
		return now
	}
	wait := missing.ns - b.room.ns
	if missing.part > b.room.part {
		wait++ // the fraction of a nanosecond has to pass too
	}
	return b.now.Add(time.Duration(wait))
}

// Take uses a token. False means that there is none, and nothing is taken.
func (b *Bucket) Take(now time.Time) bool {
	b.tell(now)
	if b.room.less(b.missing) {
		return false
	}
	b.missing = b.missing.plus(b.token, b.rate)
	return true
}

// Put gives a token back that was taken and not used. taken is the now of its
// Take. What has come back by itself since then is not given a second time:
// right after the Take it is the whole token, later the rest of it, and nothing
// once the time of one token has passed or the rate has changed. The bucket
// never holds more than its burst.
func (b *Bucket) Put(now, taken time.Time) {
	b.tell(now)
	if taken.Before(b.configured) {
		return
	}
	back := b.token
	if passed := int64(b.now.Sub(taken)); passed > 0 {
		if passed > back.ns {
			return
		}
		back.ns -= passed
	}
	b.reduce(back)
}

// Configure changes the rate, over a reload say. What was taken stays taken: as
// many tokens are missing as before, and they come back at the new rate.
func (b *Bucket) Configure(now time.Time, r Rate) {
	b.tell(now)
	old := b.rate
	b.apply(r)
	if b.rate == old {
		return
	}
	b.configured = b.now
	high, low := b.missing.work(old)
	b.missing = spanOf(high, low, b.rate)
}

// Left returns how many tokens could be taken now.
func (b *Bucket) Left(now time.Time) int {
	b.tell(now)
	if b.room.less(b.missing) {
		return 0
	}
	left := b.room.minus(b.missing, b.rate)
	high, low := left.work(b.rate)
	n, _ := bits.Div64(high, low, tokenWork)
	return int(n) + 1 // the first needs no more than not to exceed room
}
