package deliver

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/limit"
)

// LaneStatus is how one destination stands now.
type LaneStatus struct {
	Destination string
	// Pending of MaxPending places are taken; Busy of Workers attempts are in
	// flight; Waiting messages stand at the gates.
	Pending, MaxPending    int
	Busy, Workers, Waiting int
	// HasBreaker is false where no endpoint has one. Breaker is that of a plain
	// destination; a group is open only where all are, and half-open where none is
	// closed.
	HasBreaker bool
	Breaker    event.BreakerState
	// OpenUntil is when an open breaker gives trials at the earliest.
	OpenUntil time.Time
	// HeldUntil is how long the endpoint asked to be left alone, of a group the
	// first of its members where all are held; zero for not.
	HeldUntil time.Time
	// Ramp is how many may be in flight while traffic comes back; zero when
	// no ramp is on, and for a group.
	Ramp int
	// Paused says whether all endpoints are, Forced whether a lever holds all
	// their breakers alike.
	Paused bool
	Forced breaker.Forced
	// Rate is the rate limit in force, nil for none; ByLever says that a lever
	// put it there. NextToken is when it lets the next attempt begin; zero for
	// now.
	Rate      *limit.Rate
	ByLever   bool
	NextToken time.Time
	// Retries is how many the retry budget allows now; nil without one.
	Retries *int
	// Endpoints are the members in their order; a plain destination has one, of
	// its own name.
	Endpoints []EndpointStatus
}

// EndpointStatus is how one endpoint stands now. What is not said here is as in
// LaneStatus.
type EndpointStatus struct {
	Name string
	// Busy of Limit attempts are in flight: its share of the workers.
	Busy, Limit int
	HasBreaker  bool
	Breaker     event.BreakerState
	OpenUntil   time.Time
	HeldUntil   time.Time
	Ramp        int
	Paused      bool
	Forced      breaker.Forced
	// Health is zero where nothing has been checked.
	Health event.Health
	// Latency is the average that the strategy least_latency goes by; zero where
	// nothing is known, and for a plain destination.
	Latency time.Duration
}

// Status returns how every lane stands, by name.
func (f *Fleet) Status() []LaneStatus {
	f.mu.Lock()
	lanes := slices.Collect(maps.Values(f.lanes))
	f.mu.Unlock()
	all := make([]LaneStatus, 0, len(lanes))
	for _, l := range lanes {
		all = append(all, l.status(time.Now()))
	}
	slices.SortFunc(all, func(a, b LaneStatus) int { return strings.Compare(a.Destination, b.Destination) })
	return all
}

func (l *lane) status(now time.Time) LaneStatus {
	s := LaneStatus{
		Destination: l.name,
		Pending:     int(l.places.Held()), MaxPending: int(l.places.Max()),
	}
	p := l.post
	moves := s.look(p, now)
	p.tell(moves)
	return s
}

// look fills in what the gates say, and returns what moved by itself.
func (s *LaneStatus) look(p *post, now time.Time) []moved {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.group
	s.Busy, s.Workers, s.Waiting = g.busy, g.workers, p.queue.waiting
	for _, m := range g.members {
		e := m.gate.status(now)
		e.Name = m.name
		e.Latency, _ = g.picker.Latency(now, m.name)
		s.Endpoints = append(s.Endpoints, e)
	}
	s.sum()
	s.limits(&g.quota, now)
	return g.settle(nil)
}

func (g *gate) status(now time.Time) EndpointStatus {
	s := EndpointStatus{Busy: g.busy, Limit: g.limit, Paused: g.paused, Health: g.health}
	if now.Before(g.heldUntil) {
		s.HeldUntil = g.heldUntil
	}
	s.Ramp, _ = g.ramp.Limit()
	if g.breaker != nil {
		snap := g.breaker.Snapshot(now)
		s.HasBreaker, s.Breaker, s.Forced = true, breakerState(snap.State), snap.Forced
		if snap.State == breaker.Open {
			s.OpenUntil = snap.OpenUntil
		}
	}
	return s
}

// sum makes of the endpoints what holds for the destination as a whole.
func (s *LaneStatus) sum() {
	for i, e := range s.Endpoints {
		if i == 0 {
			s.Paused, s.Forced, s.Breaker, s.HeldUntil = e.Paused, e.Forced, e.Breaker, e.HeldUntil
		}
		s.HasBreaker = s.HasBreaker || e.HasBreaker
		s.Paused = s.Paused && e.Paused
		s.Breaker = min(s.Breaker, e.Breaker)
		if e.Forced != s.Forced {
			s.Forced = breaker.ForceAuto
		}
		if e.HeldUntil.Before(s.HeldUntil) {
			s.HeldUntil = e.HeldUntil
		}
		if !e.OpenUntil.IsZero() {
			s.OpenUntil = earlier(s.OpenUntil, e.OpenUntil)
		}
	}
	if s.Breaker != event.BreakerOpen {
		s.OpenUntil = time.Time{}
	}
	if len(s.Endpoints) == 1 {
		s.Ramp = s.Endpoints[0].Ramp
	}
}

// limits fills in the rate limit and the retry budget.
func (s *LaneStatus) limits(q *quota, now time.Time) {
	s.Rate, s.ByLever, s.NextToken = q.rate(), q.lever != nil, q.wait(now, 0)
	if q.budget != nil {
		s.Retries = new(q.budget.Left(now))
	}
}

// RetryAfter estimates when a full lane may have room again: the end of a hold
// or of an open breaker, the next token of the rate limit, a second where nothing
// is known.
func (d *Destination) RetryAfter(now time.Time) time.Duration {
	s := d.lane.status(now)
	until := now.Add(time.Second)
	for _, t := range []time.Time{s.HeldUntil, s.OpenUntil, s.NextToken} {
		if t.After(until) {
			until = t
		}
	}
	return until.Sub(now)
}
