package sqlite

import (
	"sync/atomic"
	"time"
)

// hand is a clock that tests move.
type hand struct{ ms atomic.Int64 }

func (h *hand) step(d time.Duration) { h.ms.Add(d.Milliseconds()) }

// options hands the clock to a store.
func (h *hand) options(o Options) Options {
	began := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	o.Wall = func() time.Time { return began.Add(time.Duration(h.ms.Load()) * time.Millisecond) }
	o.Mono = func() time.Duration { return time.Duration(h.ms.Load()) * time.Millisecond }
	return o
}
