package breaker

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// State is where a breaker stands. The numbers are those of the metric
// pawl_breaker_state.
type State uint8

// The states.
const (
	// Closed: everything passes and is counted. Left for Open at the ratio.
	Closed State = 0
	// HalfOpen: trials pass. Left for Closed after enough passes, for Open at
	// the first failure.
	HalfOpen State = 1
	// Open: nothing passes. Left for HalfOpen when its time is over.
	Open State = 2
)

// String returns closed, half_open or open.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half_open"
	case Open:
		return "open"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Forced is what an operator told a breaker to do.
type Forced uint8

// The operator's lever.
const (
	// ForceAuto: the breaker decides by itself.
	ForceAuto Forced = iota
	// ForceOpen: nothing passes until the lever is moved.
	ForceOpen
	// ForceClosed: everything passes and nothing is counted.
	ForceClosed
)

// String returns auto, open or closed.
func (f Forced) String() string {
	switch f {
	case ForceAuto:
		return "auto"
	case ForceOpen:
		return "open"
	case ForceClosed:
		return "closed"
	}
	return fmt.Sprintf("forced(%d)", uint8(f))
}

// Outcome is what an attempt said about the health of its endpoint.
type Outcome uint8

// The outcomes. The zero value is Sick, as with failure.Verdict.
const (
	// Sick: the endpoint is broken. A failure.
	Sick Outcome = iota
	// Success: the message was taken. Proof of health.
	Success
	// Alive: the endpoint answered and the message was at fault. Proof of
	// health too.
	Alive
	// Suspect is Sick when a Success or Alive was counted within the window
	// before it; else the endpoint always answers so, and it passes as Alive
	// does without being proof of health.
	Suspect
	// SuspectTLS is Suspect from an endpoint whose certificate did not verify:
	// nothing of it was reached, so where it is not Sick it is Neutral.
	SuspectTLS
	// Neutral: an answer that says nothing about health.
	Neutral
	// Unanswered: pawl gave the attempt up before an answer. Neutral, but an
	// attempt that was slow by then stays counted as a failure.
	Unanswered
)

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case Sick:
		return "sick"
	case Success:
		return "success"
	case Alive:
		return "alive"
	case Suspect:
		return "suspect"
	case SuspectTLS:
		return "suspect_tls"
	case Neutral:
		return "neutral"
	case Unanswered:
		return "unanswered"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Of returns the outcome of an attempt that ended with f; nil is Success.
func Of(f *failure.Error) Outcome {
	if f == nil {
		return Success
	}
	switch f.Verdict {
	case failure.Sick:
		return Sick
	case failure.Suspect:
		if f.Tags.Has(failure.TLS) {
			return SuspectTLS
		}
		return Suspect
	case failure.Neutral:
		if f.Tags.Has(failure.Cancelled) {
			return Unanswered
		}
		return Neutral
	case failure.Alive:
		return Alive
	}
	return Sick
}

// Answer is what a look at a breaker says.
type Answer uint8

// The answers.
const (
	// Pass: an attempt may go now.
	Pass Answer = iota
	// Wait: none may.
	Wait
)

// String returns pass or wait.
func (a Answer) String() string {
	if a == Wait {
		return "wait"
	}
	return "pass"
}

// Look is what Breaker.Look found.
type Look struct {
	Answer Answer
	// Until is the earliest moment a trial may go, when the answer is Wait. It
	// is zero when that is not a matter of time: a trial in flight must end
	// first, or the operator holds the breaker open.
	Until time.Time
}

// Move is one change of state.
type Move struct {
	From, To State
	// At is when it moved, which may be before the call that noticed.
	At time.Time
	// Failures and Outcomes are what the window held when it left Closed.
	Failures, Outcomes int
}

// Snapshot is a breaker for people to look at.
type Snapshot struct {
	State  State
	Forced Forced
	// Failures, Outcomes and Messages are what the window holds; zero unless
	// Closed.
	Failures, Outcomes, Messages int
	// OpenUntil is when trials may begin, where Open and not forced.
	OpenUntil time.Time
	// Trials are in flight and Passes have passed, where HalfOpen.
	Trials, Passes int
}
