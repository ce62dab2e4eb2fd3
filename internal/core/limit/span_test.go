package limit

import "testing"

// A part that makes the low word run over is not lost.
func TestSpanCarries(t *testing.T) {
	s := span{ns: (1<<64 - 1) / 3, part: 1} // × 3 is one short of 2^64
	high, low := s.work(3)
	if high != 1 || low != 0 {
		t.Errorf("work is %d·2^64 + %d", high, low)
	}
	if back := spanOf(high, low, 3); back != s {
		t.Errorf("and back it is %v", back)
	}
}
