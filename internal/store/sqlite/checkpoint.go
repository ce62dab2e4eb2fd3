package sqlite

import (
	"os"
	"sync/atomic"
	"time"
)

// The WAL's bounds.
const (
	// checkpointAt is how much of the WAL stands not yet in the file when it is
	// moved there: enough that pages that change again and again are moved once,
	// little enough that a start after a crash reads it in an instant.
	checkpointAt = 8 << 20
	// MaxWAL is where the writer has the WAL begin anew. Between two groups it
	// moves what the keeper did not yet, some MiB at most.
	MaxWAL = 64 << 20
	// walEvery is the shortest time between two looks: at 100 MB/s of writes the
	// WAL grows by about checkpointAt in it.
	walEvery = 100 * time.Millisecond
	// walPause is how long a checkpoint rests that failed.
	walPause = time.Second
	// walWarnEvery is how often it is logged that the WAL can't be moved, or
	// begin anew.
	walWarnEvery = time.Minute
)

const (
	sqlWALSize    = "PRAGMA wal_checkpoint(NOOP)"
	sqlCheckpoint = "PRAGMA wal_checkpoint(PASSIVE)"
)

// walFrame is how many bytes a page takes in the WAL.
const walFrame = pageSize + 24

// walKeeper moves the WAL into the file beside the writer, on a connection of
// its own. It is safe for concurrent use.
type walKeeper struct {
	store *Store
	conn  *conn
	grown chan struct{} // something may have been written
	stop  chan struct{}
	ended chan struct{}

	// due: the WAL is over its bound and wants the writer to let it begin anew.
	due atomic.Bool
	// complained is when a failed checkpoint was logged last, in Unix
	// milliseconds.
	complained atomic.Int64
	// over is since when the WAL has been over its bound, warned when that was
	// logged last. They are the keeper's own.
	over, warned time.Time
}

func startWAL(s *Store) (*walKeeper, error) {
	c, err := openConn(s.path, s.options.VFS, checkpointing)
	if err != nil {
		return nil, err
	}
	k := &walKeeper{store: s, conn: c, grown: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	go k.run()
	return k, nil
}

func (k *walKeeper) close() error {
	close(k.stop)
	<-k.ended
	return k.conn.close()
}

func (k *walKeeper) run() {
	defer close(k.ended)
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select { // at most one look in a rest
		case <-k.stop:
			return
		case <-rest.C:
		}
		select {
		case <-k.stop:
			return
		case <-k.grown:
		}
		pause := walEvery
		if err := k.look(); err != nil {
			k.complain(err)
			pause = walPause
		}
		rest.Reset(pause)
	}
}

// complain logs that a checkpoint failed, at once and then once a minute.
func (k *walKeeper) complain(err error) {
	last, now := k.complained.Load(), time.Now().UnixMilli()
	if now-last < walWarnEvery.Milliseconds() || !k.complained.CompareAndSwap(last, now) {
		return
	}
	k.store.log.Error("the WAL could not be moved into the file; it grows until it can", "store", k.store.path, "error", explain(err))
}

// walSize is what a look at the WAL found, in bytes.
type walSize struct{ all, moved int64 }

// walSize runs one of the checkpoint's statements and returns what it says.
func (c *conn) walSize(text string) (walSize, error) {
	var s walSize
	_, err := c.one(text, func(r *row) error {
		s = walSize{all: max(r.int(1), 0) * walFrame, moved: max(r.int(2), 0) * walFrame}
		return nil
	})
	return s, err
}

// look moves what is there to move. What readers still need stays, and what is
// written meanwhile; it never waits for either.
func (k *walKeeper) look() error {
	size, err := k.conn.walSize(sqlWALSize)
	if err != nil {
		return err
	}
	if size.all-size.moved >= checkpointAt {
		if size, err = k.conn.walSize(sqlCheckpoint); err != nil {
			return err
		}
	}
	if size.all < MaxWAL {
		k.over = time.Time{}
		k.due.Store(false)
		return nil
	}
	k.due.Store(true)
	k.warn(size)
	return nil
}

// warn says once a minute that a WAL stays over its bound although the writer
// tried to let it begin anew: somebody reads for long.
func (k *walKeeper) warn(size walSize) {
	now := time.Now()
	if k.over.IsZero() {
		k.over = now
		return
	}
	if now.Sub(k.over) < 10*walEvery || now.Sub(k.warned) < walWarnEvery {
		return
	}
	k.warned = now
	k.store.log.Warn("the WAL is over its bound and can't begin anew: a reader needs it, such as a backup that runs or a sqlite3 shell",
		"store", k.store.path, "wal_bytes", size.all, "bound", int64(MaxWAL), "since", now.Sub(k.over).Round(time.Second))
}

// beforeGroup is called by the writer between two groups. Where the WAL is over
// its bound it moves the rest: nobody writes meanwhile, so afterwards nothing is
// left, and the next commit begins the WAL anew unless a reader still needs it.
// It waits for nobody. A new WAL also cuts the file down to its bound
// (journal_size_limit).
func (s *Store) beforeGroup() {
	select {
	case s.wal.grown <- struct{}{}:
	default:
	}
	if !s.wal.due.Load() || s.writer.conn == nil {
		return
	}
	s.wal.due.Store(false)
	if _, err := s.writer.conn.walSize(sqlCheckpoint); err != nil {
		s.wal.complain(err)
	}
}

// fileSize is a file's size; 0 where it is not there.
func fileSize(path string) int64 {
	info, err := os.Stat(path) // never open and close: that gives up SQLite's locks
	if err != nil {
		return 0
	}
	return info.Size()
}
