// Package kv is the contract of a small shared store: what replicas tell each
// other so that they drop a duplicate between them and count a budget together.
//
// It holds two things. A mark says that a key is in progress at one owner, for
// the time of a lease, or done. Counters are added to and read in one step.
// Nothing in it is the only copy of a message: whoever uses it goes on without
// it where it is away.
//
// Times are spans by the store's own clock, never moments: the clocks of two
// replicas need not agree.
package kv

import (
	"context"
	"time"
)

// Store is both, and can be asked whether it is there. Safe for concurrent use.
//
// An operation returns soon after its context has ended. Its error is ErrLost
// where that is named, ErrInvalid where an argument is out of its bounds, and
// in every other case an *Unavailable.
type Store interface {
	Marks
	Counters
	// Ping asks the store for an answer.
	Ping(ctx context.Context) error
	// Close ends what is under way and gives back connections. Operations
	// after it are Unavailable. It may be called more than once.
	Close() error
}

// Marks are leased. Each operation is one step: it happens wholly or not at
// all, and no other comes in between.
//
// Key is any text of at least one byte, owner one of 1 to MaxOwner bytes that
// names one try at one message and is never used for another: it is the fence.
// Once its lease is over, and another has marked the key, an owner changes
// nothing. Leases and times to live are from MinSpan to MaxSpan, rounded up to
// a millisecond.
type Marks interface {
	// Mark makes the key the owner's for the lease, unless it is another's or
	// done. It is the owner's still where it was before, from now on for this
	// lease: so a repeat of a call whose answer was lost is harmless. Where its
	// outcome stays Unknown the mark may stand: an owner that goes on without the
	// store calls Settle or Forget at its end all the same. At worst a mark that
	// was long on its way stands for its lease with nobody behind it.
	Mark(ctx context.Context, key, owner string, lease time.Duration) (State, error)
	// Keep makes the lease end that long from now. ErrLost says that the mark is
	// not the owner's any more: the lease is over, or it is done. A mark that ran
	// out is not taken again, as a Keep that was long on its way must not bring
	// back what was forgotten meanwhile; Mark does that.
	Keep(ctx context.Context, key, owner string, lease time.Duration) error
	// Settle says that the key is done, for the time to live. It works too where
	// the lease is over and nobody has the key, as the owner's work is done all
	// the same. ErrLost says that another has it or has settled it. A repeat by the
	// same owner changes nothing.
	Settle(ctx context.Context, key, owner string, ttl time.Duration) error
	// Forget takes the mark away, so that the next one is Mine. What is not in
	// progress at this owner is left as it is.
	Forget(ctx context.Context, key, owner string) error
}

// State is what Mark found.
type State struct {
	Found Found
	// Left is how long the mark stands if nobody changes it: the caller's own
	// lease, another's, or what is left of the time to live. Never negative.
	Left time.Duration
	// Age is how long ago it was settled; zero unless it is Done.
	Age time.Duration
}

// Found is whose a mark is.
type Found uint8

// What Mark finds.
const (
	// Mine: it is in progress at this owner. Keep, Settle and Forget move on.
	Mine Found = iota + 1
	// Taken: it is in progress at another owner, and free when Left has passed,
	// or before that.
	Taken
	// Done: it was settled, and is free when Left has passed.
	Done
)

func (f Found) String() string {
	switch f {
	case Mine:
		return "mine"
	case Taken:
		return "taken"
	case Done:
		return "done"
	}
	return "unknown"
}

// Counters count in slots of a series, say one for each half second of a budget.
type Counters interface {
	// Add adds to the counters of the slots and returns the totals after it, in
	// the same order, all in one step. A counter that is not there is zero, and
	// adding nothing to it does not make it. A slot is forgotten when ttl has
	// passed since something was last added to it.
	//
	// A repeat counts twice. Where the error's Outcome is Unknown the counts may
	// have arrived, and only who counts knows which error is the better one.
	//
	// A series is any text of at least one byte; there are 1 to MaxSlots slots of
	// different numbers, each with 1 to MaxCounts counters from 0 to MaxDelta. A
	// total stops at MaxTotal. The slots handed in are not changed.
	Add(ctx context.Context, series string, slots []Slot, ttl time.Duration) (totals []Slot, err error)
}

// Slot is one slot of a series.
type Slot struct {
	Number int64
	Counts []int64
}

// Bounds of arguments.
const (
	// MaxOwner is several times a ULID, so that a relay's name fits before it.
	MaxOwner = 128
	// MinSpan is the finest that stores keep.
	MinSpan = time.Millisecond
	// MaxSpan is a year: longer than anybody remembers a duplicate.
	MaxSpan = 366 * 24 * time.Hour
	// MaxSlots is three windows of a budget, which has 22.
	MaxSlots = 64
	// MaxCounts is four times what a budget counts.
	MaxCounts = 8
	// MaxDelta is above what any relay counts in a day, and far enough below
	// MaxTotal that no single addition fills a counter.
	MaxDelta = 1 << 40
	// MaxTotal is a number that a script's floating point still holds exactly,
	// with one MaxDelta added.
	MaxTotal = 1 << 52
)
