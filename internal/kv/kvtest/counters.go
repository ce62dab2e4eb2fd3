package kvtest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
)

// add adds for an hour and returns the totals.
func (r *rig) add(s kv.Store, series string, slots ...kv.Slot) []kv.Slot {
	r.Helper()
	totals, err := s.Add(r.ctx, series, slots, long)
	r.must(err)
	return totals
}

// slot is short for a slot.
func slot(number int64, counts ...int64) kv.Slot { return kv.Slot{Number: number, Counts: counts} }

// totals checks totals.
func (r *rig) totals(got []kv.Slot, want ...kv.Slot) {
	r.Helper()
	if !slices.EqualFunc(got, want, func(a, b kv.Slot) bool {
		return a.Number == b.Number && slices.Equal(a.Counts, b.Counts)
	}) {
		r.Errorf("totals %v, want %v", got, want)
	}
}

var counterTests = []test{
	{"counters count", func(r *rig) {
		k := r.key("k")
		r.totals(r.add(r.a, k, slot(7, 0, 0)), slot(7, 0, 0))
		in := []kv.Slot{slot(7, 1, 2), slot(-8, 0, 5), slot(1<<62, 3)}
		r.totals(r.add(r.a, k, in...), in...)
		r.totals(in, slot(7, 1, 2), slot(-8, 0, 5), slot(1<<62, 3))
		r.totals(r.add(r.b, k, slot(1<<62, 4), slot(7, 10, 0), slot(0, 1)), slot(1<<62, 7), slot(7, 11, 2), slot(0, 1))
		r.totals(r.add(r.b, k, slot(-8, 1, 1, 1)), slot(-8, 1, 6, 1))
		r.totals(r.add(r.b, k, slot(-8, 1)), slot(-8, 2))
		r.totals(r.add(r.b, r.key("other"), slot(7, 0, 1)), slot(7, 0, 1))
		r.mark(r.a, k, "one", kv.Mine) // a mark is another thing
	}},
	{"totals are the caller's", func(r *rig) {
		k := r.key("k")
		got := r.add(r.a, k, slot(1, 1), slot(2, 2))
		got[0].Counts = append(got[0].Counts, 99)
		got[0].Counts[0] = 99
		r.totals(got[1:], slot(2, 2))
		r.totals(r.add(r.a, k, slot(1, 0, 0)), slot(1, 1, 0))
	}},
	{"as many as there may be, with any names", func(r *rig) {
		for _, k := range []string{r.key("}"), "}" + r.salt, "{" + r.salt, r.key("{}"), r.key("{a}"), r.key("%7D"), r.key("\x00\r\n"), r.salt + strings.Repeat("{", 1<<20)} {
			var in []kv.Slot
			for i := range int64(kv.MaxSlots) {
				in = append(in, slot(i, 1, 2, 3, 4, 5, 6, 7, i))
			}
			r.totals(r.add(r.a, k, in...), in...)
		}
	}},
	{"a total stops at its most", func(r *rig) {
		k := r.key("k")
		all := slot(1, kv.MaxDelta, 1, 0)
		var got []kv.Slot
		for range kv.MaxTotal/kv.MaxDelta + 1 {
			got = r.add(r.a, k, all)
		}
		r.totals(got, slot(1, kv.MaxTotal, kv.MaxTotal/kv.MaxDelta+1, 0))
	}},
	{"a slot ends when nothing was added for its time", func(r *rig) {
		k, start := r.key("k"), time.Now()
		_, err := r.a.Add(r.ctx, k, []kv.Slot{slot(1, 5), slot(2, 5)}, short)
		r.must(err)
		r.add(r.a, k, slot(2, 1)) // this one goes on for an hour
		r.until("the slot is gone", func() bool {
			// Reading does not prolong it.
			return r.add(r.b, k, slot(1, 0))[0].Counts[0] == 0
		})
		r.notEarly(start)
		if got := r.add(r.b, k, slot(2, 0))[0].Counts[0]; got != 6 && got != 1 { // 1 on a machine that stood still
			r.Errorf("the other slot has %d", got)
		}
	}},
	{"adding and reading is one step", func(r *rig) {
		const each = 20
		k := r.key("k")
		var mu sync.Mutex
		var seen []int64
		r.crowd(func(s kv.Store, _ string) {
			for range each {
				got, err := s.Add(r.ctx, k, []kv.Slot{slot(1, 1, 2), slot(2, 3)}, long)
				if err != nil {
					r.Error(err)
					return
				}
				n := got[0].Counts[0]
				if got[0].Counts[1] != 2*n || got[1].Counts[0] != 3*n {
					r.Errorf("another came between: %v", got)
				}
				mu.Lock()
				seen = append(seen, n)
				mu.Unlock()
			}
		})
		slices.Sort(seen)
		for i, n := range seen {
			if n != int64(i)+1 {
				r.Fatalf("the %d-th total is %d", i+1, n)
			}
		}
		if len(seen) != crowd*each {
			r.Errorf("%d totals", len(seen))
		}
	}},
}
