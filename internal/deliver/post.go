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
	first   *waiter // oldest
	last    *waiter
	waiting int
	alarm   *time.Timer // wakes the queue when the gate may change by itself
	alarmAt time.Time
}

// waiter is one send that waits at the gate.
type waiter struct {
	before, after *waiter
	queued        bool
	hops          hops
	slow          time.Duration
	pass          *pass
	answer        answer
	ready         chan struct{} // gets one value when answer is set
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
	gaveUp                      // ctx ended
)

// enter waits until a send may begin, at most until limit (zero: no limit).
func (p *post) enter(ctx context.Context, w *waiter, limit time.Time) entry {
	now := time.Now()
	p.mu.Lock()
	var r reply
	if p.first == nil {
		r = p.gate.try(now, w.slow, w.pass)
	} else if r = p.gate.look(now); r.answer == goes {
		r.answer = waits // behind those who came before
	}
	moves := p.gate.settle()
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
		return late
	}
	p.push(w)
	p.arm(now)
	p.mu.Unlock()
	p.tell(moves)
	return p.wait(ctx, w, limit)
}

// wait blocks until w is answered, its limit passes or ctx ends.
func (p *post) wait(ctx context.Context, w *waiter, limit time.Time) entry {
	var over <-chan time.Time
	if !limit.IsZero() {
		t := time.NewTimer(time.Until(limit))
		defer t.Stop()
		over = t.C
	}
	how := gaveUp
	select {
	case <-w.ready:
		return w.how()
	case <-over:
		how = late
	case <-ctx.Done():
	}
	p.mu.Lock()
	if w.queued {
		p.remove(w)
		p.mu.Unlock()
		return how
	}
	p.mu.Unlock()
	<-w.ready // answered at the last moment
	return w.how()
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
			Kind: event.BreakerMoved, At: m.At, Breaker: breakerState(m.To),
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
