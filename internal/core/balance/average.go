package balance

import (
	"math"
	"time"
)

const (
	// HalfLife is how long it takes until a sample of latency counts half: a
	// member that turns slow is left within seconds, and one slow answer of
	// hundreds moves no traffic.
	HalfLife = 10 * time.Second
	// Memory is how long after the last sample a member's latency is known. A
	// slow one, to which nothing is sent any more, costs one send a minute to
	// find out whether it is fast again.
	Memory = time.Minute
)

// average is the exponentially weighted mean of samples over time: each counts
// half as much after every HalfLife. Weighing by time and not by sample makes it
// the same at any rate of traffic, and samples of one moment all count. The zero
// value has none.
type average struct {
	mean   float64 // nanoseconds
	weight float64 // what all samples count together at the time of the last
	last   time.Time
}

func (a *average) known(now time.Time) bool {
	return a.weight > 0 && now.Sub(a.last) < Memory
}

// add counts a sample at now, which is not before the last. What is not known
// any more is forgotten: at a thousand samples a second it would outweigh the
// new one still.
func (a *average) add(now time.Time, d time.Duration) {
	if !a.known(now) {
		*a = average{}
	}
	a.weight = a.weight*math.Exp2(-float64(now.Sub(a.last))/float64(HalfLife)) + 1
	a.mean += (float64(max(d, 0)) - a.mean) / a.weight
	a.last = now
}
