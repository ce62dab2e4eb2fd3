package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
)

// judgeSends looks at what was sent when: no more than was counted, nothing to
// an open breaker's endpoint, and no more trials than allowed.
func (o *oracle) judgeSends() {
	for _, e := range o.w.endpoints {
		seen := map[string]int{}
		for _, a := range e.arrivals() {
			seen[a.id]++
		}
		more := 0
		for id, n := range seen {
			more += max(n-o.tries[trial{e.name, id}], 0)
		}
		again := o.again[e.name]
		if b := o.homes[e.name].Batch; b != nil {
			again *= b.MaxMessages
		}
		if more > again {
			o.w.wrong("", "%s saw %d requests more than were counted as attempts, %d were sent again over fresh connections", e.name, more, again)
		}
	}
	o.judgeTogether()
	o.judgeOnce()
	for at, sends := range o.sends {
		o.judgeHolds(at, sends)
		o.judgeHedges(at, sends)
		sends = o.requests(at, sends)
		o.judgeBusy(at.endpoint, sends, o.homes[at.endpoint].share())
		b := o.homes[at.endpoint].Breaker
		if b == nil {
			continue
		}
		moves := o.moves[at]
		slices.SortStableFunc(moves, func(a, b event.Event) int { return a.At.Compare(b.At) })
		for i, m := range moves {
			until := time.Time{}
			if i+1 < len(moves) {
				until = moves[i+1].At
			}
			o.judgeState(at, m, until, sends, b.HalfOpenMax)
		}
	}
}

// judgeState looks at the sends of the time between two moves of a breaker.
// What begins at the very moment of a move may belong to either side.
func (o *oracle) judgeState(at place, m event.Event, until time.Time, sends []span, trials int) {
	var edges []edge
	for _, s := range sends {
		if !s.begin.After(m.At) && m.Breaker == event.BreakerOpen || s.begin.Before(m.At) || !until.IsZero() && !s.begin.Before(until) {
			continue
		}
		switch m.Breaker {
		case event.BreakerOpen:
			o.w.wrong(s.id, "sent to %s at %v though its breaker is open since %v", at.endpoint, s.begin.Sub(o.w.began), m.At.Sub(o.w.began))
		case event.BreakerHalfOpen:
			edges = append(edges, edge{s.begin, 1}, edge{s.end, -1})
		case event.BreakerClosed:
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
	n := 0
	for _, e := range edges {
		if n += e.by; n > trials {
			o.w.wrong("", "%d trials at once at %s at %v, %d are allowed", n, at.endpoint, e.at.Sub(o.w.began), trials)
			return
		}
	}
}

// edge is the begin or the end of a send.
type edge struct {
	at time.Time
	by int
}
