package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// rounding is what the oracle's fractions may be off by.
const rounding = 1e-3

// judgeRate checks that in every stretch of time no more sends began than the
// burst and what came since: a bucket of the oracle's own must never run over.
func (o *oracle) judgeRate(d DestinationPlan, sends []span) {
	r := d.Rate
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
			o.w.wrong("", "the send to %s at %v is %.3f beyond its rate limit", d.Name, b.Sub(o.w.began), level-float64(r.Burst))
			return
		}
	}
}

// judgeBudget checks that with each retry that was scheduled, and made, and each
// hedge, the window before it holds no more of them than its first tries allow.
func (o *oracle) judgeBudget(d DestinationPlan, sends []span) {
	b := d.Budget
	if b == nil {
		return
	}
	firsts, retries := charges(sends)
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
			o.w.wrong("", "%d retries at %s in the %v before %v, its budget allows %.3f", n, d.Name, b.Window, t.Sub(o.w.began), most)
			return
		}
	}
}

// charges returns when messages were sent to a destination for the first time, and
// when the budget was charged: for a hedge, and once for a round after the first.
// Another member's try in the same round is no retry; a round is known to be
// another where an endpoint is sent the message again. Where something that was
// waited for came between, it may have begun before, and is left out.
func charges(sends []span) (firsts, charged []time.Time) {
	sends = slices.Clone(sends)
	slices.SortStableFunc(sends, func(a, b span) int { return cmp.Or(a.begin.Compare(b.begin), a.number-b.number) })
	type stay struct{ id, route string }
	stays := map[stay]int{} // of several at once it is not known whose a round is
	for _, s := range sends {
		if s.number == 1 {
			stays[stay{s.id, s.route}]++
		}
	}
	round := map[stay]map[string]bool{} // the endpoints of a message's round
	waited := map[stay]bool{}           // one after its first was waited for
	for _, s := range sends {
		at := stay{s.id, s.route}
		switch {
		case s.number == 1:
			round[at], waited[at] = map[string]bool{}, false
			firsts = append(firsts, s.begin)
		case s.hedge:
			charged = append(charged, s.begin)
		case round[at][s.endpoint] && stays[at] == 1:
			if !waited[at] {
				charged = append(charged, s.ready)
			}
			round[at], waited[at] = map[string]bool{}, false
		default:
			waited[at] = waited[at] || s.ready.Before(s.begin)
		}
		if round[at] != nil {
			// What was refused with its batch goes once more alone: that is no retry.
			round[at][s.endpoint] = s.outcome != message.OutcomePermanent
		}
	}
	return firsts, charged
}
