// Package backoff computes how long to wait before the next try: a wait that
// grows by a factor up to a cap, spread by a random number so that many callers
// who failed together do not come back together.
//
// It is pure: the random number is handed in. Everything is a plain value and
// safe for concurrent use.
package backoff

import (
	"math"
	"time"
)

// Jitter is how a computed wait w is spread.
type Jitter string

// The kinds of jitter. Full and Equal are the ones of Marc Brooker, "Exponential
// Backoff And Jitter" (AWS Architecture Blog, 2015).
const (
	// None waits exactly w.
	None Jitter = "none"
	// Full is uniform in [0, w).
	Full Jitter = "full"
	// Equal is uniform in [w/2, w).
	Equal Jitter = "equal"
	// Spread is uniform in [w·(1−Schedule.Spread), w·(1+Schedule.Spread)): the
	// only one that may pass Schedule.Max.
	Spread Jitter = "spread"
)

// Valid reports whether the word is one of the kinds.
func (j Jitter) Valid() bool {
	switch j {
	case None, Full, Equal, Spread:
		return true
	}
	return false
}

// Schedule says how long each wait is. Values outside the bounds named here
// are taken as the nearest bound, so that no schedule waits for a negative or
// a wrapped-around time.
type Schedule struct {
	// Initial is the first wait, 0 or more.
	Initial time.Duration
	// Max caps every wait before jitter, 0 or more. An Initial above it is cut.
	Max time.Duration
	// Factor is how much longer each wait is than the one before; at least 1.
	Factor float64
	// Jitter is how waits are spread. A word that is none of the kinds spreads
	// as Full does.
	Jitter Jitter
	// Spread is the share by which the jitter Spread goes up and down, from 0
	// to 1; the other kinds do not look at it.
	Spread float64
}

// Base returns the n-th wait before jitter, n counted from 1:
// Initial·Factor^(n−1), at most Max. It never overflows, at any n; n below 1
// is taken as 1.
func (s Schedule) Base(n int) time.Duration {
	first, most := max(s.Initial, 0), max(s.Max, 0)
	if first == 0 || first >= most {
		return min(first, most)
	}
	factor := s.Factor
	if !(factor > 1) { // NaN too
		return first
	}
	// A power past the range of float64 is +Inf, which is cut like any other.
	w := float64(first) * math.Pow(factor, float64(max(n, 1)-1))
	if w >= float64(most) {
		return most
	}
	return time.Duration(w)
}

// Delay returns the n-th wait with jitter. u is a random number in [0, 1); one
// outside is taken as the nearest bound.
func (s Schedule) Delay(n int, u float64) time.Duration {
	lo, hi := s.Bounds(n)
	if lo == hi || !(u > 0) {
		return lo
	}
	d := lo + time.Duration(min(u, 1)*float64(hi-lo))
	// float64 has 53 bits: past 104 days the product may round up beyond hi.
	if d < lo || d > hi {
		return hi
	}
	return d
}

// Bounds returns the shortest and the longest that Delay(n, u) can be for any
// u. The longest is reached only where both are equal, or by rounding.
func (s Schedule) Bounds(n int) (lo, hi time.Duration) {
	w := s.Base(n)
	switch s.Jitter {
	case None:
		return w, w
	case Equal:
		return w - w/2, w
	case Spread:
		return scale(w, 1-s.spread()), scale(w, 1+s.spread())
	case Full:
	}
	return 0, w
}

// spread is Spread within its bounds.
func (s Schedule) spread() float64 {
	if !(s.Spread > 0) { // NaN too
		return 0
	}
	return min(s.Spread, 1)
}

// scale multiplies without overflow.
func scale(w time.Duration, by float64) time.Duration {
	v := math.Round(float64(w) * by)
	if v >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(v)
}
