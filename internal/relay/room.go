package relay

import (
	"context"

	"github.com/pawlhq/pawl/internal/connector"
)

// room is what a message holds of its source's bounds. The zero value is none.
type room struct {
	in   *intake
	size int64
}

// leave gives it back.
func (r room) leave() {
	if r.in != nil {
		r.in.room.Release(1)
		r.in.bytes.Release(r.size)
	}
}

// enter finds room for a message. Without it the settlement says why, and false
// that the message was not begun. One that has waited for another, so that its
// sender may have been told that it goes on, finds room, or has none and is begun
// all the same: pawl ends then, and all that is left for it is a dead letter.
func (in *intake) enter(ctx context.Context, d connector.Delivery, at stage) (room, SourceSpec, settled, bool) {
	in.mu.Lock()
	spec, gone, paused := in.spec, in.gone, in.paused
	in.mu.Unlock()
	var r room
	var s settled
	ok := false
	switch {
	case gone: // without routes it would be acked as unrouted
		s = refused(d.Message.ID, retryWhenStopped, errGone)
	case spec.Push == Refuse:
		r, s, ok = in.enterNow(d, paused)
	default:
		r, s, ok = in.enterWaiting(ctx, d, paused)
	}
	if ok || at == unasked || nackable(d) {
		return r, spec, s, ok
	}
	if gone {
		spec.Unrouted = DeadLetterUnrouted
		return room{}, spec, s, true
	}
	r, s, _ = in.enterWaiting(in.relay.work, d, paused)
	return r, spec, s, true
}

// enterNow is enter for a source that can't pause.
func (in *intake) enterNow(d connector.Delivery, paused <-chan struct{}) (room, settled, bool) {
	if paused != nil {
		return room{}, refused(d.Message.ID, retryWhenPaused, connector.ErrPaused), false
	}
	size := int64(len(d.Message.Body))
	if !in.room.TryAcquire(1) {
		return room{}, refused(d.Message.ID, retryWhenFull, errFull), false
	}
	if !in.bytes.TryAcquire(size) {
		in.room.Release(1)
		return room{}, refused(d.Message.ID, retryWhenFull, errFull), false
	}
	return room{in, size}, settled{}, true
}

// enterWaiting is enter for a source that can pause: it waits for room until
// ctx ends or stopping gives up.
func (in *intake) enterWaiting(ctx context.Context, d connector.Delivery, paused <-chan struct{}) (room, settled, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.relay.work, cancel)()
	if paused != nil {
		select {
		case <-paused:
		case <-ctx.Done():
			return room{}, refused(d.Message.ID, retryWhenPaused, connector.ErrPaused), false
		}
		if in.relay.stops() { // which ended the pause, and resumed nothing
			return room{}, refused(d.Message.ID, retryWhenStopped, errStopping), false
		}
	}
	size := int64(len(d.Message.Body))
	if err := in.room.Acquire(ctx, 1); err != nil {
		return room{}, refused(d.Message.ID, retryWhenFull, errFull), false
	}
	if err := in.bytes.Acquire(ctx, size); err != nil {
		in.room.Release(1)
		return room{}, refused(d.Message.ID, retryWhenFull, errFull), false
	}
	return room{in, size}, settled{}, true
}
