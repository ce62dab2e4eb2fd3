package deadletter

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// State is what became of a letter. A letter moves on from StateOpen once and never
// comes back.
type State uint8

// The states. The comment says who moves a letter there.
const (
	// StateOpen: nothing was done about it yet.
	StateOpen State = iota
	// StateReplayed: a replay delivered it, or failed again and left a newer
	// letter in its place.
	StateReplayed
	// StatePurged: somebody gave it up with Purge.
	StatePurged
)

// String returns open, replayed or purged.
func (s State) String() string {
	switch s {
	case StateOpen:
		return "open"
	case StateReplayed:
		return "replayed"
	case StatePurged:
		return "purged"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// States says which letters a filter lets through by their state.
type States uint8

// The choices. The zero value is what people mean when they say nothing.
const (
	OnlyOpen States = iota
	AllStates
)

// Filter chooses letters. A field left at its zero value lets everything pass;
// the fields that are set must all match. The zero value is every open letter.
type Filter struct {
	// Since lets letters through that died at it or later.
	Since time.Time
	// Reason and Destination must be the letter's own.
	Reason      message.Reason
	Destination string
	// IDs are letters' ids or messages' ids; a message's stands for all its
	// letters. At most MaxIDs.
	IDs []string
	// State is OnlyOpen unless set.
	State States
}

// MaxIDs is how many ids one filter may name: more than anybody types, and few
// enough that each letter can be compared with all of them.
const MaxIDs = 1000

// Entry is a letter and what became of it. The letter belongs to the caller.
type Entry struct {
	*message.DeadLetter
	State State
}

// Stats are the store's counts, kept as letters come and go.
type Stats struct {
	// Open is how many letters are open.
	Open int
	// Oldest is when the open letter that was stored first died; zero when
	// none is open.
	Oldest time.Time
	// Damaged is how many lines of the files could not be read as letters or
	// marks since the store was opened. They stay where they are.
	Damaged int
}
