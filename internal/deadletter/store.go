package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Store is a Sink that people work with afterwards. Files and Records are the
// two there are. Safe for concurrent use.
type Store interface {
	Sink
	Reader
	// Append is Write, bounded by ctx alone. A letter whose id is there already
	// counts once.
	Append(ctx context.Context, l *message.DeadLetter) error
	// Replay replays the letters that match, oldest first, and marks each once it
	// is settled, so that a replay that was cut short goes on where it stopped.
	// Letters that come while it runs are not its business. A letter is never in
	// two replays at once. When ctx ends it begins no more, waits for those in
	// flight (whose Deliver sees ctx end too), and returns ctx's error beside the
	// summary. Other errors are of reading letters (ErrDamaged), and of marking,
	// which ends the replay: what can't be marked would be delivered again and
	// again.
	Replay(ctx context.Context, o ReplayOptions) (Summary, error)
	// MarkReplayed marks an open letter as replayed and returns once that is
	// durable. how is Delivered or FailedAgain. A letter that is marked already
	// stays as it is; an unknown one is ErrNotFound.
	MarkReplayed(ctx context.Context, letter string, how Verdict) error
	// Purge gives up the letters that died before the given time and returns how
	// many of them were open. Letters that a replay has in hand are left alone.
	Purge(ctx context.Context, before time.Time) (int, error)
	// Stats returns the counts.
	Stats() Stats
	// Writable returns nil when the next letter can be stored, as far as can be
	// told cheaply. ErrLowSpace is a warning: writing still works.
	Writable() error
	// Close gives back what the store holds, once what is being written is
	// durable. Calling it again does nothing.
	Close() error
}

// Reader shows letters.
type Reader interface {
	// List calls fn with each letter that the filter lets through, in the order
	// they were stored, as of the moment List was called. It holds no lock while
	// fn runs, so fn may use the store. An error of fn ends the list and is
	// returned as it is. Letters that can't be read are passed over and make the
	// error ErrDamaged at the end.
	List(ctx context.Context, f Filter, fn func(Entry) error) error
	// Count returns how many letters the filter lets through.
	Count(ctx context.Context, f Filter) (int, error)
	// Get returns the letter with the id, or all letters of the message with it,
	// whatever their state. ErrNotFound.
	Get(ctx context.Context, id string) ([]Entry, error)
}

// Errors to ask for with errors.Is.
var (
	// ErrNotFound: no letter has that id.
	ErrNotFound = errors.New("no dead letter has this id")
	// ErrDamaged: some of what is stored can't be read as letters. What can be
	// was.
	ErrDamaged = errors.New("some dead letters can't be read")
	// ErrLowSpace: writing works, but little disk is left: a warning.
	ErrLowSpace = errors.New("little disk space is left for dead letters")
)

// shelf is a Store whose letters can be taken in hand, so that each is in one
// replay at a time.
type shelf interface {
	Store
	claim(ctx context.Context, letter string) (claim, error)
	unclaim(letter string)
}

// claim is whether a letter was taken in hand.
type claim uint8

const (
	mine  claim = iota + 1 // unclaim must be called
	taken                  // another has it, or it is not open any more
)

// get is Get over a list.
func get(ctx context.Context, r Reader, id string) ([]Entry, error) {
	var got []Entry
	err := r.List(ctx, Filter{IDs: []string{id}, State: AllStates}, func(e Entry) error {
		if len(got) == MaxIDs {
			return fmt.Errorf("message %q has more than %d letters; list them instead", id, MaxIDs)
		}
		got = append(got, e)
		return nil
	})
	if err == nil && len(got) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return got, err
}
