package deadletter

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Verdict is how the replay of one letter ended.
type Verdict uint8

// The verdicts of a replay.
const (
	// Abandoned: it was not tried to the end (pawl is stopping, say). The
	// letter stays open.
	Abandoned Verdict = iota
	// Delivered: every required destination has it, or its route no longer
	// wants it.
	Delivered
	// FailedAgain: it died again; Letters are its new deaths.
	FailedAgain
)

// ReplayOutcome is what Deliver says about one letter.
type ReplayOutcome struct {
	Verdict Verdict
	// Letters are the new letters of a message that failed again: one, or one
	// for each required destination of a route that ran again. Their history
	// is filled in by Replay.
	Letters []*message.DeadLetter
	// Err says why a replay was abandoned.
	Err error
}

// ReplayOptions say what to replay and how.
type ReplayOptions struct {
	// Filter chooses the letters. Its State is not looked at: only open
	// letters are replayed.
	Filter Filter
	// DryRun counts what would be replayed and touches nothing.
	DryRun bool
	// Rate is how many letters begin a second; 0 is as fast as they go, with
	// at most MaxReplaysInFlight open.
	Rate float64
	// Deliver replays one letter: a delivery letter over its failed
	// destination's whole path (or another that the caller chose), others over
	// their route from the filter on. It is called from several goroutines.
	Deliver func(ctx context.Context, l *message.DeadLetter) ReplayOutcome
	// Write keeps the new letters of what failed again; nil is the store's own
	// Append. The old letter is marked only after it.
	Write func(ctx context.Context, l *message.DeadLetter) error
	// Progress is told after each letter, one call at a time; nil is nobody.
	Progress func(Progress)
}

// MaxReplaysInFlight bounds how many letters one Replay has open: as many as a
// destination has workers by default.
const MaxReplaysInFlight = 64

// Progress is how far a replay is.
type Progress struct {
	// Total is how many letters matched when it began.
	Total int
	// Delivered and FailedAgain are done; Left is what is not: to come, or
	// abandoned.
	Delivered   int
	FailedAgain int
	Left        int
}

// Summary is how a replay ended. Left counts what is still open: never begun,
// abandoned, or failed again with its new letter stored nowhere.
type Summary struct {
	Progress
	// Busy is how many of Left another replay had in hand.
	Busy int
}

// Replay replays the letters that match, oldest first, and marks each once it
// is settled, so that a replay that was cut short goes on where it stopped.
// Letters that come while it runs are not its business. A letter is never in
// two replays at once. When ctx ends it begins no more, waits for those in
// flight (whose Deliver sees ctx end too), and returns ctx's error beside the
// summary; other errors are of reading the store or of marking.
func (s *Store) Replay(ctx context.Context, o ReplayOptions) (Summary, error) {
	return Summary{}, errors.ErrUnsupported
}
