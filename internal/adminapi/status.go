package adminapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/deliver"
)

// Status is the relay at a glance.
type Status struct {
	Relay        string              `json:"relay"`
	Version      string              `json:"version"`
	PID          int                 `json:"pid"`
	Started      time.Time           `json:"started"`
	Generation   int                 `json:"generation"`
	Draining     int                 `json:"draining,omitzero"` // older configurations that still have messages
	Stopping     bool                `json:"stopping,omitzero"`
	InFlight     int                 `json:"in_flight"`
	Sources      []SourceStatus      `json:"sources"`
	Destinations []DestinationStatus `json:"destinations"`
	DeadLetters  DeadLetterStatus    `json:"dead_letters"`
	// What the job server has; QueueProblem is why it is not known.
	JobsStatus
	QueueProblem string `json:"queue_problem,omitzero"`
}

// MaxCircuits bounds the circuits of a status: an operator reads them.
const MaxCircuits = 100

// JobsStatus is the job server at a glance.
type JobsStatus struct {
	Queues []QueueStatus `json:"queues,omitzero"`
	// Circuits are those that are not closed, or that their endpoint's own wish
	// holds, at most MaxCircuits, by name; CircuitsLeft counts the others.
	Circuits     []CircuitStatus `json:"circuits,omitzero"`
	CircuitsLeft int             `json:"circuits_left,omitzero"`
}

// CircuitStatus is the circuit of one endpoint of jobs.
type CircuitStatus struct {
	Endpoint  string    `json:"endpoint"`
	State     string    `json:"state"` // closed, half_open, open
	OpenedAt  time.Time `json:"opened_at,omitzero"`
	RetryAt   time.Time `json:"retry_at,omitzero"`
	HeldUntil time.Time `json:"held_until,omitzero"`
}

// QueueStatus is one queue at a glance.
type QueueStatus struct {
	Name    string `json:"name"`
	Queued  int64  `json:"queued"`
	Running int64  `json:"running"`
	Failed  int64  `json:"failed"` // dead letters
	Paused  *Pull  `json:"paused,omitzero"`
	// Undefined: neither the configuration nor the API names it any more, so that
	// nobody can work its jobs.
	Undefined bool `json:"undefined,omitzero"`
}

// SourceStatus is one source at a glance.
type SourceStatus struct {
	Name        string `json:"name"`
	InFlight    int64  `json:"in_flight"`
	MaxInFlight int64  `json:"max_in_flight"`
	Bytes       int64  `json:"bytes"`
	Paused      *Pull  `json:"paused,omitzero"`
}

// DestinationStatus is one destination at a glance.
type DestinationStatus struct {
	Name       string     `json:"name"`
	Pending    int        `json:"pending"`
	MaxPending int        `json:"max_pending"`
	Busy       int        `json:"busy"`
	Workers    int        `json:"workers"`
	Waiting    int        `json:"waiting"`
	Breaker    string     `json:"breaker"` // closed, half_open, open, off
	OpenUntil  *time.Time `json:"open_until,omitzero"`
	HeldUntil  *time.Time `json:"held_until,omitzero"`
	Ramp       int        `json:"ramp,omitzero"` // in flight at most while traffic comes back
	Paused     *Pull      `json:"paused,omitzero"`
	// Forced is who holds the breaker as it is.
	Forced *Pull `json:"forced,omitzero"`
	// RateLimit is the one in force, and RateSet who set it at run time.
	RateLimit *RateStatus `json:"rate_limit,omitzero"`
	RateSet   *Pull       `json:"rate_set,omitzero"`
	// RetriesLeft is how many retries the budget allows now.
	RetriesLeft *int `json:"retries_left,omitzero"`
	// Members are those of a group.
	Members []MemberStatus `json:"members,omitzero"`
}

// MemberStatus is one member of a group at a glance.
type MemberStatus struct {
	Name      string     `json:"name"`
	Busy      int        `json:"busy"`
	Limit     int        `json:"limit"`   // its share of the workers
	Breaker   string     `json:"breaker"` // closed, half_open, open, off
	OpenUntil *time.Time `json:"open_until,omitzero"`
	HeldUntil *time.Time `json:"held_until,omitzero"`
	Ramp      int        `json:"ramp,omitzero"`
	Health    string     `json:"health,omitzero"` // healthy, unhealthy; "" where it is not checked
	Paused    *Pull      `json:"paused,omitzero"`
	Forced    *Pull      `json:"forced,omitzero"`
}

// RateStatus is a rate limit.
type RateStatus struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
	// NextAt is when the next attempt may begin, where that is not now.
	NextAt *time.Time `json:"next_at,omitzero"`
}

// DeadLetterStatus counts the open letters.
type DeadLetterStatus struct {
	Open    int        `json:"open"`
	Oldest  *time.Time `json:"oldest,omitzero"`
	Damaged int        `json:"damaged,omitzero"`
	Problem string     `json:"problem,omitzero"` // why the next could not be stored
}

// Status returns how everything stands now.
func (a *API) Status(ctx context.Context) Status {
	o := &a.opts
	rs := o.Relay.Status()
	s := Status{
		Relay: o.RelayName, Version: o.Version, PID: o.PID, Started: o.Started.UTC(),
		Generation: rs.Generation, Draining: rs.Draining, Stopping: rs.Stopping, InFlight: o.Relay.InFlight(),
		Sources: []SourceStatus{}, Destinations: []DestinationStatus{},
	}
	for _, src := range rs.Sources {
		view := SourceStatus{Name: src.Source, InFlight: src.InFlight, MaxInFlight: src.MaxInFlight, Bytes: src.Bytes}
		if src.Paused {
			view.Paused = o.Levers.by(pauseLever, src.Source)
		}
		s.Sources = append(s.Sources, view)
	}
	for _, l := range o.Fleet.Status() {
		view := DestinationStatus{
			Name: l.Destination, Pending: l.Pending, MaxPending: l.MaxPending, Busy: l.Busy, Workers: l.Workers,
			Waiting: l.Waiting, Breaker: "off", OpenUntil: moment(l.OpenUntil), HeldUntil: moment(l.HeldUntil), Ramp: l.Ramp,
		}
		view.RetriesLeft = l.Retries
		if l.HasBreaker {
			view.Breaker = l.Breaker.String()
		}
		if l.Paused {
			view.Paused = o.Levers.by(pauseLever, l.Destination)
		}
		if l.Forced != breaker.ForceAuto {
			view.Forced = o.Levers.by(breakerLever, l.Destination)
		}
		if l.Rate != nil {
			view.RateLimit = &RateStatus{PerSecond: l.Rate.PerSecond, Burst: l.Rate.Burst, NextAt: moment(l.NextToken)}
		}
		if l.ByLever {
			view.RateSet = o.Levers.by(rateLever, l.Destination)
		}
		view.Members = o.members(l)
		s.Destinations = append(s.Destinations, view)
	}
	stats := o.Letters.Stats()
	s.DeadLetters = DeadLetterStatus{Open: stats.Open, Oldest: moment(stats.Oldest), Damaged: stats.Damaged}
	if err := o.Letters.Writable(); err != nil {
		s.DeadLetters.Problem = err.Error()
	}
	if o.Jobs == nil {
		return s
	}
	jobs, err := o.Jobs(ctx)
	if s.JobsStatus = jobs; err != nil {
		s.QueueProblem = err.Error()
	}
	return s
}

// members returns the members of a group's lane; nil for a plain destination.
func (o *Options) members(l deliver.LaneStatus) (all []MemberStatus) {
	if len(l.Endpoints) == 1 && l.Endpoints[0].Name == l.Destination {
		return nil
	}
	for _, e := range l.Endpoints {
		m := MemberStatus{
			Name: e.Name, Busy: e.Busy, Limit: e.Limit, Breaker: "off",
			OpenUntil: moment(e.OpenUntil), HeldUntil: moment(e.HeldUntil), Ramp: e.Ramp,
		}
		if e.HasBreaker {
			m.Breaker = e.Breaker.String()
		}
		if e.Health != 0 {
			m.Health = e.Health.String()
		}
		if e.Paused {
			m.Paused = cmp.Or(o.Levers.by(pauseLever, e.Name), o.Levers.by(pauseLever, l.Destination))
		}
		if e.Forced != breaker.ForceAuto {
			m.Forced = cmp.Or(o.Levers.by(breakerLever, e.Name), o.Levers.by(breakerLever, l.Destination))
		}
		all = append(all, m)
	}
	return all
}

// moment returns a time for a field that is left out when there is none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (a *API) status(w http.ResponseWriter, r *http.Request) { answer(w, a.Status(r.Context())) }
