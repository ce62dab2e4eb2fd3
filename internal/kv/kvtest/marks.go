package kvtest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
)

var markTests = []test{
	{"a mark's life", func(r *rig) {
		k := r.key("k")
		if got := r.mark(r.a, k, "one", kv.Mine); got != (kv.State{Found: kv.Mine, Left: long}) {
			r.Errorf("the own lease: %v", got)
		}
		if got := r.mark(r.b, k, "two", kv.Taken); got.Left <= long-time.Minute || got.Left > long || got.Age != 0 {
			r.Errorf("another's lease: %v", got)
		}
		r.must(r.a.Keep(r.ctx, k, "one", 2*long))
		if got := r.mark(r.b, k, "two", kv.Taken); got.Left <= long || got.Left > 2*long {
			r.Errorf("a lease that was kept: %v", got)
		}
		r.must(r.a.Settle(r.ctx, k, "one", 3*long))
		for _, owner := range []string{"one", "two"} {
			if got := r.mark(r.b, k, owner, kv.Done); got.Left <= 2*long || got.Left > 3*long || got.Age < 0 || got.Age > time.Minute {
				r.Errorf("settled: %v", got)
			}
		}
	}},
	{"a repeat of Mark renews the lease", func(r *rig) {
		k := r.key("k")
		r.markFor(r.a, k, "one", time.Minute, kv.Mine)
		r.mark(r.b, k, "one", kv.Mine)
		if got := r.mark(r.b, k, "two", kv.Taken); got.Left <= time.Minute {
			r.Errorf("%v", got)
		}
	}},
	{"what is forgotten is free", func(r *rig) {
		k := r.key("k")
		r.mark(r.a, k, "one", kv.Mine)
		r.must(r.b.Forget(r.ctx, k, "two"))
		r.mark(r.b, k, "two", kv.Taken)
		r.must(r.a.Forget(r.ctx, k, "one"))
		r.must(r.a.Forget(r.ctx, k, "one"))
		r.is(r.a.Keep(r.ctx, k, "one", long), kv.ErrLost)
		r.mark(r.b, k, "two", kv.Mine)
		r.must(r.a.Forget(r.ctx, k, "one"))
		r.mark(r.a, k, "one", kv.Taken)
	}},
	{"a lease ends, and its owner is fenced", func(r *rig) {
		k, start := r.key("k"), time.Now()
		r.markFor(r.a, k, "one", short, kv.Mine)
		r.untilTwo(r.b, k)
		r.notEarly(start)
		r.is(r.a.Keep(r.ctx, k, "one", long), kv.ErrLost)
		r.is(r.a.Settle(r.ctx, k, "one", long), kv.ErrLost)
		r.must(r.a.Forget(r.ctx, k, "one"))
		r.mark(r.a, k, "one", kv.Taken)
		r.must(r.b.Settle(r.ctx, k, "two", long))
		r.is(r.a.Settle(r.ctx, k, "one", long), kv.ErrLost)
		r.mark(r.a, k, "one", kv.Done)
	}},
	{"a lease that is kept does not end, and can be cut short", func(r *rig) {
		kept, clock := r.key("kept"), r.key("clock")
		r.until("it is kept in time", func() bool {
			r.markFor(r.a, kept, "one", short, kv.Mine)
			return r.a.Keep(r.ctx, kept, "one", long) == nil
		})
		r.markFor(r.a, clock, "one", short, kv.Mine)
		r.untilTwo(r.b, clock)
		r.mark(r.b, kept, "two", kv.Taken)
		start := time.Now()
		r.must(r.a.Keep(r.ctx, kept, "one", short))
		r.untilTwo(r.b, kept)
		r.notEarly(start)
	}},
	{"what ran out is settled all the same, but not kept", func(r *rig) {
		k := r.key("k")
		r.markFor(r.a, k, "one", time.Millisecond, kv.Mine)
		r.untilTwo(r.b, k)
		r.must(r.b.Forget(r.ctx, k, "two"))
		r.is(r.a.Keep(r.ctx, k, "one", long), kv.ErrLost)
		r.must(r.a.Settle(r.ctx, k, "one", long))
		r.mark(r.b, k, "three", kv.Done)
	}},
	{"what is settled ends with its time to live", func(r *rig) {
		k, start := r.key("k"), time.Now()
		r.mark(r.a, k, "one", kv.Mine)
		r.must(r.a.Settle(r.ctx, k, "one", short))
		r.untilTwo(r.b, k)
		r.notEarly(start)
	}},
	{"what is settled stays so", func(r *rig) {
		k := r.key("k")
		r.mark(r.a, k, "one", kv.Mine)
		r.must(r.a.Settle(r.ctx, k, "one", long))
		r.must(r.b.Settle(r.ctx, k, "one", time.Millisecond))
		r.is(r.b.Settle(r.ctx, k, "two", 2*long), kv.ErrLost)
		r.is(r.b.Keep(r.ctx, k, "one", time.Millisecond), kv.ErrLost)
		r.is(r.b.Keep(r.ctx, k, "two", time.Millisecond), kv.ErrLost)
		r.must(r.b.Forget(r.ctx, k, "one"))
		r.must(r.b.Forget(r.ctx, k, "two"))
		if got := r.mark(r.b, k, "one", kv.Done); got.Left <= long-time.Minute || got.Left > long {
			r.Errorf("%v", got)
		}
	}},
	{"the age of what is settled", func(r *rig) {
		k, start := r.key("k"), time.Now()
		r.must(r.a.Settle(r.ctx, k, "one", long))
		var got kv.State
		r.until("an age", func() bool {
			got = r.mark(r.b, k, "two", kv.Done)
			return got.Age >= 20*time.Millisecond
		})
		if passed := time.Since(start); got.Age > passed+slack {
			r.Errorf("%v old after %v", got.Age, passed)
		}
		if sum := got.Age + got.Left; sum < long-slack || sum > long+slack {
			r.Errorf("%v gone and %v left of an hour", got.Age, got.Left)
		}
	}},
	{"keys of any bytes and any length", func(r *rig) {
		big := r.salt + strings.Repeat("x", 1<<20)
		sum := sha256.Sum256([]byte(big))
		keys := []string{
			r.salt, r.salt + "\x00", r.salt + "\x00\x00", "\x00" + r.salt, r.salt + "\r\n", r.salt + " ", r.salt + "*", r.salt + "\xff\xfe",
			r.salt + "{", r.salt + "{}", r.salt + "}{", "{" + r.salt + "}", "%7B" + r.salt, "=" + r.salt,
			big, big + "x", big[1:], r.salt + strings.Repeat("x", 256-len(r.salt)), r.salt + strings.Repeat("x", 257-len(r.salt)),
			hex.EncodeToString(sum[:]), "#" + hex.EncodeToString(sum[:]), "=#" + hex.EncodeToString(sum[:]),
		}
		for _, k := range keys {
			r.mark(r.a, k, "one", kv.Mine)
		}
		for i, k := range keys {
			r.mark(r.b, k, "two", kv.Taken)
			if i%2 == 0 {
				r.must(r.a.Settle(r.ctx, k, "one", long))
			} else {
				r.must(r.a.Forget(r.ctx, k, "one"))
			}
		}
		for i, k := range keys {
			r.mark(r.b, k, "two", []kv.Found{kv.Done, kv.Mine}[i%2])
		}
	}},
	{"owners of any bytes", func(r *rig) {
		owners := []string{"a", "a\x00", "\x00", " ", "pa", "d1 a", "1 a", "%", "\r\n", "a\n", strings.Repeat("o", kv.MaxOwner), strings.Repeat("o", kv.MaxOwner-1)}
		for i, owner := range owners {
			k := r.key(owner)
			r.mark(r.a, k, owner, kv.Mine)
			for j, other := range owners {
				if i != j {
					r.mark(r.b, k, other, kv.Taken)
					r.is(r.b.Keep(r.ctx, k, other, long), kv.ErrLost)
					r.is(r.b.Settle(r.ctx, k, other, long), kv.ErrLost)
				}
			}
			r.must(r.a.Keep(r.ctx, k, owner, long))
			r.must(r.a.Settle(r.ctx, k, owner, long))
			r.must(r.a.Settle(r.ctx, k, owner, long))
			for j, other := range owners {
				if i != j {
					r.is(r.b.Settle(r.ctx, k, other, long), kv.ErrLost)
				}
			}
		}
	}},
	{"one of many has it", func(r *rig) {
		for range 20 {
			k := r.key("")
			var mine, taken atomic.Int32
			r.crowd(func(s kv.Store, owner string) {
				got, err := s.Mark(r.ctx, k, owner, long)
				switch {
				case err != nil:
					r.Error(err)
				case got.Found == kv.Mine:
					mine.Add(1)
				case got.Found == kv.Taken:
					taken.Add(1)
				}
			})
			if mine.Load() != 1 || taken.Load() != crowd-1 {
				r.Fatalf("%d have it, %d see that another has", mine.Load(), taken.Load())
			}
			r.salt += "+"
		}
	}},
	{"one at a time has it", func(r *rig) {
		k := r.key("k")
		var inside, turns atomic.Int32
		r.crowd(func(s kv.Store, owner string) {
			for range 5 {
				for {
					got, err := s.Mark(r.ctx, k, owner, long)
					if err != nil {
						r.Error(err)
						return
					}
					if got.Found == kv.Mine {
						break
					}
					time.Sleep(time.Millisecond)
				}
				if n := inside.Add(1); n != 1 {
					r.Errorf("%d have it at once", n)
				}
				turns.Add(1)
				inside.Add(-1)
				if err := s.Forget(r.ctx, k, owner); err != nil {
					r.Error(err)
				}
			}
		})
		if turns.Load() != 5*crowd {
			r.Errorf("%d turns", turns.Load())
		}
	}},
}

// crowd is how many work at once, half of them at each client.
const crowd = 16

func (r *rig) crowd(f func(s kv.Store, owner string)) {
	var all sync.WaitGroup
	for i := range crowd {
		s := r.a
		if i%2 == 1 {
			s = r.b
		}
		all.Go(func() { f(s, "owner "+string(rune('a'+i))) })
	}
	all.Wait()
}
