package deliver

import (
	"fmt"
	"reflect"
	"time"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// The crowd is a group of two members with messages that come to it.
const (
	crowdMembers  = 2
	crowdMessages = 2
	crowdWorkers  = 3 // a share of two, and three together
	crowdRounds   = 2
)

// move is one thing that can happen to a crowd.
type move struct {
	what    byte // one of the letters of moves
	message int
	member  int
}

func (m move) String() string { return fmt.Sprintf("%c%d%d", m.what, m.message, m.member) }

// moves lists all of them. Of messages: asks, hedges, next round; of a message at
// a member: success, failure, permanent, throttled, cancelled; of a member: health
// turns, paused or resumed; and time that passes, and a reload that takes the
// second member away or brings it back.
func moves() (all []move) {
	for m := range crowdMessages {
		all = append(all, move{'a', m, 0}, move{'h', m, 0}, move{'r', m, 0})
		for at := range crowdMembers {
			for _, what := range "sfptc" {
				all = append(all, move{byte(what), m, at})
			}
		}
	}
	for at := range crowdMembers {
		all = append(all, move{'u', 0, at}, move{'z', 0, at})
	}
	return append(all, move{'1', 0, 0}, move{'4', 0, 0}, move{'l', 0, 0})
}

type crowd struct {
	group    group
	now      time.Time
	how      balance.Strategy
	settings *breaker.Settings
	members  [crowdMembers]*member // the latest of each name
	sick     [crowdMembers]bool
	paused   [crowdMembers]bool
	held     [crowdMembers]time.Time
	lonely   bool // the second member is away
	asks     [crowdMessages]ask
	flights  [crowdMessages][crowdMembers]flight
	rounds   [crowdMessages]int
	tried    [crowdMessages][crowdMembers]bool
	out      [crowdMessages][crowdMembers]bool
	tries    [crowdMessages][crowdMembers]int
}

// flight is an attempt in flight; at is nil for none.
type flight struct {
	at   *member
	pass *pass
	era  uint64 // of the breaker, when it began
	ramp uint64
}

func newCrowd(how balance.Strategy, s *breaker.Settings) *crowd {
	c := &crowd{now: dawn, how: how, settings: s}
	c.configure()
	for i := range c.rounds {
		c.rounds[i] = 1
	}
	return c
}

func (c *crowd) configure() {
	var endpoints []Endpoint
	g := &Group{Strategy: c.how}
	for i, name := range []string{"a", "b"} {
		if i == 1 && c.lonely {
			break
		}
		e := Endpoint{EndpointName: name, Timeout: 2 * slowAfter, Breaker: c.settings}
		endpoints = append(endpoints, e)
		g.Members = append(g.Members, Member{e, 1})
	}
	c.group.configure(c.now, &Spec{Workers: crowdWorkers, Group: g}, endpoints)
	for i, m := range c.group.members {
		if c.members[i] != m {
			c.members[i], c.sick[i], c.paused[i], c.held[i] = m, false, false, time.Time{}
		}
	}
}

func (c *crowd) here(i int) bool { return i == 0 || !c.lonely }

func (c *crowd) flying(m int) (n int) {
	for _, f := range c.flights[m] {
		if f.at != nil {
			n++
		}
	}
	return n
}

func (c *crowd) possible(m move) bool {
	switch m.what {
	case 'a':
		return c.flying(m.message) == 0
	case 'h':
		return c.flying(m.message) == 1
	case 'r':
		return c.flying(m.message) == 0 && c.asks[m.message].begun && c.rounds[m.message] < crowdRounds
	case 's', 'f', 'p', 't', 'c':
		return c.flights[m.message][m.member].at != nil
	case 'u', 'z':
		return c.here(m.member)
	}
	return true
}

// state is what the test knows of a member: may it be sent to at all, and by a
// message.
func (c *crowd) state(i int) (s breaker.State, held, full bool) {
	m := c.members[i]
	b := m.gate.breaker.Snapshot(c.now)
	c.group.settle(nil)
	s = b.State
	if s == breaker.HalfOpen && b.Trials >= c.settings.HalfOpenMax {
		s = breaker.Open // as far as anybody who comes now is concerned
	}
	m.gate.endHold(c.now)
	limit, ramping := m.gate.ramp.Limit()
	share := (crowdWorkers + len(c.group.members) - 1) / len(c.group.members)
	full = c.busy(m) >= share || c.busy(nil) >= crowdWorkers || ramping && m.gate.ramp.InFlight() >= limit
	return s, c.paused[i] || c.now.Before(c.held[i]), full
}

// busy counts the attempts in flight at a member, or all for nil.
func (c *crowd) busy(at *member) (n int) {
	for _, of := range c.flights {
		for _, f := range of {
			if f.at != nil && (at == nil || f.at == at) {
				n++
			}
		}
	}
	return n
}

// want says what a message is to be told, in the words of the reference, and to
// which members it may go.
func (c *crowd) want(m int, hedges bool) (want answer, may [crowdMembers]bool) {
	begun := c.asks[m].begun || hedges
	anyWell := false
	var states [crowdMembers]breaker.State
	var held, full [crowdMembers]bool
	for i := range c.group.members {
		states[i], held[i], full[i] = c.state(i)
		if !c.out[m][i] && states[i] != breaker.Open && !held[i] && !c.sick[i] {
			anyWell = true
		}
	}
	left, allOpen, atWork, waitsForHold := false, true, false, false
	for i := range c.group.members {
		if c.out[m][i] {
			continue
		}
		left = true
		allOpen = allOpen && states[i] == breaker.Open
		barred := c.tried[m][i] || hedges && states[i] == breaker.HalfOpen
		available := states[i] != breaker.Open && !held[i] && (!c.sick[i] || !anyWell)
		switch {
		case barred:
		case available && !full[i]:
			may[i] = true
			want = goes
		case available:
			atWork = true
		case states[i] != breaker.Open && held[i]:
			waitsForHold = true
		}
	}
	switch {
	case want == goes:
	case atWork:
		want = busy
	case left && allOpen && !begun:
		want = shut
	case waitsForHold && !begun:
		want = waits
	default:
		want = over
	}
	return want, may
}

func (c *crowd) take(m move) error {
	switch m.what {
	case 'a', 'h':
		return c.ask(m.message, m.what == 'h')
	case 'r':
		c.rounds[m.message]++
		a := &c.asks[m.message]
		for i := range a.been {
			a.been[i].tried = false
		}
		c.tried[m.message] = [crowdMembers]bool{}
		a.begun, a.try = false, repeating
	case 's':
		return c.end(m, nil, 0)
	case 'f', 'p':
		return c.end(m, &failure.Error{Verdict: failure.Sick}, 0)
	case 't':
		return c.end(m, &failure.Error{Verdict: failure.Neutral, Throttled: true}, holdFor)
	case 'c':
		return c.end(m, &failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral}, 0)
	case 'u':
		c.sick[m.member] = !c.sick[m.member]
		h := event.Healthy
		if c.sick[m.member] {
			h = event.Unhealthy
		}
		c.members[m.member].gate.setHealth(c.now, h)
	case 'z':
		c.paused[m.member] = !c.paused[m.member]
		c.members[m.member].gate.paused = c.paused[m.member]
	case '1':
		c.now = c.now.Add(time.Second)
	case '4':
		c.now = c.now.Add(4 * time.Second)
	case 'l':
		c.lonely = !c.lonely
		c.configure()
	}
	c.group.settle(nil)
	return c.check()
}

func (c *crowd) ask(m int, hedges bool) error {
	want, may := c.want(m, hedges)
	a := c.asks[m] // a hedge asks by itself
	if a.pass = new(pass); hedges {
		a.begun, a.try = true, hedging
	}
	c.group.mark(&a)
	got := c.group.try(c.now, &a)
	c.group.settle(nil)
	if got.answer != want {
		return fmt.Errorf("%d is told %d, want %d", m, got.answer, want)
	}
	if got.answer != goes {
		return c.check()
	}
	i := a.pass.at.index
	if i < 0 || !may[i] {
		return fmt.Errorf("%d goes to %s, where it may not", m, a.pass.at.name)
	}
	c.flights[m][i] = flight{a.pass.at, a.pass, generation(a.pass.guard), started(&a.pass.at.gate)}
	c.tried[m][i] = true
	c.tries[m][i]++
	c.asks[m].begun = true
	c.asks[m].visit(a.pass.at).tried = true
	return c.check()
}

// visit finds or makes the entry of a member.
func (a *ask) visit(at *member) *been {
	for i := range a.been {
		if a.been[i].at.name == at.name {
			return &a.been[i]
		}
	}
	a.been = append(a.been, been{at: at})
	return &a.been[len(a.been)-1]
}

func (c *crowd) end(m move, f *failure.Error, hold time.Duration) error {
	fl := &c.flights[m.message][m.member]
	at, p := fl.at, fl.pass
	*fl = flight{}
	c.group.end(c.now, p, f, hold)
	b := c.asks[m.message].visit(at)
	b.guard, b.mark = p.guard, p.mark
	if m.what == 'p' {
		b.out = true
		c.out[m.message][m.member] = true
	}
	if until := c.now.Add(hold); hold > 0 && at == c.members[m.member] && until.After(c.held[m.member]) {
		c.held[m.member] = until
	}
	c.group.settle(nil)
	key := c.key()
	c.group.end(c.now, p, f, hold)
	c.group.settle(nil)
	if c.key() != key {
		return fmt.Errorf("ending %v a second time changed something", m)
	}
	return c.check()
}

func started(g *gate) uint64 { return reflect.ValueOf(g.ramp).FieldByName("start").Uint() }

// check says which invariant does not hold.
func (c *crowd) check() error {
	for i, m := range c.group.members {
		snap := m.gate.breaker.Snapshot(c.now)
		c.group.settle(nil)
		onRamp := 0
		for _, of := range c.flights {
			if f := of[i]; f.at == m && f.ramp == started(&m.gate) {
				onRamp++
			}
		}
		switch {
		case m.gate.busy != c.busy(m):
			return fmt.Errorf("%s: %d busy, %d in flight", m.name, m.gate.busy, c.busy(m))
		case m.gate.ramp.InFlight() != onRamp:
			return fmt.Errorf("%s: %d on the ramp, want %d", m.name, m.gate.ramp.InFlight(), onRamp)
		case snap.Trials > c.settings.HalfOpenMax:
			return fmt.Errorf("%s: %d trials", m.name, snap.Trials)
		}
	}
	if c.group.busy != c.busy(nil) || c.group.busy > crowdWorkers {
		return fmt.Errorf("%d busy of %d, %d in flight", c.group.busy, crowdWorkers, c.busy(nil))
	}
	for m, tries := range c.tries {
		for i, n := range tries {
			if n > crowdRounds {
				return fmt.Errorf("%d was at %d %d times", m, i, n)
			}
		}
	}
	return nil
}

// escapes ends everything, makes everybody well and lets time pass: then a new
// message must go, and nothing is held.
func (c *crowd) escapes() error {
	for m := range c.flights {
		for i := range c.flights[m] {
			if c.flights[m][i].at != nil {
				if err := c.end(move{'c', m, i}, &failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral}, 0); err != nil {
					return err
				}
			}
		}
	}
	for i := range c.group.members {
		c.paused[i], c.members[i].gate.paused = false, false
	}
	c.now = c.now.Add(c.settings.MaxOpenFor + holdFor)
	a := ask{pass: new(pass)}
	if got := c.group.try(c.now, &a); got.answer != goes {
		return fmt.Errorf("a trap: with nothing in flight and all time passed a new message is told %d", got.answer)
	}
	c.group.end(c.now, a.pass, nil, 0)
	if c.group.busy != 0 {
		return fmt.Errorf("%d are busy at the end", c.group.busy)
	}
	return nil
}
