package balance

import (
	"slices"
	"time"
)

// Strategy is how a group picks among its members.
type Strategy string

// The strategies. All pick among the members that nothing bars.
const (
	// Failover: the first in the listed order.
	Failover Strategy = "failover"
	// RoundRobin: each in turn, the one whose turn was the longest ago. A
	// member that is new or back has one turn at once and no more to catch up.
	RoundRobin Strategy = "round_robin"
	// Weighted: each as often as its weight says, spread evenly: of weights 5,
	// 1 and 1 it is a a b a c a a.
	Weighted Strategy = "weighted"
	// LeastLatency: the one whose answers came fastest lately. One of which
	// nothing is known goes first, with a single send: until that has brought
	// a sample, or for Memory, it goes last.
	LeastLatency Strategy = "least_latency"
)

// Valid reports whether the word is one of the strategies.
func (s Strategy) Valid() bool {
	switch s {
	case Failover, RoundRobin, Weighted, LeastLatency:
		return true
	}
	return false
}

// MaxWeight is the highest weight. A thousandth is a canary's share; less than
// that is better not sent at all.
const MaxWeight = 1000

// Member is one of a group.
type Member struct {
	// Name is unique in the group.
	Name string
	// Weight is 1 to MaxWeight, for Weighted alone.
	Weight int
}

// Picker picks the members of one group. It decides by what it is told alone, so
// the same history gives the same picks. Nothing but New and Configure
// allocates. It costs by the number of members, which a group has few of.
type Picker struct {
	strategy Strategy
	now      time.Time // the latest time it was told
	members  []member
	picks    uint64 // so far
}

// member is what is known of a member.
type member struct {
	Member
	turn    uint64    // the pick that was its last; 0 is none
	credit  int       // of Weighted: what it is behind its share, in sums of weights
	latency average   // how long its answers took
	asked   time.Time // when LeastLatency last sent to it to find out
}

// New returns a picker of a group at now. A strategy that is none is taken as
// Failover, weights out of their bounds as the nearest bound.
func New(s Strategy, members []Member, now time.Time) *Picker {
	p := &Picker{now: now}
	p.Configure(now, s, members)
	return p
}

// Configure changes strategy and members, over a reload say. What is known of
// those that stay lives on, by name; the cycle of weights begins anew unless
// names and weights are as before.
func (p *Picker) Configure(now time.Time, s Strategy, members []Member) {
	p.tell(now)
	p.strategy = s
	old := p.members
	p.members = make([]member, len(members))
	for i, m := range members {
		m.Weight = min(max(m.Weight, 1), MaxWeight)
		if at := slices.IndexFunc(old, func(o member) bool { return o.Name == m.Name }); at >= 0 {
			p.members[i] = old[at]
		}
		p.members[i].Member = m
	}
	if slices.EqualFunc(p.members, old, func(a, b member) bool { return a.Member == b.Member }) {
		return
	}
	for i := range p.members {
		p.members[i].credit = 0
	}
}

// tell moves the picker's time forward.
func (p *Picker) tell(now time.Time) {
	if now.After(p.now) {
		p.now = now
	}
}

// Look says which member Pick would pick, and changes nothing. obstacles are
// those of the members in the order of Configure, one for each: another number is
// a programming error and panics. The member is an index, −1 unless the answer
// is Goes.
func (p *Picker) Look(now time.Time, obstacles []Obstacle) (member int, a Answer) {
	p.tell(now)
	at, _, a := p.choose(obstacles)
	return at, a
}

// Pick picks the member that a send goes to now: the next in turn that nothing
// bars. It is for a send that then goes: one that may yet be refused by anything
// but the obstacles should Look first.
func (p *Picker) Pick(now time.Time, obstacles []Obstacle) (member int, a Answer) {
	p.tell(now)
	at, bars, a := p.choose(obstacles)
	if a != Goes {
		return at, a
	}
	if p.strategy == Weighted {
		p.charge(at, bars, obstacles)
	}
	m := &p.members[at]
	p.picks++
	m.turn = p.picks
	if p.strategy == LeastLatency && p.rank(m) == unknown {
		m.asked = p.now
	}
	return at, a
}

// choose finds the member to go to, and what bars the others.
func (p *Picker) choose(obstacles []Obstacle) (best int, bars Obstacle, a Answer) {
	if len(obstacles) != len(p.members) {
		panic("balance: as many obstacles as members are needed")
	}
	bars, a = judge(obstacles)
	best = -1
	for i, o := range obstacles {
		if o&bars == 0 && (best < 0 || p.before(&p.members[i], &p.members[best])) {
			best, a = i, Goes
		}
	}
	return best, bars, a
}

// before reports whether a goes before b, which is listed before it.
func (p *Picker) before(a, b *member) bool {
	switch p.strategy {
	case RoundRobin:
		return a.turn < b.turn
	case Weighted:
		return a.credit+a.Weight > b.credit+b.Weight
	case LeastLatency:
		switch ra, rb := p.rank(a), p.rank(b); {
		case ra != rb:
			return ra < rb
		case ra == measured && a.latency.mean != b.latency.mean:
			return a.latency.mean < b.latency.mean
		}
		return a.turn < b.turn
	case Failover:
	}
	return false
}

// charge moves the cycle of weights on: who could have been picked is a weight
// further behind, and the picked one is all their weights ahead. What is barred
// stands still, so it has nothing to catch up when it is back.
func (p *Picker) charge(picked int, bars Obstacle, obstacles []Obstacle) {
	sum := 0
	for i, o := range obstacles {
		if o&bars == 0 {
			p.members[i].credit += p.members[i].Weight
			sum += p.members[i].Weight
		}
	}
	p.members[picked].credit -= sum
}

// The order of LeastLatency.
type rank uint8

const (
	unknown  rank = iota // goes first: somebody has to find out
	measured             // by the average
	awaited              // one send is finding out
)

func (p *Picker) rank(m *member) rank {
	switch {
	case m.latency.known(p.now):
		return measured
	case !m.asked.IsZero() && p.now.Sub(m.asked) < Memory:
		return awaited
	}
	return unknown
}

// Observe adds a sample of how long a member took to answer; of an attempt that
// a hedge overtook, how long it had gone without an answer by then. What fails
// fast is not fast: of a failed attempt only a timeout is a sample. A name that
// the group does not have (any more) is passed over.
func (p *Picker) Observe(now time.Time, name string, latency time.Duration) {
	p.tell(now)
	for i := range p.members {
		if m := &p.members[i]; m.Name == name {
			m.latency.add(p.now, latency)
			return
		}
	}
}

// Latency returns the average that LeastLatency goes by, false where nothing is
// known of the member.
func (p *Picker) Latency(now time.Time, name string) (time.Duration, bool) {
	p.tell(now)
	for i := range p.members {
		if m := &p.members[i]; m.Name == name && m.latency.known(p.now) {
			return time.Duration(m.latency.mean), true
		}
	}
	return 0, false
}
