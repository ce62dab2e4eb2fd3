package deadletter

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Options are a store's. The zero value works.
type Options struct {
	// Log takes what was repaired or can't be read; nil drops it.
	Log *slog.Logger
}

// Store keeps letters in a folder. Safe for concurrent use.
type Store struct{}

// Errors to ask for with errors.Is.
var (
	// ErrNotFound: no letter has that id.
	ErrNotFound = errors.New("no dead letter has this id")
	// ErrLowSpace: writing works, but little disk is left: a warning.
	ErrLowSpace = errors.New("little disk space is left for dead letters")
)

// Open opens or makes the store in the folder dir (mode 0700).
func Open(dir string, o Options) (*Store, error) { return nil, errors.ErrUnsupported }

// Name returns "file": a Store is a Sink.
func (s *Store) Name() string { return "file" }

// Write is Append.
func (s *Store) Write(ctx context.Context, l *message.DeadLetter) error { return s.Append(ctx, l) }

// Append stores the letter and returns once it is on the disk.
func (s *Store) Append(ctx context.Context, l *message.DeadLetter) error {
	return errors.ErrUnsupported
}

// List calls fn with each letter that the filter lets through, oldest first.
func (s *Store) List(ctx context.Context, f Filter, fn func(Entry) error) error {
	return errors.ErrUnsupported
}

// Count returns how many letters the filter lets through.
func (s *Store) Count(f Filter) (int, error) { return 0, errors.ErrUnsupported }

// Get returns the letter with the id, or all letters of the message with it.
func (s *Store) Get(ctx context.Context, id string) ([]Entry, error) {
	return nil, errors.ErrUnsupported
}

// MarkReplayed marks an open letter as replayed. how is Delivered or FailedAgain.
func (s *Store) MarkReplayed(ctx context.Context, letter string, how Verdict) error {
	return errors.ErrUnsupported
}

// Purge gives up the letters that died before the given time and returns how
// many of them were open.
func (s *Store) Purge(ctx context.Context, before time.Time) (int, error) {
	return 0, errors.ErrUnsupported
}

// Stats returns the counts.
func (s *Store) Stats() Stats { return Stats{} }

// Writable returns nil when the next letter can be stored.
func (s *Store) Writable() error { return errors.ErrUnsupported }

// Close gives everything back. Calling it again does nothing.
func (s *Store) Close() error { return nil }
