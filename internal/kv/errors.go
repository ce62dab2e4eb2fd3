package kv

import "errors"

var (
	// ErrUnavailable is what every *Unavailable is.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrLost says that a mark is not the owner's any more.
	ErrLost = errors.New("the mark is not this owner's any more")
	// ErrInvalid says that an argument is out of its bounds: a defect of the
	// caller.
	ErrInvalid = errors.New("invalid argument")
	// ErrClosed is the cause where the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrFull is the cause where a bounded store has no room that it may take
	// from another.
	ErrFull = errors.New("the store is full")
)

// Unavailable says that an operation got no answer, or that the store could not
// do it. errors.Is finds ErrUnavailable and the cause. Its text holds no
// password.
type Unavailable struct {
	Op      Op
	Outcome Outcome
	Cause   error
}

func (e *Unavailable) Error() string {
	return "store unavailable: " + string(e.Op) + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Unavailable) Unwrap() error { return e.Cause }

// Is is true of ErrUnavailable.
func (e *Unavailable) Is(target error) bool { return target == ErrUnavailable }

// Op is the name of an operation, in errors and metrics.
type Op string

// The operations of a Store.
const (
	OpMark   Op = "mark"
	OpKeep   Op = "keep"
	OpSettle Op = "settle"
	OpForget Op = "forget"
	OpAdd    Op = "add"
	OpPing   Op = "ping"
)

// Outcome is what is known of an operation that failed.
type Outcome uint8

// The outcomes.
const (
	// Unknown: it may have been done, and may even be done yet.
	Unknown Outcome = iota
	// NotDone: nothing was done, and a repeat may fare better.
	NotDone
	// Refused: the store answered that it won't, and will not do it next time: a
	// wrong password, say, or a key that something else uses.
	Refused
)

func (o Outcome) String() string {
	switch o {
	case NotDone:
		return "not done"
	case Refused:
		return "refused"
	case Unknown:
	}
	return "unknown"
}
