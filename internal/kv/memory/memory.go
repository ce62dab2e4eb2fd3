// Package memory is a kv.Store within one process, for a relay without
// replicas and for tests. It is empty after a restart.
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
)

// Options bound a Store.
type Options struct {
	// Max bounds the leases, the settled marks and the slots of counters, each by
	// itself. Where it is reached, the settled mark or the slot goes that ends
	// first; a lease is never taken from its owner, so a new one is then refused
	// as Unavailable. Zero is 131,072, as many as the relay itself remembers:
	// at 250 bytes each, 600 with the longest keys and owners, 32 MiB of each
	// kind, 75 at most.
	Max int
}

const (
	defaultMax = 1 << 17
	// sweepMost bounds what one operation clears away of what is over, so that
	// none is held up by a great many that end together. It is more than one, so
	// that they still go faster than they come.
	sweepMost = 16
)

// Store is a kv.Store. Safe for concurrent use.
type Store struct {
	max int

	mu       sync.Mutex
	closed   bool
	marks    map[string]*entry
	counters map[place]*entry
	// What there is, by when it ends. A mark is in the first or the second.
	leases, settled, slots queue
}

// place is where a slot is.
type place struct {
	series string
	number int64
}

// entry is a mark or a slot.
type entry struct {
	until time.Time
	index int // in its queue

	key   string
	owner string
	since time.Time // when it was settled; zero for a lease

	place  place
	counts *[kv.MaxCounts]int64 // nil for a mark
}

// New returns an empty store.
func New(o Options) *Store {
	if o.Max <= 0 {
		o.Max = defaultMax
	}
	return &Store{max: o.Max, marks: map[string]*entry{}, counters: map[place]*entry{}}
}

// begin takes the lock, which the caller gives back where there is no error.
func (s *Store) begin(ctx context.Context, op kv.Op) (now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return now, &kv.Unavailable{Op: op, Outcome: kv.NotDone, Cause: err}
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return now, &kv.Unavailable{Op: op, Outcome: kv.NotDone, Cause: kv.ErrClosed}
	}
	now = time.Now()
	for range sweepMost {
		if !s.sweep(now) {
			break
		}
	}
	return now, nil
}

// sweep clears one of each kind away that is over, and reports whether there was
// any.
func (s *Store) sweep(now time.Time) (more bool) {
	for _, q := range []*queue{&s.leases, &s.settled, &s.slots} {
		if e := q.first(); e != nil && !now.Before(e.until) {
			s.drop(e)
			more = true
		}
	}
	return more
}

func (s *Store) drop(e *entry) {
	switch {
	case e.key == "":
		s.slots.remove(e)
		delete(s.counters, e.place)
	case e.since.IsZero():
		s.leases.remove(e)
		delete(s.marks, e.key)
	default:
		s.settled.remove(e)
		delete(s.marks, e.key)
	}
}

// mark returns the mark of a key, or nil.
func (s *Store) mark(key string, now time.Time) *entry {
	e := s.marks[key]
	if e != nil && !now.Before(e.until) {
		s.drop(e)
		return nil
	}
	return e
}

// Mark is kv.Marks.
func (s *Store) Mark(ctx context.Context, key, owner string, lease time.Duration) (kv.State, error) {
	if err := kv.CheckMark(key, owner, lease); err != nil {
		return kv.State{}, err
	}
	now, err := s.begin(ctx, kv.OpMark)
	if err != nil {
		return kv.State{}, err
	}
	defer s.mu.Unlock()
	lease, key = whole(lease), kv.Short(key)
	e := s.mark(key, now)
	switch {
	case e == nil:
		if len(s.leases) >= s.max {
			return kv.State{}, &kv.Unavailable{Op: kv.OpMark, Outcome: kv.NotDone, Cause: kv.ErrFull}
		}
		e = &entry{key: key, owner: owner, until: now.Add(lease)}
		s.marks[key] = e
		s.leases.add(e)
	case !e.since.IsZero():
		return kv.State{Found: kv.Done, Left: e.until.Sub(now), Age: now.Sub(e.since)}, nil
	case e.owner != owner:
		return kv.State{Found: kv.Taken, Left: e.until.Sub(now)}, nil
	default:
		s.leases.move(e, now.Add(lease))
	}
	return kv.State{Found: kv.Mine, Left: lease}, nil
}

// Keep is kv.Marks.
func (s *Store) Keep(ctx context.Context, key, owner string, lease time.Duration) error {
	if err := kv.CheckMark(key, owner, lease); err != nil {
		return err
	}
	now, err := s.begin(ctx, kv.OpKeep)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	e := s.mark(kv.Short(key), now)
	if e == nil || e.owner != owner || !e.since.IsZero() {
		return kv.ErrLost
	}
	s.leases.move(e, now.Add(whole(lease)))
	return nil
}

// Settle is kv.Marks.
func (s *Store) Settle(ctx context.Context, key, owner string, ttl time.Duration) error {
	if err := kv.CheckMark(key, owner, ttl); err != nil {
		return err
	}
	now, err := s.begin(ctx, kv.OpSettle)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	key = kv.Short(key)
	if e := s.mark(key, now); e != nil {
		if e.owner != owner {
			return kv.ErrLost
		}
		if !e.since.IsZero() {
			return nil
		}
		s.drop(e)
	}
	if len(s.settled) >= s.max {
		s.drop(s.settled.first())
	}
	e := &entry{key: key, owner: owner, since: now, until: now.Add(whole(ttl))}
	s.marks[key] = e
	s.settled.add(e)
	return nil
}

// Forget is kv.Marks.
func (s *Store) Forget(ctx context.Context, key, owner string) error {
	if err := kv.CheckOwner(key, owner); err != nil {
		return err
	}
	now, err := s.begin(ctx, kv.OpForget)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if e := s.mark(kv.Short(key), now); e != nil && e.owner == owner && e.since.IsZero() {
		s.drop(e)
	}
	return nil
}

// Add is kv.Counters.
func (s *Store) Add(ctx context.Context, series string, slots []kv.Slot, ttl time.Duration) ([]kv.Slot, error) {
	if err := kv.CheckAdd(series, slots, ttl); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, kv.OpAdd)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	series = kv.Short(series)
	totals := make([]kv.Slot, len(slots))
	for i, slot := range slots {
		totals[i] = kv.Slot{Number: slot.Number, Counts: s.add(place{series, slot.Number}, slot.Counts, now, ttl)}
	}
	return totals, nil
}

// add adds to one slot and returns its totals.
func (s *Store) add(at place, counts []int64, now time.Time, ttl time.Duration) []int64 {
	totals := make([]int64, len(counts))
	e := s.counters[at]
	if e != nil && !now.Before(e.until) {
		s.drop(e)
		e = nil
	}
	changed := false
	for _, n := range counts {
		changed = changed || n > 0
	}
	switch {
	case e == nil && !changed:
		return totals
	case e == nil:
		if len(s.slots) >= s.max {
			s.drop(s.slots.first())
		}
		e = &entry{place: at, until: now.Add(whole(ttl)), counts: new([kv.MaxCounts]int64)}
		s.counters[at] = e
		s.slots.add(e)
	case changed:
		s.slots.move(e, now.Add(whole(ttl)))
	}
	for i, n := range counts {
		e.counts[i] = min(e.counts[i]+n, kv.MaxTotal)
		totals[i] = e.counts[i]
	}
	return totals
}

// Ping is kv.Store.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.begin(ctx, kv.OpPing)
	if err == nil {
		s.mu.Unlock()
	}
	return err
}

// Len returns how many marks and slots are kept, those that are over and not yet
// cleared away included.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.marks) + len(s.counters)
}

// Close is kv.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.marks, s.counters, s.leases, s.settled, s.slots = nil, nil, nil, nil, nil
	return nil
}

// whole rounds up to a millisecond, as every store does.
func whole(d time.Duration) time.Duration { return time.Duration(kv.Millis(d)) * time.Millisecond }
