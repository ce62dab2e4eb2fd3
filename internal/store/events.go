package store

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
)

// EventType is what an event tells of.
type EventType string

// The types of event.
const (
	JobCreated       EventType = "job.created"
	JobRetried       EventType = "job.retried" // queued again, by its policy or by a person
	JobSucceeded     EventType = "job.succeeded"
	JobFailed        EventType = "job.failed"
	JobCancelled     EventType = "job.cancelled"
	JobDeleted       EventType = "job.deleted"
	CircuitOpened    EventType = "circuit.opened"
	CircuitHalfOpen  EventType = "circuit.half_open"
	CircuitClosed    EventType = "circuit.closed"
	QueuePaused      EventType = "queue.paused"
	QueueResumed     EventType = "queue.resumed"
	EndpointPaused   EventType = "endpoint.paused"
	EndpointResumed  EventType = "endpoint.resumed"
	EndpointHeld     EventType = "endpoint.held"
	ReplayMoved      EventType = "replay.moved"
	SubscriptionGone EventType = "subscription.disabled"
)

// EventTypes lists every type.
func EventTypes() []EventType {
	return []EventType{
		JobCreated, JobRetried, JobSucceeded, JobFailed, JobCancelled, JobDeleted,
		CircuitOpened, CircuitHalfOpen, CircuitClosed, QueuePaused, QueueResumed,
		EndpointPaused, EndpointResumed, EndpointHeld, ReplayMoved, SubscriptionGone,
	}
}

// Seldom reports whether events of the type are written whether or not somebody
// wants them: they are few, and what an operator looks for afterwards.
func (t EventType) Seldom() bool {
	switch t {
	case JobCreated, JobRetried, JobSucceeded:
		return false
	default:
		return true
	}
}

// Event is one thing that happened, written in the transaction of what it tells.
type Event struct {
	// ID grows in the order of the commits, and is its cursor.
	ID   int64
	Type EventType
	At   time.Time
	// What applies: the job with its queue, task and version, the endpoint, a
	// replay or a subscription by its id.
	Job, Queue, Task, Version, Endpoint, Subject string
	// Data is a JSON object of what else there is to say: attempt, reason, error,
	// run_at, generation, by.
	Data []byte
}

// EventFilter chooses events. Zero fields let everything pass.
type EventFilter struct {
	Types  []EventType
	Queues []string
}

// EventQueue begins the names of the queues in which deliveries of events are
// jobs. Nothing that happens in them is an event.
const EventQueue = job.RelayPrefix + "events:"

// EventsPage is how many events one call returns at most.
const EventsPage = 500

// Events keeps what happened, in order.
type Events interface {
	// WantEvents says which types that are not Seldom are written from now on, in
	// place of what was said before.
	WantEvents(ctx context.Context, types []EventType) error
	// Events returns those behind the id, oldest first, at most limit, and the id
	// behind which the next ones are: it grows also past events that the filter
	// left out. Gone says that some behind the id were kept no longer, or that the
	// id is ahead of every event, as after a backup was put back: then they begin
	// with the oldest.
	Events(ctx context.Context, f EventFilter, after int64, limit int) (EventsRead, error)
	// AwaitEvents returns nil once an event behind the id is there, or ctx.Err().
	AwaitEvents(ctx context.Context, after int64) error
	// LastEvent returns the id of the newest event; 0 for none ever.
	LastEvent(ctx context.Context) (int64, error)
	// Cursor returns how far a reader has come, 0 for nowhere. Hand over moves it on
	// and stores the jobs in one transaction, so that a crash neither skips an event
	// nor doubles one; a cursor that does not stand at from is ErrStatus.
	Cursor(ctx context.Context, reader string) (int64, error)
	HandOver(ctx context.Context, reader string, from, to int64, jobs []NewJob) error
	// DropCursor forgets a reader.
	DropCursor(ctx context.Context, reader string) error
}

// EventsRead is a part of the events.
type EventsRead struct {
	Events []Event
	Next   int64
	Gone   bool
}
