package deliver

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
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
		s.HasBreaker, s.Breaker = true, breakerState(snap.State)
		if snap.State == breaker.Open {
			s.OpenUntil = snap.OpenUntil
		}
	}
	return g.settle()
}

// Pause stops sends to the destination; its messages wait in their lane. It
// returns false where no such destination is known.
func (f *Fleet) Pause(name string) bool { return f.setPaused(name, true) }

// Resume lets a paused destination go on.
func (f *Fleet) Resume(name string) bool { return f.setPaused(name, false) }

func (f *Fleet) setPaused(name string, paused bool) bool {
	f.mu.Lock()
	l, ok := f.lanes[name]
	f.mu.Unlock()
	if ok {
		l.post.change(func(g *gate, _ time.Time) { g.paused = paused })
	}
	return ok
}

// RetryAfter estimates when a full lane may have room again: the end of a hold
// or of an open breaker, a second where nothing is known.
func (d *Destination) RetryAfter(now time.Time) time.Duration {
	s := d.lane.status(now)
	until := now.Add(time.Second)
	for _, t := range []time.Time{s.HeldUntil, s.OpenUntil} {
		if t.After(until) {
			until = t
		}
	}
	return until.Sub(now)
}
