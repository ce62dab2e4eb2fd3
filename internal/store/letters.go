package store

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// DeadLetters keeps the relay's dead letters. They are never rewritten: what
// became of one is its State.
type DeadLetters interface {
	// AddLetter stores a letter. One whose id is there already counts once.
	AddLetter(ctx context.Context, l Letter) error
	// Letters returns letters that the filter lets through, in the order they
	// were stored, after the given place; at most LettersPage,
	// and at most the filter's Limit.
	Letters(ctx context.Context, f LetterFilter, after int64) ([]Letter, error)
	// CountLetters returns how many the filter lets through.
	CountLetters(ctx context.Context, f LetterFilter) (int, error)
	// LastLetter returns the place of the letter that was stored last; 0 for none.
	LastLetter(ctx context.Context) (int64, error)
	// MarkLetters moves open letters to a state; ids that are not there, or not
	// open, are passed over.
	MarkLetters(ctx context.Context, ids []string, to LetterState, at time.Time) error
	// RemoveLetters deletes letters that are not open and died before the time,
	// some hundred a call.
	RemoveLetters(ctx context.Context, before time.Time) (More, error)
}

// LettersPage is how many letters one call returns at most.
const LettersPage = 500

// LetterState is what became of a letter.
type LetterState string

// The states of a letter.
const (
	LetterOpen     LetterState = "open"
	LetterReplayed LetterState = "replayed"
	LetterPurged   LetterState = "purged"
)

// Letter is a dead letter as it is kept.
type Letter struct {
	Place       int64 // grows in the order of storing
	ID          string
	MessageID   string
	Reason      message.Reason
	Destination string
	Route       string
	At          time.Time
	State       LetterState
	Body        []byte // the written form of message.EncodeLetter
}

// LetterFilter chooses letters. Zero fields let everything pass, but State:
// "" is every state.
type LetterFilter struct {
	Since       time.Time
	Before      time.Time
	Reason      message.Reason
	Destination string
	IDs         []string // of letters or messages
	State       LetterState
	// UpTo lets letters through up to this place; 0 lets all.
	UpTo int64
	// Limit is how many letters one page holds at most; 0 and more than
	// LettersPage is that. It changes no count.
	Limit int
}
