package deliver

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// post stands at the gate of one endpoint with a lock, a clock and a queue:
// first come, first served. Safe for concurrent use.
type post struct {
	destination, endpoint string
	events                event.Sink

	mu      sync.Mutex
	gate    gate
	quota   quota   // the gate's
	first   *waiter // oldest
	last    *waiter
	waiting int
	alarm   *time.Timer // wakes the queue when the gate may change by itself
	alarmAt time.Time
	// cleared is closed when a person ends a hold; nil while no message that heard
	// of the hold rests.
	cleared chan struct{}
}

// newPost returns a post that lets nobody in until it is told how many workers
// there are.
func newPost(destination, endpoint string, events event.Sink) *post {
	p := &post{destination: destination, endpoint: endpoint, events: events}
	p.gate.quota = &p.quota
	return p
}

// waiter is one send that waits at the gate.
type waiter struct {
	before, after *waiter
	queued        bool
	hops          hops
	slow          time.Duration
	pass          *pass
	// patience is the longest wait at a gate that lets nobody in; 0 is any. What
	// the gate said to one whose patience or limit did not do is in refused, and
	// how long the impatient is to stay away in away.
	patience time.Duration
	refused  reply
	away     time.Duration
	// limited is when the rate limit first was all that stood in the way of this
	// send; zero for never.
	limited time.Time
	answer  answer
	ready   chan struct{} // gets one value when answer is set
}

// hops says what a message does at an open breaker.
type hops uint8

const (
	staysAtOpen hops = iota // nowhere to go: it waits until the breaker lets it try
	hopsAtOpen              // it goes on to the next of its chain
)

// entry is how waiting at the gate ended.
type entry uint8

const (
	entered    entry = iota + 1 // the pass holds everything; leave must be called
	enteredNot                  // the breaker is open and there is somewhere else to go
	late                        // the wait would end, or ended, past the limit
	tooLong                     // the gate is shut for longer than the waiter's patience
	gaveUp                      // ctx ended
)

// enter waits until a send may begin, at most until limit (zero: no limit).
func (p *post) enter(ctx context.Context, w *waiter, limit time.Time) entry {
	now := time.Now()
	w.limited = time.Time{}
	p.mu.Lock()
	var r reply
	if p.first == nil {
		r = p.gate.try(now, w.slow, w.pass)
	} else if r = p.gate.look(now, p.waiting); r.answer == goes {
		r.answer = waits // behind those who came before
	}
	moves := p.gate.settle()
	w.told(r, now)
	switch {
	case r.answer == goes:
		p.mu.Unlock()
		p.tell(moves)
		return entered
	case r.answer == shut && w.hops == hopsAtOpen:
		p.mu.Unlock()
		p.tell(moves)
		return enteredNot
	case !limit.IsZero() && (r.until.After(limit) || !now.Before(limit)):
		p.mu.Unlock()
		p.tell(moves)
		w.refused = r
		return late
	case w.tooLong(r, now):
		p.mu.Unlock()
		p.tell(moves)
		return tooLong
	}
	p.push(w)
	p.arm(now)
	p.mu.Unlock()
	p.tell(moves)
	return p.wait(ctx, w, limit)
}

// told notes when w was first held up by the rate limit alone.
func (w *waiter) told(r reply, now time.Time) {
	if r.answer == limited && w.limited.IsZero() {
		w.limited = now
	}
}

// forToken is how long a send that begins at the moment waited for the rate
// limit.
func (w *waiter) forToken(began time.Time) time.Duration {
	if w.limited.IsZero() {
		return 0
	}
	return began.Sub(w.limited)
}

// tooLong reports whether the reply sends w away: a gate that stays shut for
// longer than its patience, as far as is known.
func (w *waiter) tooLong(r reply, now time.Time) bool {
	if w.patience == 0 || r.until.Sub(now) <= w.patience {
		return false
	}
	w.refused, w.away = r, r.until.Sub(now)
	return true
}

// wait blocks until w is answered, its limit passes, its patience ends or ctx
// ends.
func (p *post) wait(ctx context.Context, w *waiter, limit time.Time) entry {
	for {
		over := limit
		if w.patience > 0 {
			over = earlierSet(time.Now().Add(w.patience), limit)
		}
		how := w.await(ctx, over)
		if how == entered || how == enteredNot {
			return how
		}
		now := time.Now()
		if how == late && (limit.IsZero() || now.Before(limit)) {
			how = tooLong
		}
		var moves []breaker.Move
		p.mu.Lock()
		leaves := w.queued
		if leaves && how == tooLong {
			leaves = p.losesPatience(w, now)
			moves = p.gate.settle()
		}
		answered := !w.queued
		if leaves {
			p.remove(w)
		}
		p.mu.Unlock()
		p.tell(moves)
		switch {
		case leaves:
			return how
		case answered: // at the last moment
			<-w.ready
			return w.how()
		}
	}
}

// await blocks until w is answered; late is the time, gaveUp the end of ctx.
func (w *waiter) await(ctx context.Context, over time.Time) entry {
	var timeout <-chan time.Time
	if !over.IsZero() {
		t := time.NewTimer(time.Until(over))
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-w.ready:
		return w.how()
	case <-timeout:
		return late
	case <-ctx.Done():
		return gaveUp
	}
}

// losesPatience reports whether w is to leave after it waited for as long as its
// patience goes. One that only stands behind others, or whose gate or token is
// about to come, stays. The caller holds the lock.
func (p *post) losesPatience(w *waiter, now time.Time) bool {
	others := 0
	for o := w.before; o != nil; o = o.before {
		others++
	}
	r := p.gate.look(now, others)
	switch {
	case r.answer == goes:
		return false
	case r.until.IsZero(): // until a person, or a trial's end, opens it
		w.refused, w.away = r, w.patience
		return true
	}
	return w.tooLong(r, now)
}

func (w *waiter) how() entry {
	if w.answer == goes {
		return entered
	}
	return enteredNot
}

// leave gives back what enter took and serves those who wait.
func (p *post) leave(w *waiter, f *failure.Error, hold time.Duration) {
	now := time.Now()
	p.mu.Lock()
	held := p.gate.heldUntil
	p.gate.end(now, w.pass, f, hold)
	longer := p.gate.heldUntil.After(held)
	moves := p.pump(now)
	p.mu.Unlock()
	if longer {
		p.events(event.Event{Kind: event.HoldSet, At: now, Destination: p.destination, Endpoint: p.endpoint, Took: hold})
	}
	p.tell(moves)
}

// charge asks the retry budget for one more try. False means that it is spent.
func (p *post) charge() bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quota.charge(now)
}

// ended is a hold that is over already.
var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// holdCleared returns what is closed when a person ends the hold.
func (p *post) holdCleared() <-chan struct{} {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.gate.heldUntil) {
		return ended
	}
	if p.cleared == nil {
		p.cleared = make(chan struct{})
	}
	return p.cleared
}

// wakeResting ends the rest of those who wait out a hold before they come to the
// gate. The caller holds the lock.
func (p *post) wakeResting() {
	if p.cleared != nil {
		close(p.cleared)
		p.cleared = nil
	}
}

// change alters the gate from outside (a lever, a reload) and serves those who
// may go now.
func (p *post) change(alter func(g *gate, now time.Time)) {
	now := time.Now()
	p.mu.Lock()
	alter(&p.gate, now)
	moves := p.pump(now)
	p.mu.Unlock()
	p.tell(moves)
}

// pump serves the queue as far as the gate lets it and sets the alarm for what
// is left. The caller holds the lock and sends the moves after letting go.
func (p *post) pump(now time.Time) (moves []breaker.Move) {
	moves = p.gate.settle()
	for w := p.first; w != nil; w = p.first {
		r := p.gate.try(now, w.slow, w.pass)
		moves = append(moves, p.gate.settle()...)
		w.told(r, now)
		if r.answer == goes {
			p.serve(w, goes)
			continue
		}
		if r.answer == shut {
			p.release()
		}
		break
	}
	p.arm(now)
	return moves
}

// release lets everybody go who has somewhere else to go.
func (p *post) release() {
	for w := p.first; w != nil; {
		after := w.after
		if w.hops == hopsAtOpen {
			p.serve(w, shut)
		}
		w = after
	}
}

func (p *post) serve(w *waiter, a answer) {
	p.remove(w)
	w.answer = a
	w.ready <- struct{}{}
}

func (p *post) push(w *waiter) {
	w.queued, w.before, w.after = true, p.last, nil
	if w.ready == nil {
		w.ready = make(chan struct{}, 1)
	}
	if p.last == nil {
		p.first = w
	} else {
		p.last.after = w
	}
	p.last = w
	p.waiting++
}

func (p *post) remove(w *waiter) {
	if w.before == nil {
		p.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		p.last = w.before
	} else {
		w.after.before = w.before
	}
	w.queued, w.before, w.after = false, nil, nil
	p.waiting--
}

// arm sets the alarm for the next moment at which the gate may change by
// itself, while somebody waits for that.
func (p *post) arm(now time.Time) {
	at := p.gate.next(now)
	if p.first == nil || at.IsZero() {
		return // an alarm that is set already finds nobody, or asks once more
	}
	if !p.alarmAt.IsZero() && !at.Before(p.alarmAt) {
		return
	}
	p.alarmAt = at
	if p.alarm == nil {
		p.alarm = time.AfterFunc(at.Sub(now), p.ring)
		return
	}
	p.alarm.Reset(at.Sub(now))
}

func (p *post) ring() {
	now := time.Now()
	p.mu.Lock()
	p.alarmAt = time.Time{}
	moves := p.pump(now)
	p.mu.Unlock()
	p.tell(moves)
}

func (p *post) tell(moves []breaker.Move) {
	for _, m := range moves {
		p.events(event.Event{
			Kind: event.BreakerMoved, At: m.At, Breaker: breakerState(m.To), BreakerFrom: breakerState(m.From),
			Destination: p.destination, Endpoint: p.endpoint,
		})
	}
}

func breakerState(s breaker.State) event.BreakerState {
	switch s {
	case breaker.Open:
		return event.BreakerOpen
	case breaker.HalfOpen:
		return event.BreakerHalfOpen
	case breaker.Closed:
		return event.BreakerClosed
	}
	return event.BreakerClosed
}
