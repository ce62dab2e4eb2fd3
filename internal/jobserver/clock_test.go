package jobserver

import (
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// clock is a machine's clock that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
	up time.Duration
}

func newClock() *clock { return &clock{at: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}

func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.up = c.at.Add(d), c.up+d
}

// options are those of a store on the clock.
func (c *clock) options() sqlite.Options { return sqlite.Options{Wall: c.wall, Mono: c.mono} }

func sqliteOptions() sqlite.Options { return sqlite.Options{} }
