package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/semaphore"
)

// What requests and answers may fill in memory together.
const (
	// small is what a request may have without asking: most are below, and the
	// listener bounds how many there are.
	small = 64 << 10
	// maxLarge is for all larger ones, their answers included: eight of the
	// largest requests.
	maxLarge = 8 * MaxRequest
	// maxShare is for those of one key, so that it alone, however many slow
	// connections it holds open, shuts out nobody else.
	maxShare = maxLarge / 2
	// largeWait is how long a large one waits for others to be done: much less
	// than the time that its body has to arrive.
	largeWait = 2 * time.Second
)

// process is the memory of every Handler: a reload makes a new one, and the
// requests of the one before are still under way.
var process = newMemory(maxLarge, maxShare)

// errLarge: there is no room for one more large request or answer.
var errLarge = errors.New("nothing was done: too many large requests and answers are under way")

// memory bounds what large requests and answers hold at the same time, of all and
// of each key. Safe for concurrent use.
type memory struct {
	all   *semaphore.Semaphore
	bound int64 // of a key

	mu     sync.Mutex
	shares map[string]*share // of the keys that hold something, by id
}

// share is what one key may hold.
type share struct {
	*semaphore.Semaphore
	users int // holds that have it; the last one takes it away
}

func newMemory(all, ofKey int64) *memory {
	return &memory{all: semaphore.New(all), bound: ofKey, shares: map[string]*share{}}
}

func (m *memory) join(key string) *share {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shares[key]
	if s == nil {
		s = &share{Semaphore: semaphore.New(m.bound)}
		m.shares[key] = s
	}
	s.users++
	return s
}

func (m *memory) leave(key string, s *share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(m.shares, key)
	}
}

// hold is what one request has of a memory, its answer included. It belongs to one
// goroutine.
type hold struct {
	of    *memory
	key   string // id of the key that asks
	share *share // nil while the hold is empty
	bytes int64
}

// grow makes the hold one of so many bytes, waiting for others to be done where
// it has fewer; small ones hold nothing. One that is larger than a key's whole
// share has all of that. An error is errLarge, or ctx's, and changes nothing.
//
// A hold that grows while it holds something can meet another that waits for it
// in turn: the wait is short, and the one that gives up lets the other go on.
func (h *hold) grow(ctx context.Context, bytes int64) error {
	bytes = min(bytes, h.of.bound)
	more := bytes - h.bytes
	if bytes <= small || more <= 0 {
		return nil
	}
	s := h.share
	if s == nil {
		s = h.of.join(h.key)
	}
	err := h.acquire(ctx, s, more)
	switch {
	case err == nil:
		h.share, h.bytes = s, bytes
	case h.share == nil:
		h.of.leave(h.key, s)
	}
	return err
}

// acquire takes the key's share first: what a key can't have waits behind its own
// and not in front of others.
func (h *hold) acquire(ctx context.Context, s *share, bytes int64) error {
	within, cancel := context.WithTimeout(ctx, largeWait)
	defer cancel()
	err := s.Acquire(within, bytes)
	if err == nil {
		if err = h.of.all.Acquire(within, bytes); err != nil {
			s.Release(bytes)
		}
	}
	if err != nil && ctx.Err() == nil {
		return errLarge
	}
	return err
}

// fit makes the hold one of so many bytes, more or fewer than it has.
func (h *hold) fit(ctx context.Context, bytes int64) error {
	h.shrink(bytes)
	return h.grow(ctx, bytes)
}

// shrink gives back what the hold has beyond so many bytes; a small one is empty.
func (h *hold) shrink(bytes int64) {
	if bytes <= small {
		bytes = 0
	}
	if h.share == nil || bytes >= h.bytes {
		return
	}
	h.of.all.Release(h.bytes - bytes)
	h.share.Release(h.bytes - bytes)
	if h.bytes = bytes; bytes == 0 {
		h.of.leave(h.key, h.share)
		h.share = nil
	}
}
