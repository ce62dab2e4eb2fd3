package sqlite

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// usable returns nil where the files are in their place, and the connection is
// there or could be opened again.
func (w *writer) usable() error {
	if err := w.store.place.err(); err != nil {
		return err
	}
	if w.conn != nil {
		return nil
	}
	if time.Since(w.tried) >= reopenPause {
		err := w.open()
		if err == nil {
			w.vitals.trouble.Store(nil)
			w.log.Info("the store can be written again", "store", w.store.path)
			return nil
		}
		w.tried, w.trouble = time.Now(), err
		w.vitals.trouble.Store(&err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, w.trouble)
}

// broken gives the connection up: what the file says is read anew before the
// next operation.
func (w *writer) broken(err error) {
	if w.conn != nil {
		_ = w.conn.close() // it has failed already
	}
	w.conn, w.trouble = nil, err
	w.vitals.trouble.Store(&err)
	w.log.Error("the store can't be written; it is opened again", "store", w.store.path, "error", err)
}

// aheadTold is how far the store's time may be ahead of the wall clock unsaid: more
// than clocks that a time service keeps differ by, over a restart.
const aheadTold = time.Minute

// tellAhead warns of a wall clock that was set back while the store was closed, or
// was wrong before: jobs come due late by it, and times in answers are ahead.
func (w *writer) tellAhead(last int64) {
	wall := w.clock.wall()
	ahead := at(last).Sub(wall)
	if ahead <= aheadTold {
		return
	}
	w.log.Warn("the store's time is ahead of this machine's clock: it goes on at nine tenths of its pace until the clock has caught up",
		"store", w.store.path, "store_time", at(last), "clock", wall.UTC(), "ahead", ahead.Round(time.Second).String())
}

// open connects and reads the state from the file. It commits first: where the
// sync of a commit failed, its frames may stand in the WAL all the same and would
// be taken up after a crash; those of this commit replace them.
func (w *writer) open() (err error) {
	raw, err := connect(w.store.path, w.store.options.VFS, writing)
	if err != nil {
		return explain(err)
	}
	c := newConn(raw)
	defer func() {
		if err != nil {
			_ = c.close() // the first error says why
		}
	}()
	for _, text := range []string{sqlBegin, sqlCount, sqlCommit} {
		if _, err := c.exec(text); err != nil {
			return explain(err)
		}
	}
	if err := w.store.place.learnWAL(); err != nil {
		return err
	}
	s, err := loadState(c)
	if err != nil {
		return explain(err)
	}
	if w.clock == nil {
		w.clock = newClock(w.store.options, s.clock)
		w.tellAhead(s.clock)
	}
	told := s.event // not what a lost commit gave out, which never comes
	if w.state != nil {
		s.adopt(w.state)
	}
	w.conn, w.state = c, s
	w.store.events.tell(told)
	s.openGates(at(w.clock.now()))
	return nil
}
