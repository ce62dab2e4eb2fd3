package sim

import (
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/message"
)

// turned is the moment from which a life has what a number of reloads put in
// force.
type turned struct {
	at   time.Time
	turn int
}

// configured notes that a life has a new configuration.
func (o *oracle) configured(p *process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns[p.number] = append(o.turns[p.number], turned{time.Now(), p.of.turn})
}

const (
	// offShare is how many sends a member may be off its share, in a stretch that
	// begins wherever the cycle of weights may stand: less than one cycle at either
	// end, and one for what happens at the same moment.
	offShare = 3
	// longRun is the stretch of sends that says something of shares.
	longRun = 12
)

// judgeShares checks where a group's sends went while nothing but its strategy
// decided that: every member was as well as it had always been and had room, and
// nobody was sent a message again.
func (o *oracle) judgeShares(life int, d DestinationPlan, sends []span) {
	if d.Group == nil || d.Group.Shrinks || d.Batch != nil || o.w.plan.pauses(d.Name) {
		return
	}
	slices.SortStableFunc(sends, func(a, b span) int { return a.begin.Compare(b.begin) })
	turns := o.turns[life]
	for i, t := range turns {
		run := map[string]int{}
		n := 0
		for _, s := range sends {
			if s.begin.Before(t.at) || i+1 < len(turns) && !s.begin.Before(turns[i+1].at) {
				continue
			}
			if s.number == 1 && !s.hedge && s.outcome == message.OutcomeOK && s.ready.After(t.at) && o.calm(life, d, s, sends) {
				run[s.endpoint]++
				n++
				continue
			}
			o.judgeRun(d, t, s.begin, run, n)
			clear(run)
			n = 0
		}
		o.judgeRun(d, t, o.w.began.Add(length), run, n)
	}
}

// judgeRun checks a stretch of n sends.
func (o *oracle) judgeRun(d DestinationPlan, t turned, until time.Time, run map[string]int, n int) {
	now := d.Group.turn(t.turn)
	weights := slices.Clone(now.Weights)
	sum := 0
	for i := range weights {
		if now.Strategy == balance.RoundRobin {
			weights[i] = 1
		}
		sum += weights[i]
	}
	switch now.Strategy {
	case balance.Failover:
		if first := d.Group.Members[0].Name; run[first] != n {
			o.w.wrong("", "of %d sends to %s before %v %d went to %s, the first that was there", n, d.Name, until.Sub(o.w.began), run[first], first)
		}
	case balance.RoundRobin, balance.Weighted:
		for i, m := range d.Group.Members {
			share := float64(n*weights[i]) / float64(sum)
			if math.Abs(float64(run[m.Name])-share) > offShare {
				o.w.wrong("", "of %d sends to %s before %v %d went to %s, its share is %.1f", n, d.Name, until.Sub(o.w.began), run[m.Name], m.Name, share)
			}
		}
	case balance.LeastLatency:
		return
	}
	if n >= longRun {
		o.runs++
	}
}

// calm reports whether nothing barred any member of a group from a send.
func (o *oracle) calm(life int, d DestinationPlan, s span, sends []span) bool {
	early := func(m moment) bool { return !m.at.After(s.begin) }
	for _, m := range d.Group.Members {
		p := o.past(place{life, m.Name})
		if slices.ContainsFunc(p.breaker, early) || slices.ContainsFunc(p.health, early) ||
			slices.ContainsFunc(p.holds, func(h hold) bool { return !h.from.After(s.begin) }) {
			return false
		}
	}
	busy := map[string]int{s.endpoint: -1} // the send itself
	for _, other := range sends {
		if !other.begin.After(s.begin) && !other.end.Before(s.begin) {
			busy[other.endpoint]++
		}
	}
	for _, n := range busy {
		if n >= d.share() {
			return false
		}
	}
	return true
}
