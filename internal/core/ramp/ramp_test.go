// These tests catch a ramp that lets more through than its limit, that never
// ends, that a late result from before its start speeds up, and a place that is
// lost or given back twice.
package ramp_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/ramp"
)

// newRamp returns a ramp that is off and will end at the ceiling.
func newRamp(ceiling int) *ramp.Ramp {
	r := &ramp.Ramp{}
	r.SetCeiling(ceiling)
	return r
}

func wantLimit(t *testing.T, r *ramp.Ramp, limit int) {
	t.Helper()
	got, on := r.Limit()
	if got != limit || on != (limit > 0) {
		t.Fatalf("limit %d, on %v, want %d", got, on, limit)
	}
}

func take(t *testing.T, r *ramp.Ramp) ramp.Ticket {
	t.Helper()
	ticket, ok := r.Take()
	if !ok {
		t.Fatalf("refused with %d in flight", r.InFlight())
	}
	return ticket
}

// full checks that there is no place left.
func full(t *testing.T, r *ramp.Ramp) {
	t.Helper()
	if _, ok := r.Take(); ok {
		t.Fatalf("let through: %d in flight now", r.InFlight())
	}
}

func TestOffBoundsNothing(t *testing.T) {
	r := newRamp(4)
	for range 100 {
		take(t, r)
	}
	wantLimit(t, r, 0)
	if r.InFlight() != 100 {
		t.Errorf("%d in flight", r.InFlight())
	}
}

func TestDoublesUpToTheCeiling(t *testing.T) {
	r := newRamp(10)
	r.Start()
	for _, limit := range []int{1, 2, 4, 8} {
		wantLimit(t, r, limit)
		var tickets []ramp.Ticket
		for range limit {
			tickets = append(tickets, take(t, r))
		}
		full(t, r)
		r.Put(tickets[0], ramp.Passed)
		for _, other := range tickets[1:] {
			r.Put(other, ramp.Other)
		}
	}
	wantLimit(t, r, 0)
}

func TestThrottledHalves(t *testing.T) {
	r := newRamp(64)
	r.Start()
	for range 4 {
		r.Put(take(t, r), ramp.Passed)
	}
	for _, limit := range []int{16, 8, 4, 2, 1, 1} {
		wantLimit(t, r, limit)
		r.Put(take(t, r), ramp.Throttled)
	}
	r.Put(take(t, r), ramp.Other)
	wantLimit(t, r, 1)
}

func TestThoseFromBeforeDoNotCount(t *testing.T) {
	r := newRamp(64)
	a, b := take(t, r), take(t, r) // they hang
	r.Start()
	c := take(t, r)
	full(t, r)
	r.Put(a, ramp.Passed)
	r.Put(b, ramp.Throttled)
	full(t, r)         // neither gave a place back
	wantLimit(t, r, 1) // nor moved it
	r.Start()
	r.Put(c, ramp.Passed) // of the last start
	wantLimit(t, r, 1)
	r.Put(take(t, r), ramp.Passed)
	wantLimit(t, r, 2)
}

func TestCeiling(t *testing.T) {
	for _, ceiling := range []int{-1, 0, 1} {
		r := newRamp(ceiling)
		r.Start()
		wantLimit(t, r, 0)
	}
	r := newRamp(64)
	r.Start()
	for range 3 {
		r.Put(take(t, r), ramp.Passed)
	}
	r.SetCeiling(9)
	wantLimit(t, r, 8)
	r.SetCeiling(8)
	wantLimit(t, r, 0)
	r.SetCeiling(64) // one that has ended stays so
	wantLimit(t, r, 0)
	var zero ramp.Ramp
	zero.Start()
	wantLimit(t, &zero, 0)
}

func TestOff(t *testing.T) {
	r := newRamp(64)
	r.Start()
	ticket := take(t, r)
	r.Off()
	take(t, r)
	r.Put(ticket, ramp.Passed)
	wantLimit(t, r, 0)
}

func TestPutWithoutTakePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r := newRamp(4)
	r.Put(take(t, r), ramp.Other)
	r.Put(ramp.Ticket{}, ramp.Other)
}

// Whatever happens: no more of this start in flight than the limit, the limit
// only moves as the results say, and passes alone end it.
func TestProperties(t *testing.T) {
	type taken struct {
		ramp.Ticket
		start int
	}
	rapid.Check(t, func(t *rapid.T) {
		ceiling := rapid.IntRange(1, 100).Draw(t, "ceiling")
		r := newRamp(ceiling)
		var (
			open   []taken
			starts int
			limit  int // 0 is off
		)
		inFlight := func() (n int) {
			for _, o := range open {
				if o.start == starts {
					n++
				}
			}
			return n
		}
		settle := func() {
			if limit >= ceiling {
				limit = 0
			}
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 19).Draw(t, "what"); {
			case what == 0:
				starts++
				limit = 1
				settle()
				r.Start()
			case what == 1:
				ceiling = rapid.IntRange(1, 100).Draw(t, "ceiling")
				settle()
				r.SetCeiling(ceiling)
			case what < 11:
				want := limit == 0 || inFlight() < limit
				ticket, ok := r.Take()
				if ok != want {
					t.Fatalf("take with %d in flight and limit %d: %v", inFlight(), limit, ok)
				}
				if ok {
					open = append(open, taken{ticket, starts})
				}
			case len(open) > 0:
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				res := rapid.SampledFrom([]ramp.Result{ramp.Passed, ramp.Throttled, ramp.Other}).Draw(t, "result")
				if limit > 0 && open[i].start == starts {
					switch res {
					case ramp.Passed:
						limit *= 2
						settle()
					case ramp.Throttled:
						limit = max(limit/2, 1)
					}
				}
				r.Put(open[i].Ticket, res)
				open = append(open[:i], open[i+1:]...)
			}
			got, on := r.Limit()
			if on != (limit > 0) || got != limit || r.InFlight() != inFlight() {
				t.Fatalf("limit %d on %v, %d in flight; want %d, %d", got, on, r.InFlight(), limit, inFlight())
			}
		}
		// From anywhere, passes alone bring all traffic back.
		for _, o := range open {
			r.Put(o.Ticket, ramp.Other)
		}
		for range 8 {
			if _, on := r.Limit(); !on {
				return
			}
			ticket, ok := r.Take()
			if !ok {
				t.Fatal("trapped: nothing in flight and nothing let through")
			}
			r.Put(ticket, ramp.Passed)
		}
		t.Fatal("eight passes did not end a ramp to at most 100")
	})
}
