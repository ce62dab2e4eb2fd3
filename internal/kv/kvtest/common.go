package kvtest

import (
	"context"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
)

var commonTests = []test{
	{"arguments out of their bounds", func(r *rig) {
		for name, owned := range map[string]struct {
			key, owner string
			span       time.Duration
		}{
			"no key":          {"", "one", long},
			"no owner":        {"k", "", long},
			"a long owner":    {"k", strings.Repeat("o", kv.MaxOwner+1), long},
			"no time":         {"k", "one", 0},
			"a time too tiny": {"k", "one", kv.MinSpan - 1},
			"a time too long": {"k", "one", kv.MaxSpan + 1},
		} {
			r.Log(name)
			_, err := r.a.Mark(r.ctx, owned.key, owned.owner, owned.span)
			r.is(err, kv.ErrInvalid)
			r.is(r.a.Keep(r.ctx, owned.key, owned.owner, owned.span), kv.ErrInvalid)
			r.is(r.a.Settle(r.ctx, owned.key, owned.owner, owned.span), kv.ErrInvalid)
			if owned.span == long {
				r.is(r.a.Forget(r.ctx, owned.key, owned.owner), kv.ErrInvalid)
			}
		}
		for name, added := range map[string]struct {
			series string
			slots  []kv.Slot
			ttl    time.Duration
		}{
			"no series":     {"", []kv.Slot{slot(1, 1)}, long},
			"no slot":       {"k", nil, long},
			"many slots":    {"k", make([]kv.Slot, kv.MaxSlots+1), long},
			"a slot twice":  {"k", []kv.Slot{slot(1, 1), slot(1, 1)}, long},
			"no counter":    {"k", []kv.Slot{slot(1)}, long},
			"many counters": {"k", []kv.Slot{slot(1, make([]int64, kv.MaxCounts+1)...)}, long},
			"less":          {"k", []kv.Slot{slot(1, -1)}, long},
			"much":          {"k", []kv.Slot{slot(1, kv.MaxDelta+1)}, long},
			"no time":       {"k", []kv.Slot{slot(1, 1)}, 0},
		} {
			r.Log(name)
			_, err := r.a.Add(r.ctx, added.series, added.slots, added.ttl)
			r.is(err, kv.ErrInvalid)
		}
		r.markFor(r.a, r.key("shortest"), "one", kv.MinSpan, kv.Mine)
		r.markFor(r.a, r.key("longest"), strings.Repeat("o", kv.MaxOwner), kv.MaxSpan, kv.Mine)
		if got := r.markFor(r.a, r.key("rounded"), "one", kv.MinSpan+1, kv.Mine); got.Left != 2*time.Millisecond {
			r.Errorf("a millisecond and one nanosecond: %v", got.Left)
		}
	}},
	{"a context that is over", func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		k := r.key("k")
		for op, f := range operations(r.a, k, "one") {
			unavailable(r, f(ctx), op, kv.NotDone, context.Canceled)
		}
		r.mark(r.a, k, "two", kv.Mine)
		r.totals(r.add(r.a, k, slot(0, 0)), slot(0, 0))
	}},
	{"closed", func(r *rig) {
		k := r.key("k")
		r.must(r.a.Ping(r.ctx))
		r.must(r.a.Close())
		r.must(r.a.Close())
		for op, f := range operations(r.a, k, "one") {
			unavailable(r, f(r.ctx), op, kv.NotDone, kv.ErrClosed)
		}
	}},
}
