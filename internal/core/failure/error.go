package failure

import (
	"errors"
	"fmt"
	"time"
)

// Class says whether a failure that no list of the user names is worth
// another try.
type Class uint8

// The classes. The zero value is Transient: what is not known to be permanent
// is tried again.
const (
	Transient Class = iota
	Permanent
)

// String returns "transient" or "permanent".
func (c Class) String() string {
	if c == Permanent {
		return "permanent"
	}
	return "transient"
}

// Verdict is what a failed attempt says about the health of its endpoint. It
// never depends on the user's retry lists.
type Verdict uint8

// The verdicts. The zero value is Sick, so that a forgotten verdict opens a
// breaker too early rather than never.
const (
	// Sick: the endpoint is broken. Connection failures, timeouts, 5xx, the
	// protocol's transient codes.
	Sick Verdict = iota
	// Suspect: broken only if the endpoint answered well within the breaker's
	// window (401, 403, 404, 405, tls); else it says as much as Alive.
	Suspect
	// Neutral: says nothing (any 429, a 503 with Retry-After, 408, 425,
	// cancelled attempts, failures on pawl's own side).
	Neutral
	// Alive: the endpoint answered, and the message was at fault.
	Alive
)

// String returns the verdict's name.
func (v Verdict) String() string {
	switch v {
	case Sick:
		return "sick"
	case Suspect:
		return "suspect"
	case Neutral:
		return "neutral"
	case Alive:
		return "alive"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Error is the failure of one attempt. Make it where the protocol is known,
// with every tag that fits, from broad to exact, and never with a secret in
// its message: it is logged, kept in dead letters and shown.
type Error struct {
	Tags    Tags
	Class   Class
	Verdict Verdict
	// Message is one line for people, without the tags.
	Message string
	// RetryAfter is what the endpoint asked to wait, counted from the answer;
	// zero or less means it asked for nothing.
	RetryAfter time.Duration
	// Throttled says the endpoint refused for load (429, a broker's throttle):
	// a ramp that lets traffic back is halved.
	Throttled bool
	// Err is the cause, if there is one.
	Err error
}

// Error returns the message, or the cause's where there is none.
func (e *Error) Error() string {
	switch {
	case e.Message != "":
		return e.Message
	case e.Err != nil:
		return e.Err.Error()
	}
	return e.Tags.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// From returns err as an *Error. One that no adapter classified becomes a
// transient, neutral failure without tags, so that it is retried and charged
// to nobody's health; nil stays nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Class: Transient, Verdict: Neutral, Message: err.Error(), Err: err}
}

// maxText bounds the text of an error in a record, in bytes: enough for a
// sentence and a cause, too little to smuggle a body in.
const maxText = 1024

// Clip bounds a text that is to be kept in a record or a log line.
func Clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > maxText-4 && s[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes more)", s[:cut], len(s)-cut)
}
