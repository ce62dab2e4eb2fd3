// Package event says what happened, as data. Engines send events after they
// let go of their locks; telemetry, the live view and the access log read
// them. An Event is passed by value and holds no pointer to anything that
// changes.
package event

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Kind is what happened.
type Kind uint8

// The kinds. The comment names the fields that are set beside Kind and At.
const (
	// AttemptEnded: Destination, Endpoint, Route, MessageID, Number, Outcome,
	// Took, Waited (of which Limited for the rate limit), Hedge, Tags and Error
	// unless ok.
	AttemptEnded Kind = iota + 1
	// Hopped: Destination (left), To (the next, "" for the dead letters),
	// Route, MessageID, Hop, Tags, Error.
	Hopped
	// Delivered: Route, Destination (as routed), Endpoint (where it arrived),
	// MessageID, Number (attempts in all), Took.
	Delivered
	// DeliveryFailed: the whole chain failed: Route, Destination, MessageID,
	// Number, Hop, Tags, Error, Took; Required unless it was best effort.
	DeliveryFailed
	// Deferred: a delivery went back to the queue that its message came from, to
	// wait there: Route, Destination, MessageID, Number (attempts of this pass),
	// Waited (how long it is to wait), Took, Tags, Error.
	Deferred
	// LeaseLost: a queue gave a message to somebody else while its delivery was
	// under way, so that it may be delivered twice: Source, MessageID, Detail
	// (the job).
	LeaseLost
	// BestEffortDropped: a best-effort delivery given up (failed, or its lane
	// was full): Route, Destination, MessageID, Error.
	BestEffortDropped
	// BreakerMoved: Destination, Endpoint, Breaker, BreakerFrom.
	BreakerMoved
	// HoldSet: Destination, Endpoint, Took (its length).
	HoldSet
	// Lettered: a dead letter was stored: Reason, Destination, Route,
	// MessageID, Letter, Error.
	Lettered
	// LetterFailed: a dead letter could be stored nowhere: as Lettered.
	LetterFailed
	// Settled: a source's message came to its end: Source, MessageID,
	// Settlement, Took; Route and Destination where it was routed (several
	// names with commas between), Number (attempts in all).
	Settled
	// SourceUp and SourceDown: Source; Error when down.
	SourceUp
	SourceDown
	// ConnectionRetried: a request was sent again on a fresh connection since
	// a reused one was dead: Destination, Endpoint.
	ConnectionRetried
	// LeverPulled: a person changed something at run time: Name, Detail.
	LeverPulled
	// Reloaded: a configuration was swapped in, Number (the generation), or
	// refused, Error.
	Reloaded
	// RouterFellBack: a router of a route's chain did not decide: Route, To
	// (the type of the next router), Error.
	RouterFellBack
	// Raced: a race of hedged attempts is over: Destination, Route, MessageID,
	// Race, Number (hedges that were sent).
	Raced
	// HealthMoved: a member's health checks passed or failed often enough:
	// Destination, Endpoint, Health, Error when unhealthy.
	HealthMoved
	// BatchSent: several messages went in one attempt: Destination, Endpoint,
	// Number (of messages), Took.
	BatchSent
	// NoKey: a message had no key to know a repeat by, and passed: Source,
	// MessageID, Error where the expression failed.
	NoKey
	// StoreFailed: the relay went on without a store: Name, Detail (the
	// operation), Error.
	StoreFailed
	// StoreSkipped: the relay went on without asking a store that had failed a
	// moment before: Name, Detail (the operation).
	StoreSkipped
	// Alerted: an alert arrived, failed or was dropped: Name (its event),
	// Destination (where it went), Alert, Number (of events it tells of), Error.
	Alerted
)

// Race is which attempt of a race brought the first success.
type Race string

// The ends of a race.
const (
	RaceFirst Race = "first" // the attempt that it began with
	RaceHedge Race = "hedge"
	RaceNone  Race = "none" // all failed
)

// Health is what the health checks of a member say.
type Health uint8

// What health checks say.
const (
	Healthy Health = iota + 1
	Unhealthy
)

// String returns healthy or unhealthy.
func (h Health) String() string {
	if h == Unhealthy {
		return "unhealthy"
	}
	return "healthy"
}

// Alert is what became of an alert.
type Alert string

// What becomes of an alert.
const (
	AlertSent    Alert = "sent"
	AlertFailed  Alert = "failed"
	AlertDropped Alert = "dropped"
)

// Settlement is how a source's message ended, as the metrics name it.
type Settlement string

// The settlements.
const (
	SettledDelivered    Settlement = "delivered"
	SettledDeadLettered Settlement = "dead_lettered"
	SettledFiltered     Settlement = "filtered"
	SettledUnrouted     Settlement = "unrouted"
	SettledStored       Settlement = "stored"   // durable in a queue, which the relay works on
	SettledDeferred     Settlement = "deferred" // back in its queue, to wait there for its next attempt
	SettledNacked       Settlement = "nacked"   // nothing could take it, not even the dead letters
	SettledRefused      Settlement = "refused"  // no place; never begun
	SettledJoined       Settlement = "joined"   // answered with the outcome of an earlier one
	SettledConflict     Settlement = "conflict" // the key had another body
	SettledInvalid      Settlement = "invalid"  // the source refused the request: bad, unauthenticated, too large
)

// BreakerState is the state a breaker moved to.
type BreakerState uint8

// The states, with the numbers that the metric pawl_breaker_state uses.
const (
	BreakerClosed   BreakerState = 0
	BreakerHalfOpen BreakerState = 1
	BreakerOpen     BreakerState = 2
)

// String returns closed, half_open or open.
func (s BreakerState) String() string {
	switch s {
	case BreakerClosed:
		return "closed"
	case BreakerHalfOpen:
		return "half_open"
	default:
		return "open"
	}
}

// Event is one thing that happened. Which fields are set is said at its Kind.
type Event struct {
	Kind       Kind
	Settlement Settlement
	Breaker    BreakerState
	// BreakerFrom is the state that a breaker moved from.
	BreakerFrom BreakerState
	Health      Health
	Race        Race
	Alert       Alert
	Required    bool
	// Hedge says of an attempt that it was one.
	Hedge       bool
	Number      int
	At          time.Time
	Took        time.Duration
	Waited      time.Duration
	Limited     time.Duration
	Outcome     message.Outcome
	Hop         message.HopReason
	Reason      message.Reason
	Source      string
	Route       string
	Destination string
	Endpoint    string
	To          string
	MessageID   string
	Letter      string
	Name        string
	Detail      string
	Error       string
	Tags        failure.Tags
}

// Sink takes events. It must not block and must be safe for concurrent use.
type Sink func(Event)

// Discard is a Sink that drops everything.
func Discard(Event) {}

// Tee returns a Sink that hands each event to every one of sinks, in order.
func Tee(sinks ...Sink) Sink {
	if len(sinks) == 1 {
		return sinks[0]
	}
	return func(e Event) {
		for _, s := range sinks {
			s(e)
		}
	}
}
