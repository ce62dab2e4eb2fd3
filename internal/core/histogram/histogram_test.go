package histogram

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// These tests would catch a value in the wrong bucket, a count that is lost among
// many at once, a sum that overflows or has another unit, and a count that
// allocates.

func TestCountsAsSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := rapid.SliceOfNDistinct(rapid.Int64Range(0, 50), 1, 8, rapid.ID).Draw(t, "bounds")
		slices.Sort(bounds)
		values := rapid.SliceOf(rapid.Int64Range(-5, 60)).Draw(t, "values")
		h, want := New(bounds...), Snapshot{Bounds: make([]float64, len(bounds)), Counts: make([]uint64, len(bounds))}
		for _, v := range values {
			h.Observe(v)
			want.Sum += float64(max(v, 0))
			want.Count++
			for i, b := range bounds {
				if v <= b {
					want.Counts[i]++
				}
			}
		}
		for i, b := range bounds {
			want.Bounds[i] = float64(b)
		}
		if diff := cmp.Diff(want, h.Read()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestTimeIsReadInSeconds(t *testing.T) {
	h := OfTime(time.Millisecond, 2*time.Second)
	for _, d := range []time.Duration{time.Millisecond, 1001 * time.Microsecond, 1500 * time.Millisecond, 2500 * time.Millisecond} {
		h.ObserveTime(d)
	}
	want := Snapshot{Bounds: []float64{0.001, 2}, Counts: []uint64{1, 3}, Count: 4, Sum: 4.002001}
	if diff := cmp.Diff(want, h.Read()); diff != "" {
		t.Error(diff)
	}
}

// A million jobs that waited for a day each come to 2,700 years.
func TestLongTimesAddUp(t *testing.T) {
	h := OfTime(time.Hour)
	long := time.Duration(math.MaxInt64) // 292 years
	for range 100 {
		h.ObserveTime(long)
	}
	if got, want := h.Read().Sum, 100*long.Seconds(); math.Abs(got-want) > 1 {
		t.Errorf("100 times %s is %g s", long, got)
	}
}

func TestManyAtOnce(t *testing.T) {
	h := New(1, 2)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				h.Observe(int64(i % 4))
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(Snapshot{Bounds: []float64{1, 2}, Counts: []uint64{4000, 6000}, Count: 8000, Sum: 12000}, h.Read()); diff != "" {
		t.Error(diff)
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	h := OfTime(time.Millisecond, time.Second)
	if n := testing.AllocsPerRun(100, func() { h.ObserveTime(time.Minute) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
