package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/deliver"
)

// GroupPlan makes a destination a group.
type GroupPlan struct {
	Strategy balance.Strategy
	Members  []MemberPlan
	Health   *deliver.HealthCheck
	Hedge    *deliver.Hedge
	// Turns are what the reloads put in force, in turn; none for no change.
	Turns []Turn
	// Shrinks: each reload takes the last member away, or brings it back.
	Shrinks bool
}

// MemberPlan is a member and the endpoint behind it.
type MemberPlan struct {
	Name   string
	Weight int
	Spells []Spell
	Checks Checks
}

// Checks is what an endpoint answers to health checks.
type Checks uint8

// What an endpoint may answer.
const (
	Truly Checks = iota // it fails them while it is not well
	Always
	Never
)

func (c Checks) String() string { return [...]string{"truly", "always", "never"}[c] }

// String tells the group for people.
func (g *GroupPlan) String() string {
	text := fmt.Sprintf("a group by %s", g.Strategy)
	if g.Health != nil {
		text += fmt.Sprintf(", asked every %v within %v, down after %d, up after %d", g.Health.Interval, g.Health.Timeout, g.Health.UnhealthyAfter, g.Health.HealthyAfter)
	}
	if g.Hedge != nil {
		text += fmt.Sprintf(", %d hedges after %v", g.Hedge.Max, g.Hedge.After)
	}
	if g.Shrinks {
		text += ", its last member comes and goes with reloads"
	}
	if len(g.Turns) > 0 {
		text += fmt.Sprintf(", after reloads %v", g.Turns)
	}
	for _, m := range g.Members {
		text += fmt.Sprintf("\n    %s: weight %d, passes checks %v, %v", m.Name, m.Weight, m.Checks, m.Spells)
	}
	return text
}

// drawGroups makes groups of some destinations, and has some plans drop what was
// seen. It has numbers of its own, as drawLimits has.
func (p *Plan) drawGroups() {
	r := rand.New(rand.NewPCG(p.Seed, 0xa0761d6478bd642f))
	for i := range p.Destinations {
		if chance(r, 0.5) {
			p.Destinations[i].Group = drawGroup(r, p.Destinations[i])
		}
	}
	for i := range p.Levers {
		l := &p.Levers[i]
		if g := p.Destinations[l.Destination].Group; g != nil && chance(r, 0.5) {
			l.Member = r.IntN(len(g.Members))
		}
	}
	p.Dedupe = chance(r, 0.4)
	for i := range p.Destinations {
		p.Destinations[i].Jitter = []backoff.Jitter{backoff.Full, backoff.Equal, backoff.None}[r.IntN(3)]
	}
}

var strategies = []balance.Strategy{balance.Failover, balance.RoundRobin, balance.Weighted, balance.LeastLatency}

func drawGroup(r *rand.Rand, d DestinationPlan) *GroupPlan {
	g := &GroupPlan{Strategy: strategies[r.IntN(len(strategies))], Shrinks: chance(r, 0.3)}
	n := 2 + r.IntN(3)
	if chance(r, 0.1) {
		n, g.Shrinks = 1, false
	}
	for i := range n {
		g.Members = append(g.Members, MemberPlan{
			Name: fmt.Sprintf("%s-%c", d.Name, 'a'+i), Weight: 1 + r.IntN(4), Spells: drawSpells(r), Checks: Checks(max(r.IntN(6)-3, 0)),
		})
	}
	if chance(r, 0.6) {
		g.Health = &deliver.HealthCheck{
			Interval: between(r, 100*time.Millisecond, 2*time.Second), UnhealthyAfter: 1 + r.IntN(3), HealthyAfter: 1 + r.IntN(2),
		}
		g.Health.Timeout = min(g.Health.Interval, 500*time.Millisecond)
	}
	if n > 1 && chance(r, 0.9) {
		g.Hedge = &deliver.Hedge{Max: 1 + r.IntN(n-1)*r.IntN(2)}
		if chance(r, 0.8) {
			g.Hedge.After = between(r, 3*time.Millisecond, 100*time.Millisecond)
		}
	}
	return g
}

// endpoints are the names of a destination's endpoints with their spells.
func (d DestinationPlan) endpoints() (all []MemberPlan) {
	if d.Group == nil {
		return []MemberPlan{{Name: d.Name, Weight: 1, Spells: d.Spells}}
	}
	return d.Group.Members
}

// most is how often an endpoint, and the destination as a whole, may be sent one
// message: hedges are among the tries of a round.
func (d DestinationPlan) most() (each, all int) {
	each = d.Attempts
	if d.Batch != nil {
		each++ // alone, where its batch was refused as a whole
	}
	return each, each * len(d.endpoints())
}

// share is how many of the workers one endpoint may hold.
func (d DestinationPlan) share() int {
	n := len(d.endpoints())
	if d.Group != nil && d.Group.Shrinks {
		n--
	}
	return balance.Share(d.Workers, n)
}
