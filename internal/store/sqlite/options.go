package sqlite

import (
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// Options are what a store is opened with.
type Options struct {
	// Path is the database file. Its folder is made where it is missing.
	Path string
	// Log is for what no caller is told; nil drops it.
	Log *slog.Logger
	// AllowNetwork opens a file on a network file system all the same.
	AllowNetwork bool
	// Reserve is how many bytes stay free on the disk: with less, creates and
	// dead letters are refused with store.ErrFull, while claims, reports and
	// retention go on, so that workers can finish. Room that retention made
	// inside the file counts as free. 0 is DefaultReserve, less than 0 is none.
	Reserve int64

	// Ended is told of each attempt that has ended, of a job that is part of a
	// trace, once that is committed and before who reported is answered. Those of
	// the relay's own workers are left out, for it follows its messages itself. nil
	// costs nothing. It must neither wait nor call the store: the writer waits for it.
	Ended func(store.Ended)

	// Finished is told of the jobs that came to their end, once that is committed,
	// if only to a file that is not in its place, and before who ended them is
	// answered, with a list that is its own until it returns. nil costs nothing. It
	// must neither wait nor call the store.
	Finished func([]store.Finished)

	// Wall is the wall clock and Mono a clock that never jumps; nil are the
	// machine's. Rand is in [0, 1), for jitter; nil is math/rand/v2's.
	Wall func() time.Time
	Mono func() time.Duration
	Rand func() float64
	// VFS names SQLite's file layer; "" is its default. Free is how many bytes
	// are free on the disk of a folder; nil asks the system.
	VFS  string
	Free func(folder string) (int64, error)
}

// DefaultReserve is room for one WAL at its bound (MaxWAL), which is what
// workers need to finish: their reports are written to it.
const DefaultReserve = 64 << 20
