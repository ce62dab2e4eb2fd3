package connector

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Source brings messages in.
type Source interface {
	// Run takes messages and hands each to h until ctx ends, then takes no
	// more, waits for the messages it handed over, and returns nil. It returns
	// an error only when it can never work again. Each message is handed over
	// on a goroutine of its own or on one that may wait, since Handle returns
	// only when the message is settled. Run reconnects by itself.
	//
	// Run reports through Env.Events when it goes down and comes back.
	Run(ctx context.Context, h Handler) error
	// Close gives up what Run still holds, at once, and the place at a shared
	// listener, where whoever comes between Run's end and Close is told to come
	// again. Calling it again does nothing.
	Close() error
}

// Handler settles messages. The relay is one. Safe for concurrent use.
type Handler interface {
	// Handle takes m through its routes and returns how it ended. For a source
	// that can pause (Kind.Pauses) it waits for places; for one that can't it
	// answers SettledRefused at once when there is none.
	//
	// The end of ctx does not abandon a message that has its places: only the
	// end of the process does. A listening source that must answer earlier
	// does so by itself, lets Handle run on, and says so by Nackable.
	Handle(ctx context.Context, d Delivery) Settlement
}

// Delivery is a message on its way from a source to the handler.
type Delivery struct {
	Message *message.Message
	// Caller is the authenticated caller ("" for none): repeats are joined
	// only within one caller. It is an opaque word without secrets.
	Caller string
	// Keyed says that Message.ID came from the caller, so that a repeat of it
	// may be joined. An id that pawl made up never repeats.
	Keyed bool
	// Nackable is asked when the message can only be nacked: false says that
	// nobody waits for the answer any more (a 504 went out, say), so it must
	// become a dead letter instead. nil means somebody always waits.
	Nackable func() bool
	// MaxWait is the longest wait that a delivery is to make in pawl's memory; 0
	// is any. A source that can keep the message itself sets it: where the next
	// wait would be longer, the message may be settled as SettledDeferred, and
	// the source hands it over again after Settlement.RetryAfter.
	MaxWait time.Duration
}

// ErrPaused is why a source that a person paused refuses messages.
var ErrPaused = errors.New("the source is paused")

// Settlement is how a message ended.
type Settlement struct {
	Status event.Settlement
	// ID is the id of the message that was settled.
	ID string
	// RetryAfter is when a refused or nacked message may be worth sending
	// again; zero where nothing is known. For a deferred one it is how long its
	// next attempt is to wait.
	RetryAfter time.Duration
	// Attempts is how many tries were made, for deferred: 0 says that the
	// message only waited, at an open breaker or in a hold.
	Attempts int
	// Err says why, for refused, nacked, conflict and deferred.
	Err error
}

// Acked reports whether the message is in pawl's hands: the source tells its
// sender that it need not send it again.
func (s Settlement) Acked() bool {
	switch s.Status {
	case event.SettledDelivered, event.SettledDeadLettered, event.SettledFiltered, event.SettledUnrouted, event.SettledStored:
		return true
	default:
		return false
	}
}
