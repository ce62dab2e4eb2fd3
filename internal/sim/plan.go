package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/deliver"
)

// Plan is everything about a run that a seed decides.
type Plan struct {
	Seed         uint64
	Destinations []DestinationPlan
	Routes       []RoutePlan
	// MaxInFlight and AckTimeout are the source's.
	MaxInFlight int64
	AckTimeout  time.Duration
	// Callers send Messages each, with a pause of up to Pause between them.
	Callers, Messages int
	Pause             time.Duration
	Disk              DiskPlan
	// Levers are pulled while the callers send.
	Levers []Lever
	// Dedupe drops a message whose words were seen, whatever its key.
	Dedupe bool
	// Replicas is for two relays that share a store; nil for one alone.
	Replicas *ReplicasPlan
}

// DestinationPlan is one destination and the endpoint behind it.
type DestinationPlan struct {
	Name               string
	Fallback           []int // higher than its own number, so there is no cycle
	Attempts           int
	Backoff            time.Duration
	Jitter             backoff.Jitter
	Timeout, Deadline  time.Duration
	Workers, Places    int
	Breaker            *breaker.Settings
	FailWhenOpen       bool
	Rate               *limit.Rate
	Budget             *limit.BudgetSettings
	SharedBudget       bool // it is counted in the store
	RespectsRetryAfter bool
	Spells             []Spell // of a plain destination's endpoint
	Group              *GroupPlan
	Batch              *deliver.Batch
}

// Spell is how an endpoint behaves from a moment on.
type Spell struct {
	From time.Duration
	Mood Mood
}

// RoutePlan is a route: it takes every message whose number leaves Rest when
// divided by Modulo.
type RoutePlan struct {
	Name         string
	Modulo, Rest int
	Required     []int
	BestEffort   []int
}

// DiskPlan is what the disk under the dead letters does.
type DiskPlan struct {
	// FullFrom and FullFor are a time without any space; zero for none.
	FullFrom, FullFor time.Duration
	// Errors is the chance of each sync and write to fail.
	Errors float64
}

// Lever is something that is done to pawl at a moment.
type Lever struct {
	At   time.Duration
	What What
	// Destination is which one is paused, Member which of its members; -1 is all.
	Destination, Member int
	// Replica is which relay it is done to.
	Replica int
	// For is how long it stays paused, or how long a stop may take.
	For time.Duration
}

// What is what a lever does.
type What uint8

// The levers.
const (
	Pause    What = iota // a destination, for a while
	Reload               // fresh connections, other weights and strategies
	Restart              // a stop that may take a while, then a start
	PowerCut             // everything at once, then a start
)

func (w What) String() string {
	return [...]string{"pause", "reload", "restart", "power cut"}[w]
}

// length is how long the troubles of a plan last. Afterwards every endpoint is
// well and the disk has space.
const length = 20 * time.Second

// longest is what no timeout exceeds.
const longest = 2 * time.Second

// Draw makes the plan of a seed.
func Draw(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	p := Plan{
		Seed:        seed,
		MaxInFlight: 5 + r.Int64N(60),
		AckTimeout:  between(r, time.Second, 5*time.Second),
		Callers:     2 + r.IntN(14),
		Messages:    4 + r.IntN(20),
		Pause:       between(r, 10*time.Millisecond, 3*time.Second),
	}
	n := 2 + r.IntN(5)
	for i := range n {
		p.Destinations = append(p.Destinations, drawDestination(r, i, n))
	}
	for i := range 1 + r.IntN(3) {
		p.Routes = append(p.Routes, drawRoute(r, i, n))
	}
	switch r.IntN(3) {
	case 0:
		p.Disk.FullFrom, p.Disk.FullFor = between(r, 0, length/2), between(r, time.Second, length/2)
	case 1:
		p.Disk.Errors = 0.4 * r.Float64()
	}
	for range r.IntN(4) {
		p.Levers = append(p.Levers, Lever{
			At: between(r, time.Second, length), What: What(r.IntN(4)), Destination: r.IntN(n), Member: -1, For: between(r, 0, 4*time.Second),
		})
	}
	p.drawLimits()
	p.drawGroups()
	p.drawBatches()
	p.drawReplicas()
	return p
}

// drawLimits gives some destinations a rate limit or a retry budget. It has
// numbers of its own, so that the rest of a seed's plan is what it is without. A
// rate lets at least one message of every caller through each second: one without
// a key that is sent again after a 504 is another one, so below what callers send
// again the lanes would never empty.
func (p *Plan) drawLimits() {
	r := rand.New(rand.NewPCG(p.Seed, 0xd1b54a32d192ed03))
	for i := range p.Destinations {
		d := &p.Destinations[i]
		if chance(r, 0.3) {
			least := float64(p.Callers * len(p.Routes))
			d.Rate = &limit.Rate{PerSecond: least * (1 + 2*r.Float64()), Burst: 1 + r.IntN(10)}
		}
		if chance(r, 0.3) {
			d.Budget = drawBudget(r)
		}
	}
}

func drawBudget(r *rand.Rand) *limit.BudgetSettings {
	return &limit.BudgetSettings{Ratio: r.Float64(), MinPerSecond: r.Float64(), Window: between(r, time.Second, 10*time.Second)}
}

func drawDestination(r *rand.Rand, i, n int) DestinationPlan {
	d := DestinationPlan{
		Name: fmt.Sprintf("d%d", i), Attempts: 1 + r.IntN(5), Backoff: between(r, 10*time.Millisecond, 500*time.Millisecond),
		Timeout: between(r, 200*time.Millisecond, longest), Workers: 1 + r.IntN(8), RespectsRetryAfter: chance(r, 0.8),
	}
	d.Places = d.Workers + r.IntN(30)
	if chance(r, 0.4) {
		d.Deadline = between(r, 500*time.Millisecond, 8*time.Second)
	}
	for to := i + 1; to < n && len(d.Fallback) < 2; to++ {
		if chance(r, 0.4) {
			d.Fallback = append(d.Fallback, to)
		}
	}
	if chance(r, 0.75) {
		d.Breaker = &breaker.Settings{
			FailureRatio: 0.3 + 0.7*r.Float64(), MinRequests: 2 + r.IntN(8), Window: between(r, 2*time.Second, time.Minute),
			OpenFor: between(r, 100*time.Millisecond, 3*time.Second), HalfOpenMax: 1 + r.IntN(3),
		}
		d.Breaker.MaxOpenFor = d.Breaker.OpenFor * time.Duration(1+r.IntN(4))
		d.FailWhenOpen = chance(r, 0.2)
	}
	d.Spells = drawSpells(r)
	return d
}

func drawSpells(r *rand.Rand) (all []Spell) {
	trouble := 0.6
	if chance(r, 0.25) {
		trouble = 0 // what the others do must not be felt here
	}
	for at := time.Duration(0); at < length; at += between(r, time.Second, length/2) {
		mood := Well
		if chance(r, trouble) {
			mood = Mood(r.IntN(int(moods)))
		}
		all = append(all, Spell{at, mood})
	}
	return append(all, Spell{length, Well})
}

// alwaysWell says whether an endpoint has no trouble at all.
func alwaysWell(spells []Spell) bool {
	return !slices.ContainsFunc(spells, func(s Spell) bool { return s.Mood != Well })
}

// pauses says whether a lever pauses the destination, or a member of it.
func (p Plan) pauses(name string) bool {
	return slices.ContainsFunc(p.Levers, func(l Lever) bool {
		return l.What == Pause && p.Destinations[l.Destination].Name == name
	})
}

func drawRoute(r *rand.Rand, i, n int) RoutePlan {
	p := RoutePlan{Name: fmt.Sprintf("r%d", i), Modulo: 1 + r.IntN(3)}
	p.Rest = r.IntN(p.Modulo)
	for _, to := range r.Perm(n)[:1+r.IntN(min(3, n))] {
		if len(p.Required) > 0 && chance(r, 0.3) {
			p.BestEffort = append(p.BestEffort, to)
		} else {
			p.Required = append(p.Required, to)
		}
	}
	return p
}

// takes says whether the route takes the message with the number.
func (p RoutePlan) takes(number int) bool { return number%p.Modulo == p.Rest }

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from))).Round(time.Millisecond)
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// String tells the plan for people.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d callers send %d messages each; max_in_flight %d, ack_timeout %v\n",
		p.Seed, p.Callers, p.Messages, p.MaxInFlight, p.AckTimeout)
	for _, d := range p.Destinations {
		fmt.Fprintf(&b, "  %s: %d attempts, backoff %v (%s), timeout %v, deadline %v, %d workers, %d places, falls back to %v", d.Name,
			d.Attempts, d.Backoff, d.Jitter, d.Timeout, d.Deadline, d.Workers, d.Places, d.Fallback)
		if s := d.Breaker; s != nil {
			fmt.Fprintf(&b, ", opens at %.2f of %d for %v to %v, %d trials, fails when open: %v",
				s.FailureRatio, s.MinRequests, s.OpenFor, s.MaxOpenFor, s.HalfOpenMax, d.FailWhenOpen)
		}
		if d.Rate != nil {
			fmt.Fprintf(&b, ", at most %.2f/s, burst %d", d.Rate.PerSecond, d.Rate.Burst)
		}
		if s := d.Budget; s != nil {
			fmt.Fprintf(&b, ", retries %.2f of firsts and %.2f/s within %v, shared: %v", s.Ratio, s.MinPerSecond, s.Window, d.SharedBudget)
		}
		if s := d.Batch; s != nil {
			fmt.Fprintf(&b, ", batches of %d within %v", s.MaxMessages, s.MaxWait)
		}
		if d.Group != nil {
			fmt.Fprintf(&b, "; %v\n", d.Group)
			continue
		}
		fmt.Fprintf(&b, "; %v\n", d.Spells)
	}
	if p.Replicas != nil {
		fmt.Fprintf(&b, "  two relays share a store: %v\n", p.Replicas.Store)
	}
	if p.Dedupe {
		fmt.Fprintln(&b, "  what was seen is dropped")
	}
	for _, r := range p.Routes {
		fmt.Fprintf(&b, "  %s: every message with n%%%d=%d to %v, best effort to %v\n", r.Name, r.Modulo, r.Rest, r.Required, r.BestEffort)
	}
	fmt.Fprintf(&b, "  disk: %+v\n", p.Disk)
	for _, l := range p.Levers {
		fmt.Fprintf(&b, "  at %v: %v of pawl %d (d%d, member %d, %v)\n", l.At, l.What, l.Replica, l.Destination, l.Member, l.For)
	}
	return b.String()
}
