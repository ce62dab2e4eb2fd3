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
	// flight; Waiting messages stand at the gate.
	Pending, MaxPending    int
	Busy, Workers, Waiting int
	// HasBreaker is false where the breaker is off.
	HasBreaker bool
	Breaker    event.BreakerState
	// OpenUntil is when an open breaker gives trials at the earliest.
	OpenUntil time.Time
	// HeldUntil is how long the endpoint asked to be left alone; zero for not.
	HeldUntil time.Time
	// Ramp is how many may be in flight while traffic comes back; zero when
	// no ramp is on.
	Ramp   int
	Paused bool
	// Forced says whether a lever holds the breaker.
	Forced breaker.Forced
	// Rate is the rate limit in force, nil for none; ByLever says that a lever
	// put it there. NextToken is when it lets the next attempt begin; zero for
	// now.
	Rate      *limit.Rate
	ByLever   bool
	NextToken time.Time
	// Retries is how many the retry budget allows now; nil without one.
	Retries *int
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

// look fills in what the gate says, and returns what moved by itself.
func (s *LaneStatus) look(p *post, now time.Time) []breaker.Move {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.gate
	s.Busy, s.Workers, s.Waiting, s.Paused = g.busy, g.workers, p.waiting, g.paused
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
	s.limits(g, now)
	return g.settle()
}

// limits fills in the rate limit and the retry budget.
func (s *LaneStatus) limits(g *gate, now time.Time) {
	s.Rate, s.ByLever = g.quota.rate(), g.quota.lever != nil
	if g.quota.bucket != nil {
		if t := g.quota.bucket.Look(now); t.After(now) {
			s.NextToken = t
		}
	}
	if g.quota.budget != nil {
		s.Retries = new(g.quota.budget.Left(now))
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
