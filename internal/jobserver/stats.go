package jobserver

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/histogram"
	"github.com/pawlhq/pawl/internal/store"
)

// Stats say how the job server is, as far as a key sees it.
type Stats struct {
	Now time.Time
	// Queues are by name.
	Queues []QueueStats
	Counts Counts // of them all
	// Circuits are those that are not closed, or that an endpoint's wish holds.
	Circuits []store.CircuitState
	// Workers were heard of within the last minute by this process.
	Workers int
	// Since is when the process began to count Totals.
	Since  time.Time
	Totals Totals
	Vitals store.Vitals
}

// QueueStats are one queue's.
type QueueStats struct {
	Name   string
	Counts Counts
	// Oldest is for how long the job that waits longest has been due; 0 for none.
	Oldest time.Duration
	Paused *store.Pause
}

// Stats returns figures of the queues that the key sees, and for a key that is
// not limited to queues those of the process and the store.
func (s *Server) Stats(ctx context.Context, by Principal) (Stats, error) {
	st := Stats{Now: s.store.Now(), Since: s.began}
	queues, _, err := s.QueueStates(ctx, by, Slice{})
	if err != nil {
		return Stats{}, err
	}
	oldest, err := s.OldestDue(ctx)
	if err != nil {
		return Stats{}, err
	}
	for _, q := range queues {
		st.Queues = append(st.Queues, QueueStats{q.Name, q.Counts, oldest[q.Name], q.Paused})
		c := q.Counts
		st.Counts.Queued += c.Queued
		st.Counts.Running += c.Running
		st.Counts.Succeeded += c.Succeeded
		st.Counts.Failed += c.Failed
		st.Counts.Cancelled += c.Cancelled
	}
	if len(by.Queues) > 0 {
		return st, nil
	}
	if st.Circuits, err = s.OpenCircuits(ctx); err != nil {
		return Stats{}, err
	}
	st.Workers, st.Totals, st.Vitals = len(s.Workers(by, maxWorkers)), s.Totals(), s.store.Vitals()
	return st, nil
}

// OpenCircuits returns the circuits that are not closed, and those that an
// endpoint's own wish holds.
func (s *Server) OpenCircuits(ctx context.Context) ([]store.CircuitState, error) {
	all, err := s.store.Circuits(ctx)
	if err != nil {
		return nil, err
	}
	now := s.store.Now()
	var open []store.CircuitState
	for _, c := range all {
		if c.State != circuit.Closed || c.HeldUntil.After(now) {
			open = append(open, c)
		}
	}
	return open, nil
}

// OldestDue returns how long the job that waits longest in each queue has been
// due; queues without one are left out.
func (s *Server) OldestDue(ctx context.Context) (map[string]time.Duration, error) {
	due, err := s.store.OldestDue(ctx)
	if err != nil {
		return nil, err
	}
	now := s.store.Now()
	waits := make(map[string]time.Duration, len(due))
	for q, at := range due {
		if at.Before(now) {
			waits[q] = now.Sub(at)
		}
	}
	return waits, nil
}

// newTimes makes a histogram from a millisecond, which a claim that waited takes,
// to a day.
func newTimes() *histogram.Histogram {
	const ms = time.Millisecond
	return histogram.OfTime(ms, 5*ms, 10*ms, 50*ms, 100*ms, 500*ms, time.Second, 5*time.Second, 10*time.Second, 30*time.Second,
		time.Minute, 5*time.Minute, 15*time.Minute, time.Hour, 4*time.Hour, 24*time.Hour)
}

// maxRunning is how many leases runs remembers.
const maxRunning = 50_000

// runs remembers when leases were given, for how long attempts run. Of those past
// maxRunning some are not counted. Safe for concurrent use.
type runs struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func (r *runs) begin(jobs []store.Claimed, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since == nil {
		r.since = map[string]time.Time{}
	}
	for i := range jobs {
		if len(r.since) >= maxRunning {
			for any := range r.since { // whichever: its worker may be lost
				delete(r.since, any)
				break
			}
		}
		r.since[jobs[i].Lease] = now
	}
}

// end returns for how long a lease was held; ok is false where it is not known.
func (r *runs) end(lease string, now time.Time) (ran time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.since[lease]
	delete(r.since, lease)
	return now.Sub(at), ok
}
