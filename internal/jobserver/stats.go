package jobserver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
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

// Buckets are the upper bounds of the histograms, in seconds, the last one but
// infinity: from a millisecond, which a claim that waited takes, to a day.
func Buckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400}
}

const buckets = 16

// Histogram counts lengths of time.
type Histogram struct {
	// Counts are how many were at most as long as each of Buckets, and in the end
	// all: each includes those before it.
	Counts [buckets + 1]int64
	// Sum is of all lengths, in seconds.
	Sum float64
}

// histogram counts lengths of time. Safe for concurrent use.
type histogram struct {
	counts [buckets + 1]atomic.Int64
	nanos  atomic.Int64 // 292 years in all
}

var bucketBounds = func() (bounds [buckets]time.Duration) {
	for i, b := range Buckets() {
		bounds[i] = time.Duration(b * float64(time.Second))
	}
	return bounds
}()

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	at := 0
	for at < buckets && d > bucketBounds[at] {
		at++
	}
	h.counts[at].Add(1)
	h.nanos.Add(int64(d))
}

func (h *histogram) read() (r Histogram) {
	sum := int64(0)
	for i := range h.counts {
		sum += h.counts[i].Load()
		r.Counts[i] = sum
	}
	r.Sum = time.Duration(h.nanos.Load()).Seconds()
	return r
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
