package sqlite

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/slew"
)

// clock is the store's clock in Unix milliseconds: it runs with the monotonic
// clock, is drawn to the wall clock slowly and never goes back, not over a
// restart either, for every commit keeps the newest time that was told.
type clock struct {
	wall func() time.Time
	mono func() time.Duration

	mu     sync.Mutex
	slewed *slew.Clock
	start  time.Duration // of mono
	newest int64
}

// newClock starts the clock; last is the newest time that the file knows.
func newClock(o Options, last int64) *clock {
	c := &clock{wall: o.Wall, mono: o.Mono, newest: last}
	if c.wall == nil {
		c.wall = time.Now
	}
	if c.mono == nil {
		began := time.Now()
		c.mono = func() time.Duration { return time.Since(began) }
	}
	c.start = c.mono()
	c.slewed = slew.New(c.wall(), at(last))
	return c
}

// now is the time.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = max(c.newest, c.slewed.Now(c.wall(), c.mono()-c.start).UnixMilli())
	return c.newest
}

// ahead reports whether times were told that the wall clock has not come to. A
// start after it could not know them by the wall clock, only by the file.
func (c *clock) ahead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest > c.wall().UnixMilli()
}

// told is the newest time that now returned.
func (c *clock) told() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// random is where jitter comes from.
func (o Options) random() func() float64 {
	if o.Rand != nil {
		return o.Rand
	}
	return rand.Float64
}

// Now is the store's clock. It never goes back.
func (s *Store) Now() time.Time { return at(s.writer.clock.now()) }
