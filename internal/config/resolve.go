package config

import (
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/setting"
)

// level is one of the levels that delivery settings are inherited through.
type level struct {
	name string // LevelDefaults, LevelDestination or LevelMember
	said *writtenDelivery
}

// levels go from the farthest to the nearest, without the built-in values.
type levels []level

// inherited are the levels of a destination.
func inherited(defaults, own *writtenDelivery) levels {
	return levels{{LevelDefaults, defaults}, {LevelDestination, own}}
}

// and adds the level of a group's member.
func (ls levels) and(member *writtenEndpoint) levels {
	return append(ls[:len(ls):len(ls)], level{LevelMember, &writtenDelivery{writtenEndpoint: *member}})
}

// resolver picks values out of levels and notes where each comes from.
type resolver struct {
	levels levels
	from   map[string]string
}

// resolveDelivery makes a policy of the built-in values and the levels.
func resolveDelivery(ls levels) Delivery {
	d := Delivery{From: map[string]string{}}
	r := resolver{ls, d.From}
	d.Retry = r.retry()
	d.Timeout = pick(r, "timeout", setting.Duration(DefaultTimeout), func(w *writtenDelivery) *setting.Duration { return w.Timeout }).D()
	d.Deadline = pick(r, "deadline", 0, func(w *writtenDelivery) *setting.Duration { return w.Deadline }).D()
	d.Workers = pick(r, "workers", DefaultWorkers, func(w *writtenDelivery) *int { return w.Workers })
	d.MaxPending = pick(r, "max_pending", DefaultMaxPending, func(w *writtenDelivery) *int { return w.MaxPending })
	d.DeliveredOn = pick(r, "delivered_on", nil, func(w *writtenDelivery) *[]failure.Tag { return w.DeliveredOn })
	d.Success = pick(r, "success", "", func(w *writtenDelivery) *string { return w.Success })
	d.TTL = pick(r, "ttl", 0, func(w *writtenDelivery) *setting.Duration { return w.TTL }).D()
	d.Breaker = r.breaker()
	d.RateLimit = r.rateLimit()
	d.RetryBudget, d.BudgetStore = r.budget()
	d.Batch = r.batch()
	d.WhenOpen = pick(r, "when_open", WhenOpenWait, func(w *writtenDelivery) *WhenOpen { return w.WhenOpen })
	d.Idempotent = pick(r, "idempotent", false, func(w *writtenDelivery) *bool { return w.Idempotent })
	d.Transforms = transforms(pick(r, "transforms", nil, func(w *writtenDelivery) *[]writtenTransform { return w.Transforms }))
	d.ForwardHeaders = pick(r, "forward_headers", nil, func(w *writtenDelivery) *[]string { return w.ForwardHeaders })
	d.IdempotencyHeader = pick(r, "idempotency_header", DefaultIdempotencyHeader,
		func(w *writtenDelivery) *string { return w.IdempotencyHeader })
	return d
}

// pick returns the nearest value that was said and notes its level.
func pick[T any](r resolver, name string, builtIn T, of func(*writtenDelivery) *T) T {
	for i := len(r.levels) - 1; i >= 0; i-- {
		if v := of(r.levels[i].said); v != nil {
			r.from[name] = r.levels[i].name
			return *v
		}
	}
	r.from[name] = LevelBuiltIn
	return builtIn
}

// pickToggle returns the nearest level's word and notes the level.
func (r resolver) pickToggle(name string, builtIn toggle, of func(*writtenDelivery) toggle) toggle {
	return pick(r, name, builtIn, func(w *writtenDelivery) *toggle {
		if t := of(w); t != unsaid {
			return &t
		}
		return nil
	})
}

// retry merges the levels that can say something of it.
func (r resolver) retry() retry.Policy {
	var layers []retry.Layer
	for _, l := range r.levels {
		if l.name != LevelMember {
			layers = append(layers, retry.Layer{Level: l.name, Overlay: l.said.Retry.overlay()})
		}
	}
	return retry.Resolve(layers...)
}

// breaker returns nil where the nearest level that says anything says false.
func (r resolver) breaker() *breaker.Settings {
	const name = "circuit_breaker"
	of := func(w *writtenDelivery) *writtenBreaker { return &w.CircuitBreaker }
	if r.pickToggle(name, switchedOn, func(w *writtenDelivery) toggle { return of(w).state }) == switchedOff {
		return nil
	}
	b := breaker.Defaults()
	const openFor = name + ".open_for"
	b.FailureRatio = float64(pick(r, name+".failure_ratio", setting.Ratio(b.FailureRatio), func(w *writtenDelivery) *setting.Ratio { return of(w).FailureRatio }))
	b.MinRequests = pick(r, name+".min_requests", b.MinRequests, func(w *writtenDelivery) *int { return of(w).MinRequests })
	b.Window = pick(r, name+".window", setting.Duration(b.Window), func(w *writtenDelivery) *setting.Duration { return of(w).Window }).D()
	b.OpenFor = pick(r, openFor, setting.Duration(b.OpenFor), func(w *writtenDelivery) *setting.Duration { return of(w).OpenFor }).D()
	longest := setting.Duration(b.MaxOpenFor)
	if r.from[openFor] != LevelBuiltIn {
		longest = setting.Duration(b.OpenFor) // said alone, it is not doubled
	}
	b.MaxOpenFor = pick(r, name+".max_open_for", longest, func(w *writtenDelivery) *setting.Duration { return of(w).MaxOpenFor }).D()
	b.HalfOpenMax = pick(r, name+".half_open_max", b.HalfOpenMax, func(w *writtenDelivery) *int { return of(w).HalfOpenMax })
	return &b
}

// rateLimit returns nil where the nearest level that says anything says false,
// or none says how fast: checkRateLimit reports that.
func (r resolver) rateLimit() *limit.Rate {
	const name = "rate_limit"
	of := func(w *writtenDelivery) *writtenRateLimit { return &w.RateLimit }
	if r.pickToggle(name, switchedOff, func(w *writtenDelivery) toggle { return of(w).state }) == switchedOff {
		return nil
	}
	perSecond := pick(r, name+".per_second", 0, func(w *writtenDelivery) *float64 { return of(w).PerSecond })
	if r.from[name+".per_second"] == LevelBuiltIn {
		return nil
	}
	rate := limit.NewRate(perSecond)
	rate.PerSecond = perSecond // out of bounds too, for the check
	rate.Burst = pick(r, name+".burst", rate.Burst, func(w *writtenDelivery) *int { return of(w).Burst })
	return &rate
}

// budget returns nil where no level asks for one, or the nearest that says
// anything says false; and the name of the store that counts it.
func (r resolver) budget() (*limit.BudgetSettings, string) {
	const name = "retry_budget"
	of := func(w *writtenDelivery) *writtenBudget { return &w.RetryBudget }
	if r.pickToggle(name, switchedOff, func(w *writtenDelivery) toggle { return of(w).state }) == switchedOff {
		return nil, ""
	}
	b := limit.DefaultBudget()
	b.Ratio = float64(pick(r, name+".ratio", setting.Ratio(b.Ratio), func(w *writtenDelivery) *setting.Ratio { return of(w).Ratio }))
	b.MinPerSecond = pick(r, name+".min_per_second", b.MinPerSecond, func(w *writtenDelivery) *float64 { return of(w).MinPerSecond })
	b.Window = pick(r, name+".window", setting.Duration(b.Window), func(w *writtenDelivery) *setting.Duration { return of(w).Window }).D()
	store := pick(r, name+".store", "", func(w *writtenDelivery) *string { return of(w).Store })
	return &b, store
}

// batch returns nil where no level asks for one, or the nearest that says
// anything says false.
func (r resolver) batch() *Batch {
	const name = "batch"
	of := func(w *writtenDelivery) *writtenBatch { return &w.Batch }
	if r.pickToggle(name, switchedOff, func(w *writtenDelivery) toggle { return of(w).state }) == switchedOff {
		return nil
	}
	return &Batch{
		MaxMessages: pick(r, name+".max_messages", DefaultBatchMessages, func(w *writtenDelivery) *int { return of(w).MaxMessages }),
		MaxBytes:    int64(pick(r, name+".max_bytes", DefaultBatchBytes, func(w *writtenDelivery) *setting.Size { return of(w).MaxBytes })),
		MaxWait:     pick(r, name+".max_wait", setting.Duration(DefaultBatchWait), func(w *writtenDelivery) *setting.Duration { return of(w).MaxWait }).D(),
	}
}
