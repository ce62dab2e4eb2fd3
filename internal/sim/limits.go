package sim

import (
	"slices"
	"time"
)

// rounding is what the oracle's fractions may be off by.
const rounding = 1e-3

// judgeRate checks that in every stretch of time no more sends began than the
// burst and what came since: a bucket of the oracle's own must never run over.
func (o *oracle) judgeRate(at place, sends []span) {
	r := o.destination(at.endpoint).Rate
	if r == nil {
		return
	}
	begins := make([]time.Time, 0, len(sends))
	for _, s := range sends {
		begins = append(begins, s.begin)
	}
	slices.SortFunc(begins, time.Time.Compare)
	level := 0.0
	for i, b := range begins {
		if i > 0 {
			level = max(level-r.PerSecond*b.Sub(begins[i-1]).Seconds(), 0)
		}
		if level++; level > float64(r.Burst)+rounding {
			o.w.wrong("", "the send to %s at %v is %.3f beyond its rate limit", at.endpoint, b.Sub(o.w.began), level-float64(r.Burst))
			return
		}
	}
}

// judgeBudget checks that with each retry that was scheduled, and made, the
// window before it holds no more of them than its first tries allow.
func (o *oracle) judgeBudget(at place, sends []span) {
	b := o.destination(at.endpoint).Budget
	if b == nil {
		return
	}
	var firsts, retries []time.Time
	for _, s := range sends {
		if s.number == 1 {
			firsts = append(firsts, s.begin)
		} else {
			retries = append(retries, s.ready)
		}
	}
	within := func(list []time.Time, end time.Time) (n int) {
		for _, t := range list {
			if !t.After(end) && end.Sub(t) <= b.Window {
				n++
			}
		}
		return n
	}
	for _, t := range retries {
		most := b.Ratio*float64(within(firsts, t)) + b.MinPerSecond*b.Window.Seconds()
		if n := within(retries, t); float64(n) > most+rounding {
			o.w.wrong("", "%d retries at %s in the %v before %v, its budget allows %.3f", n, at.endpoint, b.Window, t.Sub(o.w.began), most)
			return
		}
	}
}
