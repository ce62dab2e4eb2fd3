package sqlite

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// space says whether the disk has more free than the reserve. It is safe for
// concurrent use.
type space struct {
	folder  string
	reserve int64
	free    func(folder string) (int64, error)
	began   time.Time
	// looked is when the disk was looked at last, since began; full what was
	// seen.
	looked atomic.Int64
	full   atomic.Bool
}

// spaceEvery is how old an answer may be: at 50 MB/s of writes the default
// reserve is not yet used up when the next look is due.
const spaceEvery = time.Second

// room says what a disk has left.
type room string

const (
	roomEnough  room = "enough"
	roomReserve room = "reserve" // less than the reserve
)

func newSpace(path string, o Options) *space {
	s := &space{folder: filepath.Dir(path), reserve: o.Reserve, free: o.Free, began: time.Now()}
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
	s.full.Store(err == nil && free < s.reserve)
}

// err says that less than the reserve is left.
func (s *space) err() error {
	return fmt.Errorf("%w: less than %d MiB are free where %s is", store.ErrFull, s.reserve>>20, s.folder)
}
