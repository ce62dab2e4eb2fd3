package limit

import "math/bits"

// span is a length of time without rounding: whole nanoseconds and part/rate of
// one, part in [0, rate), with the rate of its bucket. Spans of two rates don't
// mix.
type span struct{ ns, part int64 }

func (s span) less(o span) bool { return s.ns < o.ns || s.ns == o.ns && s.part < o.part }

func (s span) plus(o span, rate int64) span {
	s.ns += o.ns
	s.part += o.part
	if s.part >= rate {
		s.ns++
		s.part -= rate
	}
	return s
}

// minus is for an o that is not longer.
func (s span) minus(o span, rate int64) span {
	s.ns -= o.ns
	s.part -= o.part
	if s.part < 0 {
		s.ns--
		s.part += rate
	}
	return s
}

// work returns how much of tokenWork comes in the span. A bucket misses at most
// MaxBurst tokens, so it is at most 10^24.
func (s span) work(rate int64) (high, low uint64) {
	high, low = bits.Mul64(uint64(s.ns), uint64(rate))
	low, carry := bits.Add64(low, uint64(s.part), 0)
	return high + carry, low
}

// spanOf returns how long that much work takes, exactly: what the division leaves
// is the part. The lowest rate, 10^7, is over the high word of 10^24, as the
// division needs.
func spanOf(high, low uint64, rate int64) span {
	ns, part := bits.Div64(high, low, uint64(rate))
	return span{int64(ns), int64(part)}
}
