package deliver

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/ramp"
)

// maxMembers bounds the members of a group: a send's view of them is one word.
const maxMembers = 64

// member is one endpoint of a destination, as it lives on over reloads. A plain
// destination has one, of its own name.
type member struct {
	name  string
	index int       // among the members; -1 once a reload took it away
	spec  *Endpoint // of the newest configuration; never changed itself
	gate  gate
	line  *line // the open connector
}

// group decides who may send where: the gates of a destination's members with
// what they share. It owns no clock, lock or goroutine: post wraps it with those.
// Everything that a send needs is taken in one step (try) and given back in one
// step (end).
type group struct {
	quota   quota
	members []*member
	picker  *balance.Picker
	workers int // attempts in flight at most, over all members
	busy    int // attempts in flight, those at members that are gone too
	// answers is how long answers took; nil unless hedges go by that.
	answers *balance.Percentile
	seen    []balance.Obstacle // room for a look, one for each member
}

// mask is a set of members, by index.
type mask uint64

// been is what a message did at a member.
type been struct {
	at    *member
	guard *breaker.Breaker // whose mark it is
	mark  breaker.Mark
	tried bool             // in this round, or it is in flight there
	out   bool             // it answered with a permanent failure
	sends *message.Message // the message as the member gets it; nil until that is made
}

// ask is what a send wants to know: where it may go.
type ask struct {
	been       []been // where its message was
	tried, out mask   // the same of the present members
	// begun says that the round of the message has begun: then nobody is waited
	// for who is held or shut, and the round ends where no other is left.
	begun bool
	try   try
	pass  *pass // what is taken is noted here
}

// pass is what a send holds. It belongs to the caller and may be used again
// after end.
type pass struct {
	at     *member
	spec   *Endpoint // the member's newest
	line   *line
	guard  *breaker.Breaker // whose permit and mark these are; nil for none
	permit breaker.Permit
	mark   breaker.Mark
	take   ramp.Ticket
	taken  time.Time
	open   bool
	trial  bool // of a half-open breaker
}

// answer is what a group says to one who asks.
type answer uint8

const (
	goes    answer = iota + 1 // everything was taken: send now
	waits                     // not now: held, or paused
	busy                      // not now, for want of a worker alone
	limited                   // not now, for want of a token of the rate limit
	shut                      // every breaker is open, or has no trial to give
	over                      // the round has nobody left
	spent                     // no hedge is in the budget
)

// reply is an answer, with the earliest moment at which asking again can help:
// zero where that hangs on another send's end or on a person.
type reply struct {
	answer answer
	until  time.Time
}

// bit is the member as a set; empty for one that is gone.
func (m *member) bit() mask {
	if m.index < 0 {
		return 0
	}
	return 1 << m.index
}

// mark brings the sets of an ask up to date with the members. One that was taken
// away and is back is the same endpoint.
func (g *group) mark(a *ask) {
	a.tried, a.out = 0, 0
	for i := range a.been {
		b := &a.been[i]
		if b.at.index < 0 {
			if m, ok := g.named(b.at.name); ok {
				b.at = m
			}
		}
		if b.tried {
			a.tried |= b.at.bit()
		}
		if b.out {
			a.out |= b.at.bit()
		}
	}
}

// look says what a send that begins now is told, behind others that wait for
// their turn at the rate limit. It takes nothing.
func (g *group) look(now time.Time, a *ask, others int) reply {
	full := g.busy >= g.workers
	for i, m := range g.members {
		o, _ := m.gate.obstacles(now)
		switch bit := mask(1) << i; {
		case a.out&bit != 0:
			o |= balance.Out
		case a.tried&bit != 0, a.begun && o&balance.Held != 0, a.try == hedging && m.gate.trying(now):
			o |= balance.Tried
		}
		if full {
			o |= balance.Full
		}
		g.seen[i] = o
	}
	r := reply{answer: goes}
	switch _, says := g.picker.Look(now, g.seen); says {
	case balance.Goes:
		return g.limited(now, others, r)
	case balance.Waits:
		if r.answer, r.until = g.until(now, a); r.answer == busy {
			return g.limited(now, others, r)
		}
		return r
	case balance.AllShut:
		if !a.begun {
			_, r.until = g.until(now, a)
			return reply{shut, r.until}
		}
	case balance.RoundOver:
	}
	return reply{answer: over}
}

// limited is the reply to one that the gates let in, or will, where the rate limit
// has no token.
func (g *group) limited(now time.Time, others int, r reply) reply {
	if at := g.quota.wait(now, others); !at.IsZero() {
		return reply{limited, at}
	}
	return r
}

// until is when the first of the members that are left to a send may let it in by
// itself: zero where that hangs on another send's end, or on a person at all of
// them. busy says that one of them is only at work.
func (g *group) until(now time.Time, a *ask) (_ answer, first time.Time) {
	trial := false
	for i, m := range g.members {
		if (a.out|a.tried)&(1<<i) != 0 {
			continue
		}
		o, at := m.gate.obstacles(now)
		switch {
		case o&(balance.Shut|balance.Held) == 0:
			return busy, time.Time{}
		case o&balance.Shut != 0 && m.gate.trying(now):
			trial = true
		case !at.IsZero() && (first.IsZero() || at.Before(first)):
			first = at
		}
	}
	if trial {
		first = time.Time{}
	}
	return waits, first
}

// try takes all that a send needs, or nothing.
func (g *group) try(now time.Time, a *ask) reply {
	r := g.look(now, a, 0)
	if r.answer != goes {
		return r
	}
	if a.try == hedging && !g.quota.charge(now) {
		return reply{answer: spent}
	}
	at, _ := g.picker.Pick(now, g.seen)
	m, p := g.members[at], a.pass
	p.guard, p.mark = nil, breaker.Mark{}
	for i := range a.been {
		if b := &a.been[i]; b.at == m {
			p.guard, p.mark = b.guard, b.mark
		}
	}
	m.gate.take(now, p)
	g.quota.take(now, a.try)
	g.busy++
	p.at, p.spec, p.line, p.taken, p.open = m, m.spec, m.line, now, true
	p.line.use()
	return reply{answer: goes}
}

// end gives back what try took and tells the gate how the send went; f is nil for
// a success. hold is how long the endpoint asked to be left alone, zero for not at
// all. Ending twice does nothing. It returns the connector that is to be closed
// now; nil for none.
func (g *group) end(now time.Time, p *pass, f *failure.Error, hold time.Duration) (closes *line) {
	if !p.open {
		return nil
	}
	p.open = false
	g.busy--
	p.at.gate.end(now, p, f, hold)
	if p.line.giveBack() {
		closes = p.line
	}
	p.line = nil
	return closes
}

// observe takes how long an answer took, or did not come.
func (g *group) observe(now time.Time, m *member, took time.Duration) {
	if len(g.members) > 1 {
		g.picker.Observe(now, m.name, took)
	}
	if g.answers != nil {
		g.answers.Observe(now, took)
	}
}

// moved is a breaker's change of state, with the member that it guards.
type moved struct {
	member string
	breaker.Move
}

// trying reports whether what goes through now is a trial: no breaker is closed,
// and one is half-open.
func (g *group) trying(now time.Time) (some bool) {
	for _, m := range g.members {
		if m.gate.trying(now) {
			some = true
		} else if m.gate.breaker == nil || m.gate.breaker.State(now) == breaker.Closed {
			return false
		}
	}
	return some
}

// settle appends what moved in the breakers since the last call, and starts the
// ramps of those that closed.
func (g *group) settle(moves []moved) []moved {
	for _, m := range g.members {
		for _, move := range m.gate.settle() {
			moves = append(moves, moved{m.name, move})
		}
	}
	return moves
}

// next is the earliest moment at which the group may say something else by
// itself: what changes at a gate, or the next token of the rate limit. Zero for
// never.
func (g *group) next(now time.Time) time.Time {
	at := g.quota.wait(now, 0)
	for _, m := range g.members {
		if t := m.gate.next(now); !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// configure puts a spec in force. What is known of endpoints that stay lives on,
// by name. It returns the connectors that no send will use any more and that are
// to be closed now.
func (g *group) configure(now time.Time, spec *Spec, endpoints []Endpoint) (closes []*line) {
	old := g.members
	g.members = make([]*member, len(endpoints))
	g.seen = make([]balance.Obstacle, len(endpoints))
	g.workers = spec.Workers
	share := balance.Share(spec.Workers, len(endpoints))
	picked := make([]balance.Member, len(endpoints))
	for i := range endpoints {
		e := &endpoints[i]
		m := &member{name: e.EndpointName}
		if at := slices.IndexFunc(old, func(o *member) bool { return o.name == e.EndpointName }); at >= 0 {
			m = old[at]
		}
		m.index, m.spec = i, e
		m.gate.limit, m.gate.slow = share, e.Timeout/2
		m.gate.ramp.SetCeiling(share)
		m.gate.setBreaker(now, e.Breaker)
		var gone *line
		if m.line, gone = m.line.replaced(e.Connector); gone != nil {
			closes = append(closes, gone)
		}
		g.members[i], picked[i] = m, balance.Member{Name: e.EndpointName, Weight: 1}
		if spec.Group != nil {
			picked[i].Weight = spec.Group.Members[i].Weight
		}
	}
	for _, m := range old {
		if !slices.Contains(g.members, m) {
			m.index = -1
			if m.line.retire() {
				closes = append(closes, m.line)
			}
		}
	}
	g.strategy(now, spec, picked)
	g.quota.configured = spec.RateLimit
	g.quota.setRate(now)
	g.quota.setBudget(now, spec.RetryBudget)
	return closes
}

// strategy puts in force how members are picked and when hedges are sent.
func (g *group) strategy(now time.Time, spec *Spec, members []balance.Member) {
	how := balance.Failover
	if spec.Group != nil {
		how = spec.Group.Strategy
	}
	if g.picker == nil {
		g.picker = balance.New(how, members, now)
	} else {
		g.picker.Configure(now, how, members)
	}
	switch byAnswers := spec.Hedge != nil && spec.Hedge.After == 0; {
	case !byAnswers:
		g.answers = nil
	case g.answers == nil:
		g.answers = balance.NewPercentile(now)
	}
}

// named returns the member of the name.
func (g *group) named(name string) (*member, bool) {
	for _, m := range g.members {
		if m.name == name {
			return m, true
		}
	}
	return nil, false
}
