package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// space says whether there is more room than the reserve. It is safe for
// concurrent use.
//
// Two files grow on the disk: the WAL, up to its bound, and the database. What
// the WAL has already is room that it needs no more; what stands free inside the
// database, after retention, is room for what comes. Without counting those a
// disk that was filled once would refuse creates for ever, since a database file
// does not shrink.
//
// Between two looks at the disk it counts down what is written: a burst would
// pass the reserve in less than the second until the next one.
type space struct {
	folder  string
	reserve int64
	free    func(folder string) (int64, error)
	inside  func() (has, error)
	log     *slog.Logger
	told    atomic.Bool // that something was refused, and not yet that there is room again
	full    atomic.Bool // that the newest write did not fit
	began   time.Time
	// looked is when the disk was looked at last, since began; over what was
	// free then over the reserve, in bytes.
	looked atomic.Int64
	over   atomic.Int64
	// taken is what was let in and is not yet written, written what was since the
	// last look.
	taken, written atomic.Int64
}

const (
	// spaceEvery is how old an answer may be while there is room by the count.
	spaceEvery = time.Second
	// spaceAgain is how old it may be where there is none: the count is higher
	// than what is written, and one look in that time costs nothing.
	spaceAgain = 50 * time.Millisecond
	// spaceTimes is how often contents are written: to the WAL, and from there
	// into the file.
	spaceTimes = 2
	// spaceMargin is the part of the reserve that must be free beside it before the
	// log says that there is room again.
	spaceMargin = 8
	// spaceCommit is what a commit writes beside contents, about: the pages of
	// every table and index that it touches.
	spaceCommit = 64 << 10
)

// has is what the files have on the disk already: the WAL's size, and the free
// pages inside the database, in bytes.
type has struct{ wal, pages int64 }

// room says what is left.
type room string

const (
	roomEnough  room = "enough"
	roomReserve room = "reserve" // less than the reserve
)

func newSpace(path string, o Options, inside func() (has, error)) *space {
	s := &space{folder: filepath.Dir(path), inside: inside, log: o.Log, reserve: o.Reserve, free: o.Free, began: time.Now()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.reserve == 0 {
		s.reserve = DefaultReserve
	}
	if s.free == nil {
		s.free = freeBytes
	}
	s.look()
	return s
}

// take takes room for contents of so many bytes, where that leaves the reserve;
// the caller calls the function that it returns once they are written, or not.
func (s *space) take(bytes int) (given func(), err error) {
	n := int64(bytes) * spaceTimes
	s.taken.Add(n)
	if s.room() == roomReserve {
		s.taken.Add(-n)
		err := s.err()
		if s.told.CompareAndSwap(false, true) {
			s.log.Warn("new jobs and dead letters are refused", "error", err)
		}
		return nil, err
	}
	return func() { s.taken.Add(-n) }, nil
}

// wrote counts a commit with contents of so many bytes.
func (s *space) wrote(bytes int) {
	s.written.Add(int64(bytes)*spaceTimes + spaceCommit)
	if s.full.CompareAndSwap(true, false) {
		s.log.Info("the job store can be written again")
	}
}

// refused notes that a commit did not fit on the disk.
func (s *space) refused() {
	if s.full.CompareAndSwap(false, true) {
		s.log.Error("the disk of the job store is full: claims and reports are refused too", "folder", s.folder)
	}
}

// room asks the disk at most once a second, or a little more often where it
// seems used up, in the caller's goroutine: a create asks before it is handed to
// the writer, so the writer never waits for it.
func (s *space) room() room {
	if s.reserve < 0 {
		return roomEnough
	}
	last, now := s.looked.Load(), int64(time.Since(s.began))
	every := spaceEvery
	if s.left() < 0 {
		every = spaceAgain
	}
	if now-last >= int64(every) && s.looked.CompareAndSwap(last, now) {
		s.look()
	}
	if s.left() < 0 {
		return roomReserve
	}
	return roomEnough
}

// left is what is free over the reserve, by the count.
func (s *space) left() int64 { return s.over.Load() - s.taken.Load() - s.written.Load() }

func (s *space) look() {
	if s.reserve < 0 {
		return
	}
	seen := s.written.Load() // the disk shows it
	// A disk that gives no answer is found out by the write.
	over := int64(math.MaxInt64 / 2)
	free, err := s.free(s.folder)
	if err == nil && free < 2*s.reserve {
		var in has
		in, err = s.inside()
		free += min(in.wal, in.pages)
	}
	if err == nil {
		over = min(over, free-s.reserve)
	}
	s.over.Store(over)
	s.written.Add(-seen)
	// Some more than the reserve, so that a disk at its edge does not fill the log.
	if over > s.reserve/spaceMargin && s.told.CompareAndSwap(true, false) {
		s.log.Info("there is room on the disk again: jobs and dead letters are taken", "free_bytes", free)
	}
}

// err says that less than the reserve is left, or nothing.
func (s *space) err() error {
	if s.full.Load() {
		return fmt.Errorf("%w: the disk of %s is full, and claims and reports are refused too", store.ErrFull, s.folder)
	}
	return fmt.Errorf("%w: less than %d MiB would stay free where %s is", store.ErrReserve, s.reserve>>20, s.folder)
}

const sqlFreePages = "SELECT freelist_count FROM pragma_freelist_count"

// has asks the files for what space counts.
func (s *Store) has() (h has, err error) {
	h.wal = fileSize(s.path + "-wal")
	err = s.readers.use(context.Background(), func(c *conn) error {
		_, err := c.one(sqlFreePages, func(r *row) error { h.pages = r.int(0) * pageSize; return nil })
		return err
	})
	return h, err
}
