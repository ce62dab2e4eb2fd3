package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/semaphore"
)

// Waits that a sender is asked to make, like those of the relay.
const (
	storedWhenFull    = time.Second      // a commit takes milliseconds
	storedWhenPaused  = 10 * time.Second // a person is at work
	storedWhenTrouble = 5 * time.Second  // a full disk is not cleared in a second
)

// Why a message was not stored.
var (
	errStoredFull  = errors.New("no room: max_in_flight or max_in_flight_bytes of the source is reached")
	errStoredOther = errors.New("this key was used for another body; use a new key for a new message")
)

// intake takes the messages of a source with ack: stored into the source's own
// queue, and answers once they are durable there. A companion of the source
// (sources.go) takes them from the queue and hands them to the relay. Safe for
// concurrent use.
//
// It holds no more messages at once than the source may have open; those that
// are in the queue are on the disk and count no more.
type intake struct {
	source string
	queues connector.Queues
	places *semaphore.Semaphore
	bytes  *semaphore.Semaphore
	paused func(source string) bool
	events event.Sink
	letter func(context.Context, *message.DeadLetter) error
}

func (a *App) newIntake(s *config.Source) *intake {
	return &intake{
		source: s.Name, queues: a.jobs.messages(), events: a.events, paused: a.levers.Paused, letter: a.engine.write,
		places: semaphore.New(int64(s.MaxInFlight)), bytes: semaphore.New(s.MaxInFlightBytes),
	}
}

// resize puts other bounds in force.
func (in *intake) resize(s *config.Source) {
	in.places.Resize(int64(s.MaxInFlight))
	in.bytes.Resize(s.MaxInFlightBytes)
}

// Handle stores one message.
func (in *intake) Handle(ctx context.Context, d connector.Delivery) connector.Settlement {
	began := time.Now()
	s, counted := in.handle(ctx, d)
	now := time.Now()
	e := event.Event{Kind: event.Settled, At: now, Source: in.source, MessageID: d.Message.ID, Settlement: counted, Took: now.Sub(began)}
	if s.Err != nil {
		e.Error = s.Err.Error()
	}
	in.events(e)
	return s
}

// handle returns the settlement, and as what it counts: a repeat is joined.
func (in *intake) handle(ctx context.Context, d connector.Delivery) (connector.Settlement, event.Settlement) {
	m := d.Message
	refused := func(after time.Duration, err error) (connector.Settlement, event.Settlement) {
		return connector.Settlement{Status: event.SettledRefused, ID: m.ID, RetryAfter: after, Err: err}, event.SettledRefused
	}
	if in.paused(in.source) {
		return refused(storedWhenPaused, connector.ErrPaused)
	}
	if !in.places.TryAcquire(1) {
		return refused(storedWhenFull, errStoredFull)
	}
	defer in.places.Release(1)
	size := int64(len(m.Body))
	if !in.bytes.TryAcquire(size) {
		return refused(storedWhenFull, errStoredFull)
	}
	defer in.bytes.Release(size)
	// The caller's end does not make what was begun unknown.
	kept, err := in.queues.Put(context.WithoutCancel(ctx), connector.Put{Queue: config.RelayQueue(in.source), Key: in.key(d), Message: m})
	if err == nil {
		counted := event.SettledStored
		if kept.Found {
			counted = event.SettledJoined
		}
		return connector.Settlement{Status: event.SettledStored, ID: m.ID}, counted
	}
	switch {
	case errors.Is(err, connector.ErrKeyConflict):
		return connector.Settlement{Status: event.SettledConflict, ID: m.ID, Err: errStoredOther}, event.SettledConflict
	case errors.Is(err, connector.ErrTooLarge): // no repeat would fit either
		return in.bury(ctx, m, err)
	case d.Nackable != nil && !d.Nackable():
		return in.bury(ctx, m, err)
	}
	return connector.Settlement{
		Status: event.SettledNacked, ID: m.ID, RetryAfter: storedWhenTrouble, Err: fmt.Errorf("it could not be stored: %w", err),
	}, event.SettledNacked
}

// bury keeps a message as a dead letter that could not be stored and that its
// sender can't or need not send again.
func (in *intake) bury(ctx context.Context, m *message.Message, why error) (connector.Settlement, event.Settlement) {
	l := &message.DeadLetter{Message: m, Death: message.Death{
		At: time.Now(), Reason: message.ReasonNoRoute, Error: fmt.Sprintf("it could not be stored: %v", why),
	}}
	if err := in.letter(context.WithoutCancel(ctx), l); err != nil {
		return connector.Settlement{Status: event.SettledNacked, ID: m.ID, RetryAfter: storedWhenTrouble, Err: errors.Join(why, err)}, event.SettledNacked
	}
	return connector.Settlement{Status: event.SettledDeadLettered, ID: m.ID}, event.SettledDeadLettered
}

// key names a message that its sender named, once for each caller; "" for one
// that pawl named. Names of sources and callers as they are escaped hold no
// slash, so no two are written alike, and no destination's name has a colon.
func (in *intake) key(d connector.Delivery) string {
	if !d.Keyed {
		return ""
	}
	return config.RelayQueue(in.source) + "/" + url.PathEscape(d.Caller) + "/" + d.Message.ID
}
