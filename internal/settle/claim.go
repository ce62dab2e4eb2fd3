package settle

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
)

// Claim is one message's claim to be the first with its key. It belongs to the
// one goroutine that settles the message.
type Claim struct {
	of     *Dedupe
	key    string // short
	ticket *Ticket
	owner  string // in the store
	// elsewhere: the key is in progress at another relay. The claim has it here,
	// so that one message asks for all that wait.
	elsewhere bool
	left      time.Duration // of the other's mark
	// marked: the store may have the claim's mark.
	marked bool

	mu      sync.Mutex // guards what follows
	ended   bool
	timer   *time.Timer        // of the next renewal; nil for none
	cancel  context.CancelFunc // of the renewal under way or the last one
	renewed chan struct{}      // closed when it has ended
}

// begin is Dedupe.Begin for a claim that has nothing.
func (c *Claim) begin(ctx context.Context) Found {
	d := c.of
	var found Found
	c.ticket, found = d.local.Begin(Key{ID: c.key}, nil)
	if found != First || d.store == nil {
		return found
	}
	c.owner = d.name + "-" + strconv.FormatUint(d.number.Add(1), 36)
	if !d.mayAsk(kv.OpMark) {
		c.renewLater()
		return First
	}
	found = c.ask(ctx)
	if found == InFlight {
		if !c.ticket.stay() {
			c.ticket.Forget()
			return Crowded
		}
		c.elsewhere = true
	}
	return found
}

// ask marks the key in the store, and returns First, Settled or InFlight.
func (c *Claim) ask(ctx context.Context) Found {
	d := c.of
	state, err := d.store.Mark(ctx, c.stored(), c.owner, d.lease)
	d.heard(ctx, err)
	switch {
	case err != nil: // it goes on without
		u, ok := errors.AsType[*kv.Unavailable](err)
		c.marked = ok && u.Outcome == kv.Unknown
	case state.Found == kv.Taken:
		c.left = state.Left
		return InFlight
	case state.Found == kv.Done:
		// The relay remembers it too, so that many repeats at once ask once.
		if state.Left > 0 {
			c.ticket.keepFor(Outcome{}, state.Left)
		} else {
			c.ticket.Forget()
		}
		return Settled
	default:
		c.marked = true
	}
	c.renewLater()
	return First
}

// stored is the name of the key in the store.
func (c *Claim) stored() string { return c.of.scope + c.key }

// Wait is for a claim that was found InFlight. It waits until the key is free or
// settled and returns what Begin would: First, with which the claim is the
// caller's, Settled, or Crowded. An error is ctx's, and then there is no claim
// any more.
func (c *Claim) Wait(ctx context.Context) (Found, error) {
	for {
		var found Found
		if c.elsewhere {
			found = c.poll(ctx)
		} else {
			if _, ok := c.ticket.Wait(ctx); ok {
				return Settled, nil
			}
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			found = c.begin(ctx)
		}
		if found == InFlight && ctx.Err() == nil {
			continue
		}
		switch err := ctx.Err(); {
		case err == nil, found == Settled, found == Crowded:
			return found, nil
		case found == First:
			c.Forget(context.WithoutCancel(ctx))
			return 0, err
		default:
			c.Leave()
			return 0, err
		}
	}
}

// poll asks the store until the other relay's mark is gone or done, or ctx ends.
// All but InFlight, which says the latter, end the wait.
func (c *Claim) poll(ctx context.Context) Found {
	pause := firstPoll
	for {
		timer := time.NewTimer(min(max(c.left, time.Millisecond), pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return InFlight
		}
		if found := c.ask(ctx); found != InFlight {
			c.elsewhere = false
			c.ticket.Leave()
			return found
		}
		pause = min(2*pause, lastPoll)
	}
}

// Leave gives up a claim that was found InFlight. The next that waits here asks
// in its place.
func (c *Claim) Leave() {
	c.ticket.Leave()
	if c.elsewhere {
		c.elsewhere = false
		c.ticket.Forget()
	}
}

// Settle says that the message ended well: from now on its key makes repeats. It
// blocks for one operation of the store at most.
func (c *Claim) Settle(ctx context.Context) {
	c.stop()
	if d := c.of; d.store != nil && (c.marked || d.mayAsk(kv.OpSettle)) {
		err := d.store.Settle(ctx, c.stored(), c.owner, d.ttl)
		if errors.Is(err, kv.ErrLost) { // another has it, or has settled it: both are as good
			err = nil
		}
		d.heard(ctx, err)
	}
	c.ticket.Keep(Outcome{})
}

// Forget says that the message did not: the next with its key is a new try. It
// blocks for one operation of the store at most.
func (c *Claim) Forget(ctx context.Context) {
	c.stop()
	if d := c.of; c.marked {
		err := d.store.Forget(ctx, c.stored(), c.owner)
		d.heard(ctx, err)
	}
	c.ticket.Forget() // last: who waits here would find the mark
}

// renewLater plans the renewal of the mark.
func (c *Claim) renewLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.timer = time.AfterFunc(c.of.lease/renewals, c.renew)
	}
}

// renew makes the mark last, or takes it where there is none: the store may have
// been away or have forgotten it.
func (c *Claim) renew() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.cancel, c.renewed = cancel, done
	c.mu.Unlock()
	if c.keep(ctx) {
		c.renewLater()
	}
}

// keep renews the mark, and reports whether to go on with that.
func (c *Claim) keep(ctx context.Context) bool {
	d := c.of
	if !d.mayAsk(kv.OpKeep) {
		return true
	}
	if c.marked {
		err := d.store.Keep(ctx, c.stored(), c.owner, d.lease)
		if !errors.Is(err, kv.ErrLost) {
			d.heard(ctx, err)
			return true
		}
	}
	state, err := d.store.Mark(ctx, c.stored(), c.owner, d.lease)
	d.heard(ctx, err)
	c.marked = c.marked || err != nil || state.Found == kv.Mine
	return err != nil || state.Found == kv.Mine // else another relay has it by now
}

// stop ends the renewals and returns when none is under way.
func (c *Claim) stop() {
	c.mu.Lock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.cancel != nil {
		c.cancel()
	}
	renewed := c.renewed
	c.mu.Unlock()
	if renewed != nil {
		<-renewed
	}
}

// goneAway reports whether the error says that the store does not answer.
func goneAway(err error) bool {
	u, ok := errors.AsType[*kv.Unavailable](err)
	return ok && u.Outcome != kv.Refused && !errors.Is(err, kv.ErrFull)
}
