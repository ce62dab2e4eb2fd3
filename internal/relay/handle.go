package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/settle"
)

// Handler returns what the source with the name hands its messages to. The
// source must be in the configuration that was swapped in last.
func (r *Relay) Handler(source string) (connector.Handler, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in, ok := r.intakes[source]
	if !ok {
		return nil, fmt.Errorf("the relay knows no source %q", source)
	}
	return in, nil
}

// Why a message was not begun.
var (
	errStopping = errors.New("pawl is stopping")
	errGone     = errors.New("the source is not configured any more")
	errFull     = errors.New("no room: max_in_flight or max_in_flight_bytes of the source is reached")
	errCrowded  = errors.New("too many repeats of this message wait for its outcome already")
	errJoined   = errors.New("joined too many: as many repeats wait as max_in_flight or max_in_flight_bytes of the source allow")
	errConflict = errors.New("this key was used for another body; use a new key for a new message")
)

// Waits that a refused sender is asked to make.
const (
	retryWhenFull    = time.Second      // room comes with the next answer of an endpoint
	retryWhenPaused  = 10 * time.Second // a person is at work
	retryWhenStopped = 5 * time.Second  // about a restart
	retryWhenNacked  = 5 * time.Second  // a full disk is not cleared in a second
)

// settled is a settlement with what the metrics and the access log want to know.
type settled struct {
	connector.Settlement
	counted     event.Settlement // joined where the settlement is another's
	route       string
	destination string
	attempts    int
}

func ended(status event.Settlement, id string) settled {
	return settled{Settlement: connector.Settlement{Status: status, ID: id}, counted: status}
}

func refused(id string, after time.Duration, err error) settled {
	s := ended(event.SettledRefused, id)
	s.RetryAfter, s.Err = after, err
	return s
}

func nacked(id string, after time.Duration, err error) settled {
	s := ended(event.SettledNacked, id)
	s.RetryAfter, s.Err = after, err
	return s
}

// Handle settles one message of the source.
func (in *intake) Handle(ctx context.Context, d connector.Delivery) connector.Settlement {
	began := time.Now()
	s := in.handle(ctx, d)
	now := time.Now()
	e := event.Event{
		Kind: event.Settled, At: now, Source: in.name, MessageID: d.Message.ID, Settlement: s.counted,
		Route: s.route, Destination: s.destination, Number: s.attempts, Took: now.Sub(began),
	}
	if s.Err != nil {
		e.Error = s.Err.Error()
	}
	in.relay.opts.Events(e)
	return s.Settlement
}

func (in *intake) handle(ctx context.Context, d connector.Delivery) settled {
	if !in.relay.enter() {
		return refused(d.Message.ID, retryWhenStopped, errStopping)
	}
	defer in.relay.leave()
	return in.join(ctx, d)
}

// enter counts a message in; false once the relay is stopping.
func (r *Relay) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		return false
	}
	r.settling++
	return true
}

// stops says whether the relay is stopping.
func (r *Relay) stops() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}

func (r *Relay) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settling--; r.stopping && r.settling == 0 {
		close(r.idle)
	}
}

// join answers a repeat with the outcome of the message it repeats, and settles
// everything else.
func (in *intake) join(ctx context.Context, d connector.Delivery) settled {
	if !d.Keyed {
		return in.admit(ctx, d)
	}
	key := settle.Key{Source: in.name, Caller: d.Caller, ID: d.Message.ID}
	for {
		ticket, found := in.relay.opts.Memory.Begin(key, d.Message.Body)
		switch found {
		case settle.First:
			return in.admitFirst(ctx, d, ticket)
		case settle.InFlight:
			leave, ok := in.enterJoined(int64(len(d.Message.Body)))
			if !ok {
				ticket.Leave()
				return refused(d.Message.ID, retryWhenFull, errJoined)
			}
			o, ok := ticket.Wait(ctx)
			leave()
			if ok {
				return joined(o)
			}
			if ctx.Err() != nil {
				return refused(d.Message.ID, retryWhenFull, ctx.Err()) // its own sender is gone; the message goes on
			}
		case settle.Crowded:
			return refused(d.Message.ID, retryWhenFull, errCrowded)
		case settle.Settled:
			return joined(ticket.Outcome())
		case settle.Conflict:
			s := ended(event.SettledConflict, d.Message.ID)
			s.Err = errConflict
			return s
		}
	}
}

// enterJoined finds room for a repeat that waits: it takes none from the
// messages, since what it waits for may be what holds all of it, and as much
// again at most.
func (in *intake) enterJoined(size int64) (leave func(), ok bool) {
	if !in.joins.TryAcquire(1) {
		return nil, false
	}
	if !in.joinBytes.TryAcquire(size) {
		in.joins.Release(1)
		return nil, false
	}
	return func() {
		in.joins.Release(1)
		in.joinBytes.Release(size)
	}, true
}

// admitFirst settles a message that repeats may join. Whatever happens, its
// ticket ends: a repeat must not wait for ever.
func (in *intake) admitFirst(ctx context.Context, d connector.Delivery, ticket *settle.Ticket) (s settled) {
	defer func() {
		if s.Acked() {
			ticket.Keep(settle.Outcome{Status: s.Status, ID: s.ID})
		} else {
			ticket.Forget()
		}
	}()
	return in.admit(ctx, d)
}

func joined(o settle.Outcome) settled {
	s := ended(o.Status, o.ID)
	s.counted = event.SettledJoined
	return s
}
