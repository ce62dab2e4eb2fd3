package sqlite

import (
	"context"
	"fmt"
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
type space struct {
	folder  string
	reserve int64
	free    func(folder string) (int64, error)
	inside  func() (has, error)
	began   time.Time
	// looked is when the disk was looked at last, since began; full what was
	// seen.
	looked atomic.Int64
	full   atomic.Bool
}

// spaceEvery is how old an answer may be: at 50 MB/s of writes the default
// reserve is not yet used up when the next look is due.
const spaceEvery = time.Second

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
	s := &space{folder: filepath.Dir(path), inside: inside, reserve: o.Reserve, free: o.Free, began: time.Now()}
	if s.reserve == 0 {
		s.reserve = DefaultReserve
	}
	if s.free == nil {
		s.free = freeBytes
	}
	s.look()
	return s
}

// room asks the disk at most once a second, in the caller's goroutine: a create
// asks before it is handed to the writer, so the writer never waits for it.
func (s *space) room() room {
	if s.reserve < 0 {
		return roomEnough
	}
	last, now := s.looked.Load(), int64(time.Since(s.began))
	if now-last >= int64(spaceEvery) && s.looked.CompareAndSwap(last, now) {
		s.look()
	}
	if s.full.Load() {
		return roomReserve
	}
	return roomEnough
}

func (s *space) look() {
	if s.reserve < 0 {
		return
	}
	// A disk that gives no answer is found out by the write.
	free, err := s.free(s.folder)
	if err == nil && free < s.reserve {
		var in has
		in, err = s.inside()
		free += min(in.wal, in.pages)
	}
	s.full.Store(err == nil && free < s.reserve)
}

// err says that less than the reserve is left.
func (s *space) err() error {
	return fmt.Errorf("%w: less than the reserve of %d MiB is free where %s is", store.ErrFull, s.reserve>>20, s.folder)
}

// has asks the files for what space counts.
func (s *Store) has() (h has, err error) {
	h.wal = fileSize(s.path + "-wal")
	err = s.readers.use(context.Background(), func(c *conn) error {
		_, err := c.one("SELECT freelist_count FROM pragma_freelist_count", func(r *row) error { h.pages = r.int(0) * pageSize; return nil })
		return err
	})
	return h, err
}
