package balance

import (
	"math"
	"sort"
	"time"
)

// The bounds of a Percentile.
const (
	// MinSamples is how many samples it takes: of twenty the 95th percentile
	// is the second highest, of fewer it is the highest of all and chance.
	MinSamples = 20
	// Shortest and Longest bound what is told apart: what is outside counts as
	// the bound. No answer over a network takes less, no attempt more.
	Shortest = 100 * time.Microsecond
	Longest  = time.Hour
)

const (
	// width is how long a slot is, and pieces are a minute. They are forgotten
	// whole, so it looks back over more than 55 s and at most 60 s.
	width  = 5 * time.Second
	pieces = 12
	// buckets is how many steps of a tenth go from Shortest to Longest: the
	// middle of one is then within 4.9 % of all that is in it.
	buckets = 184
	growth  = 1.1
	// rounding is what the product of a share and a number of samples may be
	// off, with room to spare: 0.95 × 20 is 19.
	rounding = 1e-6
)

// ceilings are the buckets' upper bounds, each in its bucket, the lowest first.
var ceilings = func() (c [buckets]int64) {
	top := float64(Shortest)
	for i := range c {
		c[i] = int64(top)
		top *= growth
	}
	return c
}()

// Percentile keeps how long answers took in the last minute, as a histogram, and
// says what share of them was faster than what. It takes 10 kB, whatever it is
// told.
type Percentile struct {
	began time.Time
	slot  int64 // the slot of the present, counted from began
	ring  [pieces]histogram
	total histogram
}

type histogram struct {
	n      int64
	counts [buckets]uint32 // four billion in five seconds would be an error elsewhere
}

// NewPercentile returns one without samples that begins at now.
func NewPercentile(now time.Time) *Percentile { return &Percentile{began: now} }

// tell moves the present to now and forgets the slots that fell out.
func (p *Percentile) tell(now time.Time) {
	to := int64(now.Sub(p.began) / width)
	if to-p.slot >= pieces {
		p.ring, p.total, p.slot = [pieces]histogram{}, histogram{}, to
		return
	}
	for p.slot < to {
		p.slot++
		gone := &p.ring[p.slot%pieces]
		if gone.n == 0 {
			continue
		}
		for i, n := range gone.counts {
			p.total.counts[i] -= n
		}
		p.total.n -= gone.n
		*gone = histogram{}
	}
}

// Observe adds a sample. It allocates nothing.
func (p *Percentile) Observe(now time.Time, d time.Duration) {
	p.tell(now)
	i := min(sort.Search(buckets, func(i int) bool { return int64(d) <= ceilings[i] }), buckets-1)
	for _, h := range []*histogram{&p.total, &p.ring[p.slot%pieces]} {
		h.n++
		h.counts[i]++
	}
}

// Quantile returns the time within which the share q of the samples answered: of
// n samples the one that is the ⌈q·n⌉-th fastest, within 5 % of its value. False
// when there are fewer than MinSamples. q is 0 to 1; what is outside, and not a
// number, is the nearest of both, or 1. It allocates nothing.
func (p *Percentile) Quantile(now time.Time, q float64) (time.Duration, bool) {
	p.tell(now)
	n := p.total.n
	if n < MinSamples {
		return 0, false
	}
	at := n
	if q < 1 {
		at = max(int64(math.Ceil(q*float64(n)-rounding)), 1)
	}
	// From the top, where the high quantiles are.
	above := n - at // samples above the one that is sought
	i := buckets - 1
	for ; above >= int64(p.total.counts[i]); i-- {
		above -= int64(p.total.counts[i])
	}
	return middle(i), true
}

// middle is the value that is as far from the lowest of a bucket as from its
// highest, as a share of each.
func middle(i int) time.Duration {
	if i == 0 {
		return Shortest
	}
	return time.Duration(math.Sqrt(float64(ceilings[i-1]) * float64(ceilings[i])))
}
