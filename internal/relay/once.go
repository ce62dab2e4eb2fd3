package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/settle"
)

// Dedupe says which messages of a source are repeats: those with a key that was
// seen.
type Dedupe struct {
	// Key returns the key of a message, or "" for none. A message without one
	// passes, and so does one whose key fails.
	Key func(context.Context, *message.Message) (string, error)
	// Seen is what was seen. It outlives configurations.
	Seen *settle.Dedupe
}

// errCrowdedKey is why a message is refused that would be one too many to wait.
var errCrowdedKey = errors.New("too many messages with this key wait for the first of them already")

// errAfterFirst is why a message goes back to its queue.
var errAfterFirst = errors.New("another message with its key is in flight still")

// retryWaiting is when a message comes again that went back to its queue instead
// of waiting for another with its key: that one has waited for long already.
const retryWaiting = 5 * time.Second

// once is what deduping knows of a message on its way. The zero value is a
// message that nothing is known of.
type once struct {
	by    *Dedupe // nil: it passes
	key   string
	claim *settle.Claim
	stage stage
	// joined gives back the place among the repeats that wait, which it has until
	// it has room of its own; nil for none.
	joined func()
}

func (o *once) leaveJoined() {
	if o.joined != nil {
		o.joined()
		o.joined = nil
	}
}

// stage is how far a message is with its claim to be the first with its key.
type stage uint8

const (
	unasked stage = iota // the key is not known
	waits                // for another with the key; the claim is to wait
	passes               // it has no key, or the store could not say
	first                // the claim is to be settled or forgotten
)

// admit finds room for the message and settles it. One that waits for another
// with its key gives its room back meanwhile.
func (in *intake) admit(ctx context.Context, d connector.Delivery) settled {
	var o once
	defer o.leaveJoined()
	for {
		s := in.round(ctx, d, &o)
		if o.stage != waits {
			return s
		}
		if s, over := in.await(ctx, d, &o); over {
			return s
		}
	}
}

// round has the message settled, unless another with its key is in flight: then
// it is at the stage waits.
func (in *intake) round(ctx context.Context, d connector.Delivery, o *once) (s settled) {
	defer func() { o.end(in.relay, &s) }()
	r, spec, s, ok := in.enter(ctx, d, o.stage)
	if !ok {
		return s
	}
	defer r.leave()
	o.leaveJoined()
	return in.inRoom(ctx, d, spec, o)
}

// inRoom is round for a message that has room. Until its claim has its end it
// holds a configuration, and so the store.
func (in *intake) inRoom(ctx context.Context, d connector.Delivery, spec SourceSpec, o *once) (s settled) {
	if spec.Dedupe == nil && o.stage == unasked {
		return in.settle(ctx, d, spec)
	}
	g := in.relay.begin()
	defer in.relay.end(g)
	defer func() { o.end(in.relay, &s) }()
	if o.stage == unasked {
		in.ask(d, spec.Dedupe, o)
		if s, over := o.found(d, o.look(in.relay)); over || o.stage == waits {
			return s
		}
	}
	return in.settle(ctx, d, spec)
}

// ask finds the message's key.
func (in *intake) ask(d connector.Delivery, by *Dedupe, o *once) {
	o.stage = passes
	key, err := by.key(in.relay.work, d.Message)
	if err == nil && key != "" {
		o.by, o.key = by, key
		return
	}
	e := event.Event{Kind: event.NoKey, At: time.Now(), Source: in.name, MessageID: d.Message.ID}
	if err != nil {
		e.Error = failure.Clip(err.Error())
	}
	in.relay.opts.Events(e)
}

// key is Key for one that may panic.
func (by *Dedupe) key(ctx context.Context, m *message.Message) (key string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the key panicked: %v", v)
		}
	}()
	return by.Key(ctx, m)
}

// look looks the key up, if there is one, and returns what was found; First for
// a message that passes.
func (o *once) look(r *Relay) (found settle.Found) {
	if o.by == nil {
		return settle.First
	}
	o.claim, found = o.by.Seen.Begin(r.work, o.key)
	return found
}

// found notes what was found of the key. over says that the settlement is the end
// of the message.
func (o *once) found(d connector.Delivery, found settle.Found) (s settled, over bool) {
	o.stage = passes
	switch found {
	case settle.First:
		if o.by != nil {
			o.stage = first
		}
	case settle.InFlight:
		o.stage = waits
	case settle.Settled:
		return ended(event.SettledFiltered, d.Message.ID), true
	case settle.Crowded:
		return refused(d.Message.ID, retryWhenFull, errCrowdedKey), nackable(d)
	case settle.Conflict: // never comes: a key stands for any body
	}
	return settled{}, false
}

// end ends the claim of a message that was settled, whatever came of it: the
// next with its key must not wait for ever. What goes back to its queue is no
// end.
func (o *once) end(r *Relay, s *settled) {
	if o.stage != first {
		return
	}
	o.stage = passes
	if s.Acked() {
		o.claim.Settle(r.last)
	} else {
		o.claim.Forget(r.last)
	}
}

// await waits for the message that has the key, with a place among the repeats
// that wait and none of the source's. over says that the settlement is the end of
// the message; else it is at another stage.
func (in *intake) await(ctx context.Context, d connector.Delivery, o *once) (s settled, over bool) {
	leave, ok := in.enterJoined(int64(len(d.Message.Body)))
	if !ok {
		o.claim.Leave()
		o.stage = passes
		return refused(d.Message.ID, retryWhenFull, errJoined), nackable(d)
	}
	o.joined = leave
	for {
		found, err := o.wait(ctx, in.relay, d.MaxWait)
		if err != nil {
			if s, over := in.tired(ctx, d); over {
				return s, true
			}
			if in.relay.work.Err() != nil { // it becomes a dead letter
				o.stage = passes
				return settled{}, false
			}
			ctx = in.relay.work // its sender was told that it goes on
			found = o.look(in.relay)
		}
		if found != settle.InFlight {
			return o.found(d, found)
		}
	}
}

// wait waits as Claim.Wait does, until ctx ends, stopping gives up or most has
// passed; 0 is any time.
func (o *once) wait(ctx context.Context, r *Relay, most time.Duration) (settle.Found, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.work, cancel)()
	if most > 0 {
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	return o.claim.Wait(ctx)
}

// tired is how a message ends that waits no longer for another with its key. over
// is false where it can't be given back.
func (in *intake) tired(ctx context.Context, d connector.Delivery) (s settled, over bool) {
	switch {
	case in.relay.work.Err() != nil:
		return refused(d.Message.ID, retryWhenStopped, errStopping), nackable(d)
	case ctx.Err() != nil:
		return refused(d.Message.ID, retryWhenFull, ctx.Err()), nackable(d) // its sender is gone
	}
	s = ended(event.SettledDeferred, d.Message.ID) // MaxWait has passed
	s.RetryAfter, s.Err = retryWaiting, errAfterFirst
	return s, true
}
