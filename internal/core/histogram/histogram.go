// Package histogram counts values by size, for metrics: how long something took,
// how large it was.
package histogram

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts values in buckets. It is safe for concurrent use, and counting
// one value allocates nothing.
type Histogram struct {
	bounds []int64
	counts []atomic.Int64 // of each bucket alone; the last is of what passes every bound
	sum    atomic.Int64
	unit   float64 // of the values counted, in one of those that are read
}

// New makes a histogram of numbers with upper bounds in rising order, each of
// which is part of its bucket. Their sum may come to 2⁶³−1.
func New(bounds ...int64) *Histogram {
	return &Histogram{bounds: slices.Clone(bounds), counts: make([]atomic.Int64, len(bounds)+1), unit: 1}
}

// OfTime makes a histogram of lengths of time, which are read in seconds. They are
// counted in whole microseconds, so that their sum may come to 292,000 years.
func OfTime(bounds ...time.Duration) *Histogram {
	whole := make([]int64, len(bounds))
	for i, b := range bounds {
		whole[i] = b.Microseconds()
	}
	h := New(whole...)
	h.unit = float64(time.Second / time.Microsecond)
	return h
}

// Observe counts a value; less than 0 is 0.
func (h *Histogram) Observe(v int64) {
	v = max(v, 0)
	at := 0
	for at < len(h.bounds) && v > h.bounds[at] {
		at++
	}
	h.counts[at].Add(1)
	h.sum.Add(v)
}

// ObserveTime counts a length of time in a histogram of OfTime.
func (h *Histogram) ObserveTime(d time.Duration) { h.Observe(d.Microseconds()) }

// Snapshot is a histogram at one moment. Values that are counted meanwhile may be
// in a part of it.
type Snapshot struct {
	// Bounds are the upper bounds of the buckets, in rising order; Counts how many
	// values were at most as large as each.
	Bounds []float64
	Counts []uint64
	// Count is how many values there were, Sum what they come to.
	Count uint64
	Sum   float64
}

// Read returns the counts as of now.
func (h *Histogram) Read() Snapshot {
	s := Snapshot{Bounds: make([]float64, len(h.bounds)), Counts: make([]uint64, len(h.bounds))}
	for i := range h.counts {
		s.Count += uint64(h.counts[i].Load())
		if i < len(h.bounds) {
			s.Bounds[i], s.Counts[i] = float64(h.bounds[i])/h.unit, s.Count
		}
	}
	s.Sum = float64(h.sum.Load()) / h.unit
	return s
}
