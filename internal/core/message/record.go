package message

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// Outcome is how one attempt ended.
type Outcome string

// The outcomes of an attempt, as the metrics name them.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeRetry     Outcome = "retry"     // failed, and retryable, the last try included
	OutcomePermanent Outcome = "permanent" // failed, and not worth another try
	OutcomeCancelled Outcome = "cancelled" // given up by pawl itself
)

// HopReason is why a destination was left for the next of its chain, or for
// the dead letters.
type HopReason string

// The reasons of a hop.
const (
	HopExhausted   HopReason = "exhausted"    // every attempt failed
	HopPermanent   HopReason = "permanent"    // a failure not worth another try
	HopBreakerOpen HopReason = "breaker_open" // the breaker is open and there is somewhere else to go
	HopBudget      HopReason = "budget"       // the retry budget is spent
	HopDeadline    HopReason = "deadline"     // the next wait would end past the deadline
	HopFull        HopReason = "full"         // a fallback's lane had no place in time
	HopCancelled   HopReason = "cancelled"    // pawl is stopping
	// HopDeferred: the next wait is longer than a delivery may wait in memory, so
	// the message goes back to its queue. No dead letter has it.
	HopDeferred HopReason = "deferred"
)

// Attempt is the record of one try. MarshalJSONTo says how it is written.
type Attempt struct {
	Number   int // the first is 1, per destination
	Endpoint string
	At       time.Time     // when the send began
	Waited   time.Duration // backoff, hold, ramp, breaker and worker, before At
	Duration time.Duration // of the send
	Outcome  Outcome
	Tags     failure.Tags
	Error    string
	Hedge    bool // sent while another was unanswered
}

// Hop is the record of one destination that was left without success.
type Hop struct {
	Destination string    `json:"destination"`
	Reason      HopReason `json:"reason"`
	At          time.Time `json:"at"` // when it was left
	Attempts    []Attempt `json:"attempts,omitempty"`
	// Tags and Error are those of the last failure, or of what ended the
	// waiting where nothing was tried.
	Tags  failure.Tags `json:"tags,omitempty"`
	Error string       `json:"error,omitempty"`
}

// Reason is why a message became a dead letter.
type Reason string

// The reasons of a dead letter.
const (
	ReasonDelivery  Reason = "delivery"
	ReasonNoRoute   Reason = "no_route"
	ReasonTransform Reason = "transform"
	ReasonSchema    Reason = "schema"
)

// Reasons lists every reason, in the order of the reference.
func Reasons() []Reason {
	return []Reason{ReasonDelivery, ReasonNoRoute, ReasonTransform, ReasonSchema}
}

// DeadLetter is a message that could not be brought to where it had to go,
// with the story of why. Its written form is the message's with Death as the
// attribute dlq.
type DeadLetter struct {
	Message *Message // without a dlq attribute of its own
	Death
}

// Death is the attribute dlq: when, where, why, and what was tried.
type Death struct {
	Letter string `json:"letter"` // the letter's own id, a ULID
	Relay  string `json:"relay"`
	// Source is the one that the message came in by, where that is not the
	// message's own: a queue's messages keep theirs.
	Source      string       `json:"source,omitempty"`
	At          time.Time    `json:"at"`
	Reason      Reason       `json:"reason"`
	Destination string       `json:"destination,omitempty"`
	Route       string       `json:"route,omitempty"`
	Attempts    int          `json:"attempts"` // over all hops
	Tags        failure.Tags `json:"tags,omitempty"`
	Error       string       `json:"error"`
	Hops        []Hop        `json:"hops,omitempty"`
	// Replays are the earlier deaths of the same message for the same
	// destination or route, oldest first, without their own Replays.
	Replays []Death `json:"replays,omitempty"`
}
