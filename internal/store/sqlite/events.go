package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlEvent         = "INSERT INTO event(last, at, body) VALUES (?, ?, ?)"
	sqlEvents        = "SELECT body FROM event WHERE last > ? ORDER BY last"
	sqlEventLast     = "SELECT event FROM mark WHERE one=1"
	sqlEventsGone    = "SELECT value FROM meta WHERE name='events_gone'"
	sqlEventsGoneSet = "INSERT INTO meta(name, value) VALUES ('events_gone', ?) ON CONFLICT(name) DO UPDATE SET value=excluded.value"
	sqlEventOldAt    = "SELECT at FROM event ORDER BY last LIMIT 1"
	sqlEventsOldLast = "SELECT coalesce(max(last), 0) FROM (SELECT last, at FROM event ORDER BY last LIMIT +?) WHERE at <= ?"
	sqlEventsOld     = "DELETE FROM event WHERE last <= ?"
	sqlReader        = "SELECT at FROM reader WHERE name=?"
	sqlReaderNew     = "INSERT INTO reader(name, at) VALUES (?, ?) ON CONFLICT(name) DO UPDATE SET at=excluded.at"
	sqlReaderGone    = "DELETE FROM reader WHERE name=?"
)

// newEvent is an event on its way into the file.
type newEvent struct {
	kind     store.EventType
	at       int64
	seq      int64 // of the job; 0 for none
	made     int64 // when it was made, of which its id is computed
	lane     lane.Key
	subject  string
	data     eventData
	endpoint string
}

// wantsEvent reports whether events of the type, about jobs of a queue, are
// written. What the deliveries of events do is never one: each would make another.
// Of the relay's other queues only what a message is not delivered after is.
func (s *state) wantsEvent(kind store.EventType, queue string) bool {
	if !kind.Seldom() && !s.wanted[kind] {
		return false
	}
	switch {
	case strings.HasPrefix(queue, store.EventQueue):
		return false
	case job.OfRelay(queue):
		return kind == store.JobFailed || kind == store.JobCancelled || kind == store.JobDeleted
	}
	return true
}

// jobEvent tells of a job in its transaction. made is when the job was; 0 where
// that is to be read.
func (t *tx) jobEvent(kind store.EventType, seq, made int64, l *laneRow, d eventData) {
	if !t.w.state.wantsEvent(kind, l.key.Queue) {
		return
	}
	d.Synthetic = l.key.Synthetic
	t.events = append(t.events, newEvent{kind: kind, at: t.now, seq: seq, made: made, lane: l.key, endpoint: l.key.Endpoint, data: d})
}

// gateEvent tells of a queue or an endpoint.
func (t *tx) gateEvent(kind store.EventType, g lane.Gate, d eventData) {
	e := newEvent{kind: kind, at: t.now, data: d}
	if g.Kind == lane.QueueGate {
		e.lane.Queue = g.Name
	} else {
		e.endpoint = g.Name
	}
	t.events = append(t.events, e)
}

// subjectEvent tells of a replay or a subscription.
func (t *tx) subjectEvent(kind store.EventType, subject string, d eventData) {
	t.events = append(t.events, newEvent{kind: kind, at: t.now, subject: subject, data: d})
}

// circuitMoved tells what a circuit did.
func (t *tx) circuitMoved(g *gate, moves []circuit.Move, by string) {
	for _, m := range moves {
		kind := store.CircuitClosed
		switch m.To {
		case circuit.Open:
			kind = store.CircuitOpened
		case circuit.HalfOpen:
			kind = store.CircuitHalfOpen
		case circuit.Closed:
		}
		t.gateEvent(kind, g.name, eventData{Generation: m.Generation, By: by, RetryAt: stampOf(g.circuit.RetryAt)})
	}
}

// held tells that an endpoint asked to be left alone.
func (t *tx) held(g *gate) {
	t.gateEvent(store.EndpointHeld, g.name, eventData{HeldUntil: stampOf(g.circuit.HeldUntil)})
}

// flushEvents writes the events of the transaction.
func (t *tx) flushEvents() error {
	b := &t.w.block
	for i := 0; i < len(t.events); {
		b.begin(t.w.state.event + 1)
		for ; i < len(t.events) && !b.full(); i++ {
			e := &t.events[i]
			if e.seq != 0 && e.made == 0 {
				if err := t.dateEvent(e); err != nil {
					return err
				}
			}
			if err := b.add(e); err != nil {
				return t.diverge("an event: %w", err)
			}
		}
		t.w.state.event += int64(b.n)
		if _, err := t.exec(sqlEvent, t.w.state.event, t.now, b.body); err != nil {
			return err
		}
	}
	return nil
}

// dateEvent finds when an event's job was made. One that was deleted in the same
// transaction carries it already.
func (t *tx) dateEvent(e *newEvent) error {
	if i := e.seq - t.first; i >= 0 && i < int64(len(t.created)) {
		e.made = t.created[i].at
		return nil
	}
	_, err := t.one(sqlMade, func(r *row) error { e.made = r.int(0); return nil }, e.seq)
	return err
}

// WantEvents says which types are written.
func (s *Store) WantEvents(ctx context.Context, types []store.EventType) error {
	wanted := make(map[store.EventType]bool, len(types))
	for _, kind := range types {
		wanted[kind] = true
	}
	return s.writer.submit(ctx, 0, func(t *tx) error {
		t.w.state.wanted = wanted
		return nil
	})
}

// eventLook is how many events a read looks at before it sees how long it takes
// already: a page of what no filter leaves out is never short for that.
const eventLook = 10_000

// Events returns the events behind an id, oldest first.
func (s *Store) Events(ctx context.Context, f store.EventFilter, after int64, limit int) (store.EventsRead, error) {
	limit = min(max(limit, 1), store.EventsPage)
	types, queues := asSet(f.Types), asSet(f.Queues)
	var read store.EventsRead
	err := s.readers.view(ctx, func(c *conn) (err error) {
		if read, err = eventsFrom(c, after); err != nil {
			return err
		}
		began, more := time.Now(), true
		for more && len(read.Events) < limit {
			from := read.Next
			more = false
			if err := c.each(sqlEvents, func(r *row) error {
				err := s.readEvents(r.blob(0), &read, limit, func(e *readEvent) bool {
					return (types == nil || types[e.Type]) && (queues == nil || queues[e.Queue])
				})
				if err == nil && read.Next-from >= eventLook {
					more = true
					return errEnough
				}
				return err
			}, from); err != nil {
				return err
			}
			if more && time.Since(began) > listTime {
				return nil
			}
		}
		if len(read.Events) == limit {
			return nil
		}
		// Nothing is behind it. Ids that were removed, or never came to be, are passed,
		// or who waits for one behind them would find it at once for ever.
		_, err = c.one(sqlEventLast, func(r *row) error { read.Next = max(read.Next, r.int(0)); return nil })
		return err
	})
	return read, err
}

// readEvents adds those of a row that are wanted and stand behind read.Next, and
// moves that on.
func (s *Store) readEvents(body []byte, read *store.EventsRead, limit int, wants func(*readEvent) bool) error {
	err := readBlock(body, func(e *readEvent) bool {
		if e.ID <= read.Next {
			return false
		}
		read.Next = e.ID
		if !wants(e) {
			return false
		}
		event := e.Event
		event.At, event.Data = at(e.at), bytes.Clone(e.Data) // one event must not hold on to its whole row
		if e.seq != 0 {
			event.Job = s.ids.Make(at(e.made), e.seq)
		}
		read.Events = append(read.Events, event)
		return len(read.Events) == limit
	})
	if err == nil && len(read.Events) == limit {
		return errEnough
	}
	return err
}

// eventsFrom is where who stands behind an id begins to read.
func eventsFrom(c *conn, after int64) (store.EventsRead, error) {
	read := store.EventsRead{Next: after}
	if _, err := c.one(sqlEventLast, func(r *row) error {
		if after > r.int(0) { // of a store that went back in time since: its ids are given anew
			read.Next, read.Gone = 0, true
		}
		return nil
	}); err != nil || read.Gone {
		return read, err
	}
	_, err := c.one(sqlEventsGone, func(r *row) error { read.Gone = after > 0 && r.int(0) > after; return nil })
	return read, err
}

func asSet[T comparable](list []T) map[T]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[T]bool, len(list))
	for _, v := range list {
		set[v] = true
	}
	return set
}

// LastEvent returns the id of the newest event.
func (s *Store) LastEvent(ctx context.Context) (last int64, err error) {
	err = s.readers.use(ctx, func(c *conn) error {
		_, err := c.one(sqlEventLast, func(r *row) error { last = r.int(0); return nil })
		return err
	})
	return last, err
}

// eventWatch wakes those who wait for events. It is safe for concurrent use.
type eventWatch struct {
	mu     sync.Mutex
	last   int64
	came   chan struct{} // closed when one comes
	closed bool
}

func newEventWatch(last int64) *eventWatch { return &eventWatch{last: last, came: make(chan struct{})} }

// tell says that events up to an id are durable.
func (w *eventWatch) tell(last int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last > w.last && !w.closed {
		w.last = last
		close(w.came)
		w.came = make(chan struct{})
	}
}

func (w *eventWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.came)
	}
}

// AwaitEvents returns nil once an event behind the id is there.
func (s *Store) AwaitEvents(ctx context.Context, after int64) error {
	for {
		s.events.mu.Lock()
		last, came, closed := s.events.last, s.events.came, s.events.closed
		s.events.mu.Unlock()
		switch {
		case closed:
			return store.ErrClosed
		case last > after:
			return nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Cursor returns how far a reader has come.
func (s *Store) Cursor(ctx context.Context, reader string) (after int64, err error) {
	err = s.readers.use(ctx, func(c *conn) error {
		_, err := c.one(sqlReader, func(r *row) error { after = r.int(0); return nil }, reader)
		return err
	})
	return after, err
}

// HandOver moves a reader on and stores the jobs that it made of the events, in
// one transaction.
func (s *Store) HandOver(ctx context.Context, reader string, from, to int64, jobs []store.NewJob) error {
	c, size, err := newCreation(s.ids, jobs)
	if err != nil {
		return err
	}
	if len(jobs) > 0 { // a cursor alone fits anywhere
		given, err := s.space.take(size)
		if err != nil {
			return err
		}
		defer given()
	}
	return s.writer.submit(ctx, size+jobOverhead, func(t *tx) error {
		now := int64(0)
		if _, err := t.one(sqlReader, func(r *row) error { now = r.int(0); return nil }, reader); err != nil {
			return err
		}
		if now != from {
			return fmt.Errorf("%w: the reader %q stands at %d, not at %d", store.ErrStatus, reader, now, from)
		}
		if len(jobs) > 0 {
			if err := c.run(t); err != nil {
				return err
			}
		}
		_, err := t.exec(sqlReaderNew, reader, to)
		return err
	})
}

// DropCursor forgets a reader.
func (s *Store) DropCursor(ctx context.Context, reader string) error {
	return s.writer.submit(ctx, 0, func(t *tx) error {
		_, err := t.exec(sqlReaderGone, reader)
		return err
	})
}

// eventStep is how many rows of events one step of retention looks at.
const eventStep = 50

// retainEvents removes some of the events that were kept long enough. They are in
// the order of their times, so the oldest tell whether there are any.
func (s *Store) retainEvents(ctx context.Context, long time.Duration) (store.More, error) {
	if long <= 0 {
		return false, nil
	}
	removed := int64(0)
	err := s.writer.submit(ctx, 0, func(t *tx) error {
		last, old := t.now-long.Milliseconds(), false
		_, err := t.one(sqlEventOldAt, func(r *row) error { old = r.int(0) <= last; return nil })
		if removed = 0; err != nil || !old {
			return err // nothing is written where nothing is old
		}
		newest := int64(0)
		if _, err := t.one(sqlEventsOldLast, func(r *row) error { newest = r.int(0); return nil }, eventStep, last); err != nil {
			return err
		}
		if _, err := t.exec(sqlEventsGoneSet, newest); err != nil {
			return err
		}
		removed, err = t.exec(sqlEventsOld, newest)
		return err
	})
	return removed == eventStep, err
}
