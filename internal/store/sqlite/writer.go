package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/histogram"
	"github.com/pawlhq/pawl/internal/store"
)

// The bounds of one group, so that no caller waits long for the others' commit.
const (
	maxGroup      = 512                  // operations: more share no more of a sync's cost
	maxGroupBytes = 4 << 20              // of contents: writing more takes longer than the sync itself
	maxGroupWork  = 5 * time.Millisecond // of statements: about what a sync of a plain disk takes
)

// maxLanes is how many lanes there may be: some hundred MiB of memory, and a second
// to open them. Fleets have thousands; more come of versions or endpoints that
// somebody makes up for each job.
const maxLanes = 1_000_000

// queueLength is how many operations wait for the writer before their callers
// wait to queue up: two groups, so that the next is there when one ends.
const queueLength = 2 * maxGroup

// reopenPause is the least time between two tries to open a database that can't
// be written: a caller each millisecond must not become an open each millisecond.
const reopenPause = 100 * time.Millisecond

// writer owns the connection that writes and the state in memory. Its goroutine
// alone touches both: operations come to it through submit.
type writer struct {
	store *Store
	clock *clock
	rand  func() float64
	log   *slog.Logger

	queue chan *call
	stop  chan struct{} // closed: no operation comes any more
	ended chan struct{} // closed: the goroutine has ended

	// What follows is the goroutine's own.
	conn  *conn // nil while the database can't be written
	state *state
	tx    tx
	block eventBlock
	calls []*call       // the group
	tried time.Time     // when opening it failed last
	work  time.Duration // maxGroupWork
	// maxLanes bounds the lanes.
	maxLanes int
	trouble  error // why conn is nil

	vitals writerVitals
}

// writerVitals are figures that everybody reads.
type writerVitals struct {
	lastCommit               atomic.Int64
	commitTimes, commitSizes *histogram.Histogram
	lanes, running, parked   atomic.Int64
	// trouble is why the database can't be written; nil for nothing.
	trouble atomic.Pointer[error]
}

func newVitals() writerVitals {
	const ms = time.Millisecond
	return writerVitals{
		commitTimes: histogram.OfTime(ms/2, ms, 2*ms, 5*ms, 10*ms, 20*ms, 50*ms, 100*ms, 200*ms, 500*ms,
			time.Second, 2*time.Second, 5*time.Second, 10*time.Second),
		commitSizes: histogram.New(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
	}
}

func startWriter(ctx context.Context, s *Store) (*writer, error) {
	w := &writer{
		store: s, rand: s.options.random(), log: s.log, work: maxGroupWork, maxLanes: maxLanes,
		vitals: newVitals(),
		queue:  make(chan *call, queueLength), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	w.tx.w = w
	if err := w.open(); err != nil {
		return nil, err
	}
	s.writer = w // its goroutine asks the store before each group
	go w.loop()
	if err := w.submit(ctx, 0, resume); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// submit runs an operation in the next group and returns once that is committed.
// bytes is what it adds to the group's size. ctx ends the wait only until the
// writer has taken the operation: from then on the answer says what happened.
func (w *writer) submit(ctx context.Context, bytes int, run func(*tx) error) error {
	c := newCall(bytes, run)
	if err := w.enqueue(ctx, c); err != nil {
		return err
	}
	return w.await(ctx, c)
}

// enqueue hands an operation to the writer.
func (w *writer) enqueue(ctx context.Context, c *call) error {
	select {
	case <-w.stop:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	select {
	case w.queue <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stop:
		return store.ErrClosed
	}
}

// await waits for an operation's end.
func (w *writer) await(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		if c.leave() {
			return ctx.Err()
		}
	case <-w.ended:
		if c.leave() {
			return store.ErrClosed
		}
	}
	<-c.done
	return c.err
}

// close ends the claims that wait, does what was submitted and closes the
// connection.
func (w *writer) close() error {
	close(w.stop)
	<-w.ended
	if w.conn == nil {
		return nil
	}
	return w.conn.close()
}

func (w *writer) loop() {
	defer close(w.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(w.untilDue())
		select {
		case c := <-w.queue:
			w.group(c)
		case <-timer.C:
			w.group(nil)
		case <-w.stop:
			w.drain()
			return
		}
	}
}

// untilDue is how long nothing comes due that a claim waits for.
func (w *writer) untilDue() time.Duration {
	if len(w.state.parked.all) == 0 {
		return time.Hour
	}
	var wait time.Duration
	if !w.state.wakeAll && len(w.state.hot) == 0 {
		at, ok := w.state.board.NextDue()
		if !ok {
			return time.Hour
		}
		wait = time.Duration(millis(at)-w.clock.now()) * time.Millisecond
	}
	if w.conn == nil || w.store.place.lost.Load() != 0 {
		wait = max(wait, reopenPause)
	}
	return max(wait, 0)
}

// drain ends the claims that wait and does what still stands in the queue.
func (w *writer) drain() {
	for {
		for _, c := range w.state.parked.takeAll() {
			c.call.end(store.ErrClosed)
		}
		c := w.next()
		if c == nil {
			break
		}
		w.group(c)
	}
	// The clock goes on where it was, whatever the wall clock does meanwhile.
	if w.usable() == nil {
		w.tx.begin()
		_ = w.tx.write() // it is in the transaction
		w.tx.commit()
	}
}

// next is the next operation that waits already; nil for none.
func (w *writer) next() *call {
	select {
	case c := <-w.queue:
		return c
	default:
		return nil
	}
}

// group runs operations and commits them: first, which may be nil, and those
// that come while they run.
func (w *writer) group(first *call) {
	w.store.beforeGroup()
	w.calls = w.calls[:0]
	if err := w.usable(); err != nil {
		// Those behind it are looked at by themselves: the store may have healed.
		if first != nil && first.take() {
			first.end(err)
		}
		return
	}
	t := &w.tx
	t.begin()
	began, bytes := time.Now(), 0
	for c := first; c != nil; c = w.next() {
		if !c.take() {
			continue
		}
		w.calls = append(w.calls, c)
		bytes += c.bytes
		t.run(c)
		if t.failed != nil || len(w.calls) == maxGroup || bytes >= maxGroupBytes || time.Since(began) >= w.work {
			break
		}
	}
	t.serveParked()
	t.commit()
	// Of an operation alone it is known that it was the one that failed.
	if t.end == endRefused && faultOf(t.failed) != faultOfDatabase && len(w.calls)+len(t.served) > 1 {
		w.alone()
		return
	}
	w.answer(w.calls)
}

// alone runs each operation of a group that failed in a transaction of its own,
// so that the one fails that can't be done, and no other.
func (w *writer) alone() {
	t := &w.tx
	var down error
	for _, c := range w.calls {
		if c.over {
			continue
		}
		if down == nil {
			down = w.usable()
		}
		if down != nil {
			c.end(down)
			continue
		}
		t.begin()
		t.run(c)
		t.commit()
		if t.failed != nil && faultOf(t.failed) == faultOfDatabase {
			down = storeError(t.failed)
		}
		w.answer([]*call{c})
	}
	if w.usable() == nil {
		t.begin()
		t.serveParked()
		t.commit()
		w.answer(nil)
	}
}

// answer answers the operations of a transaction that has ended, and the claims
// that it served.
func (w *writer) answer(calls []*call) {
	t := &w.tx
	if t.end == endRefused && faultOf(t.failed) == faultOfSpace {
		w.store.space.refused()
	}
	// Of claims that wait, those are ended that were served; those whose fate is
	// not known; and those that a transaction of their own could not serve, for
	// waiting on they would fail again and again.
	served := t.served
	if t.end == endRefused && len(calls) > 0 {
		served = nil
	}
	for _, p := range served {
		w.state.parked.remove(p)
	}
	// The figures and the ends first: who was answered may look at them.
	w.tellEnded()
	v := &w.vitals
	v.lanes.Store(int64(w.state.board.Len()))
	v.running.Store(int64(len(w.state.running)))
	v.parked.Store(int64(len(w.state.parked.all)))
	for _, c := range calls {
		switch {
		case t.failed != nil:
			c.end(t.answer())
		case !c.wait:
			c.end(c.err)
		}
	}
	for _, p := range served {
		if t.failed != nil {
			p.call.end(t.answer())
		} else {
			p.call.end(p.call.err)
		}
	}
	if t.end == endCommitted && len(t.events) > 0 {
		w.store.events.tell(w.state.event)
	}
	if (t.end == endCommitted || t.end == endParted) && len(t.finished) > 0 {
		w.store.watch.ended(t.finished)
	}
}
