package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// past is what an endpoint went through in a life.
type past struct {
	health, breaker track // whether it was well, whether its breaker was closed
	holds           []hold
}

// hold is a time in which an endpoint is to be left alone.
type hold struct{ from, to time.Time }

// track is something that is so or not, from each of its moments on; so before the
// first.
type track []moment

type moment struct {
	at time.Time
	so bool
}

func (t *track) add(at time.Time, so bool) { *t = append(*t, moment{at, so}) }

// all reports whether it was so at the moment, whichever of the things that
// happened at it came first.
func (t track) all(at time.Time) bool {
	so := true
	for _, m := range t {
		switch {
		case m.at.Before(at):
			so = m.so
		case m.at.Equal(at) && !m.so:
			return false
		}
	}
	return so
}

// none reports whether it was not so at the moment, whichever came first.
func (t track) none(at time.Time) bool {
	so := true
	for _, m := range t {
		switch {
		case m.at.Before(at):
			so = m.so
		case m.at.Equal(at) && m.so:
			return false
		}
	}
	return !so
}

// forget is told of a reload: of a member that comes and goes with those pawl
// remembers nothing.
func (o *oracle) forget(life int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for _, d := range o.w.plan.Destinations {
		if d.Group == nil || !d.Group.Shrinks {
			continue
		}
		at := place{life, d.Group.Members[len(d.Group.Members)-1].Name}
		o.moves[at] = append(o.moves[at], event.Event{At: now, Breaker: event.BreakerClosed})
		p := o.past(at)
		p.breaker.add(now, true)
		p.health.add(now, true)
		p.holds = nil
	}
}

// held reports whether a hold covers the moment, its ends left out.
func (p *past) held(at time.Time) bool {
	return slices.ContainsFunc(p.holds, func(h hold) bool { return at.After(h.from) && at.Before(h.to) })
}

// free reports whether no hold touches the moment.
func (p *past) free(at time.Time) bool {
	return !slices.ContainsFunc(p.holds, func(h hold) bool { return !at.Before(h.from) && !at.After(h.to) })
}

func (o *oracle) past(at place) *past {
	if o.states[at] == nil {
		o.states[at] = &past{}
	}
	return o.states[at]
}

// judgeHop checks the story of one destination that was left: no endpoint was
// sent the message more often than its policy says, and it was refused for good
// only where every endpoint that was tried said so.
func (o *oracle) judgeHop(name string, h message.Hop) {
	d := o.destination(h.Destination)
	each, all := d.most()
	tries, refused := map[string]int{}, map[string]bool{}
	for _, a := range h.Attempts {
		tries[a.Endpoint]++
		refused[a.Endpoint] = refused[a.Endpoint] || a.Outcome == message.OutcomePermanent
	}
	if len(h.Attempts) > all {
		o.w.wrong(name, "a letter tells of %d attempts at %s, whose policy has %d", len(h.Attempts), h.Destination, all)
	}
	for endpoint, n := range tries {
		if n > each {
			o.w.wrong(name, "a letter tells of %d attempts at %s, whose policy has %d", n, endpoint, each)
		}
		if h.Reason == message.HopPermanent && !refused[endpoint] {
			o.w.wrong(name, "%s was left as permanent, but %s did not say so", h.Destination, endpoint)
		}
	}
}

// judgeHolds checks that nothing was sent to an endpoint while it was to be left
// alone.
func (o *oracle) judgeHolds(at place, sends []span) {
	p := o.past(at)
	for _, s := range sends {
		if p.held(s.begin) {
			o.w.wrong(s.id, "sent to %s at %v, which asked to be left alone", at.endpoint, s.begin.Sub(o.w.began))
		}
	}
}

// judgeHedges checks that no hedge went to a member whose breaker was not closed,
// and nothing to an unwell one while another was there for it. A person's pause,
// and a member that comes and goes, leave that open.
func (o *oracle) judgeHedges(at place, sends []span) {
	d, p := o.homes[at.endpoint], o.past(at)
	if d.Group == nil {
		return
	}
	for _, s := range sends {
		if s.hedge && p.breaker.none(s.begin) {
			o.w.wrong(s.id, "a hedge to %s at %v, whose breaker is not closed", at.endpoint, s.begin.Sub(o.w.began))
		}
		if d.Group.Shrinks || o.w.plan.pauses(d.Name) || !p.health.none(s.begin) {
			continue
		}
		for _, m := range d.Group.Members {
			other := o.past(place{at.life, m.Name})
			if m.Name != at.endpoint && other.health.all(s.begin) && other.breaker.all(s.begin) && other.free(s.begin) && !o.refused(at.life, m.Name, s) {
				o.w.wrong(s.id, "sent to %s at %v, which is unwell, while %s was there", at.endpoint, s.begin.Sub(o.w.began), m.Name)
				break
			}
		}
	}
}

// refused reports whether an endpoint has refused the message of a send for good
// by its beginning.
func (o *oracle) refused(life int, endpoint string, s span) bool {
	return slices.ContainsFunc(o.sends[place{life, endpoint}], func(other span) bool {
		return other.id == s.id && other.outcome == message.OutcomePermanent && !other.end.After(s.begin)
	})
}

// judgeBusy checks that no more sends were in flight at once than may be. What
// ends and begins at one moment may have done so in that order.
func (o *oracle) judgeBusy(where string, sends []span, most int) {
	var edges []edge
	for _, s := range sends {
		edges = append(edges, edge{s.begin, 1}, edge{s.end, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
	n := 0
	for _, e := range edges {
		if n += e.by; n > most {
			o.w.wrong("", "%d sends at once to %s at %v, %d are allowed", n, where, e.at.Sub(o.w.began), most)
			return
		}
	}
}

// judgeTogether looks at what the endpoints of a destination share.
func (o *oracle) judgeTogether() {
	type home struct {
		life int
		name string
	}
	together, requests := map[home][]span{}, map[home][]span{}
	shared := map[string]map[int][]span{} // by destination and life
	for at, sends := range o.sends {
		h := home{at.life, o.homes[at.endpoint].Name}
		together[h] = append(together[h], sends...)
		requests[h] = append(requests[h], o.requests(at, sends)...)
	}
	for h, sends := range together {
		d := o.destination(h.name)
		o.judgeRate(d, requests[h])
		o.judgeShares(h.life, d, sends)
		if !d.SharedBudget {
			o.judgeBudget(d, sends)
		} else if shared[h.name] == nil {
			shared[h.name] = map[int][]span{h.life: sends}
		} else {
			shared[h.name][h.life] = sends
		}
		o.judgeBusy(h.name, requests[h], d.Workers)
	}
	for name, byLife := range shared {
		o.judgeSharedBudget(o.destination(name), byLife)
	}
}

// judgeOnce checks that where what was seen is dropped a message is delivered once
// in a life, under whichever ids it came. Dead letters may be more: a stop makes
// them of what waits for the first and can't be given back.
func (o *oracle) judgeOnce() {
	if !o.w.plan.Dedupe {
		return
	}
	names := map[string]string{}
	for _, e := range o.w.endpoints {
		for _, a := range e.arrivals() {
			if _, name, err := parse([]byte(a.body)); err == nil {
				names[a.id] = name
			}
		}
	}
	o.judgeTwice(names)
	seen := map[ending]string{}
	for e := range o.ends {
		name, known := names[e.id]
		if !known {
			continue
		}
		at := ending{e.life, name}
		if before, twice := seen[at]; twice {
			o.w.wrong(name, "it was delivered in life %d as %s and as %s", e.life, before, e.id)
		}
		seen[at] = e.id
	}
}
