package deliver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// post stands at the gates of a destination with a lock, a clock and a queue:
// first come, first served among those who can go at all. Safe for concurrent
// use.
type post struct {
	destination string
	events      event.Sink
	log         *slog.Logger

	mu      sync.Mutex
	group   group
	queue   queue
	alarm   *time.Timer // wakes the queue when a gate may change by itself
	alarmAt time.Time
	// cleared is closed when a person ends a hold; nil while no message that heard
	// of one rests.
	cleared chan struct{}
}

// newPost returns a post that lets nobody in until it is configured.
func newPost(destination string, events event.Sink, log *slog.Logger) *post {
	return &post{destination: destination, events: events, log: log}
}

// entry is how waiting at the gates ended.
type entry uint8

const (
	entered    entry = iota + 1 // the pass holds everything; leave must be called
	enteredNot                  // every breaker is open and there is somewhere else to go
	roundOver                   // the round of the message has nobody left
	late                        // the wait would end, or ended, past the limit
	tooLong                     // the gates are shut for longer than the waiter's patience
	gaveUp                      // ctx ended
)

// enter waits until a send may begin, at most until limit (zero: no limit). A
// member that comes after others in a round is not gone to past the limit.
func (p *post) enter(ctx context.Context, w *waiter, limit time.Time) entry {
	now := time.Now()
	w.limited = time.Time{}
	p.mu.Lock()
	p.group.mark(&w.ask)
	r, moves := p.ask(w, now, limit)
	how := entry(0)
	switch {
	case r.answer == goes:
		how = entered
	case r.answer == over:
		how = roundOver
	case r.answer == shut && w.hops == hopsAtOpen:
		how = enteredNot
	case !limit.IsZero() && (r.until.After(limit) || !now.Before(limit)):
		how, w.refused = late, r
	case w.tooLong(r, now):
		how = tooLong
	case !w.queued:
		p.queue.push(w)
	}
	if how != 0 && w.queued {
		p.queue.remove(w)
	}
	if how == 0 {
		p.arm(now)
	}
	p.mu.Unlock()
	p.tell(moves)
	if how != 0 {
		return how
	}
	return p.wait(ctx, w, limit)
}

// ask lets the waiter try, behind those who came before. The caller holds the
// lock.
func (p *post) ask(w *waiter, now, limit time.Time) (r reply, moves []moved) {
	switch {
	case w.begun && !limit.IsZero() && now.After(limit):
		if r = p.group.look(now, &w.ask, 0); r.answer == goes {
			r.answer = waits
		}
	case p.queue.first == nil:
		r = p.group.try(now, &w.ask)
	default:
		p.queue.push(w)
		moves = p.pump(now)
		if !w.queued {
			<-w.ready // served just now
			return reply{answer: w.answer}, moves
		}
		if r = p.group.look(now, &w.ask, p.queue.waiting-1); r.answer == goes {
			r.answer = waits // behind those who came before
		}
	}
	w.told(r, now)
	return r, p.group.settle(moves)
}

// hedge lets a send begin now, or not at all.
func (p *post) hedge(a *ask) reply {
	now := time.Now()
	p.mu.Lock()
	p.group.mark(a)
	moves := p.pump(now) // those who wait were there first; who is left can't go where a hedge can
	r := p.group.try(now, a)
	moves = p.group.settle(moves)
	p.mu.Unlock()
	p.tell(moves)
	return r
}

// wait blocks until w is answered, its limit passes, its patience ends or ctx
// ends.
func (p *post) wait(ctx context.Context, w *waiter, limit time.Time) entry {
	for {
		until := limit
		if w.patience > 0 {
			until = earlierSet(time.Now().Add(w.patience), limit)
		}
		how := w.await(ctx, until)
		if how == entered || how == enteredNot || how == roundOver {
			return how
		}
		now := time.Now()
		if how == late && (limit.IsZero() || now.Before(limit)) {
			how = tooLong
		}
		var moves []moved
		p.mu.Lock()
		leaves := w.queued
		if leaves && how == tooLong {
			leaves = p.losesPatience(w, now)
			moves = p.group.settle(nil)
		}
		answered := !w.queued
		if leaves {
			p.queue.remove(w)
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

// losesPatience reports whether w is to leave after it waited for as long as its
// patience goes. One that only stands behind others, or whose gate or token is
// about to come, stays. The caller holds the lock.
func (p *post) losesPatience(w *waiter, now time.Time) bool {
	others := 0
	for o := w.before; o != nil; o = o.before {
		others++
	}
	r := p.group.look(now, &w.ask, others)
	switch {
	case r.answer == goes, r.answer == over, r.answer == busy:
		return false
	case r.until.IsZero(): // until a person, or a trial's end, opens it
		w.refused, w.away = r, w.patience
		return true
	}
	return w.tooLong(r, now)
}

// leave gives back what enter took and serves those who wait. f is nil for a
// success, hold how long the endpoint asked to be left alone.
func (p *post) leave(s *pass, f *failure.Error, hold time.Duration) {
	if !s.open {
		return
	}
	now := time.Now()
	p.mu.Lock()
	held := s.at.gate.heldUntil
	closes := p.group.end(now, s, f, hold)
	longer := s.at.gate.heldUntil.After(held)
	moves := p.pump(now)
	p.mu.Unlock()
	if longer {
		p.events(event.Event{Kind: event.HoldSet, At: now, Destination: p.destination, Endpoint: s.at.name, Took: hold})
	}
	p.tell(moves)
	p.close(closes)
}

// abandon gives back what enter took for a send that is not made: the token of
// the rate limit too.
func (p *post) abandon(s *pass, f *failure.Error) {
	now := time.Now()
	p.mu.Lock()
	if b := p.group.quota.bucket; b != nil && s.open {
		b.Put(now, s.taken)
	}
	p.mu.Unlock()
	p.leave(s, f, 0)
}

// observe takes how long a member took to answer, or did not answer.
func (p *post) observe(m *member, took time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.group.observe(now, m, took)
}

// close closes a connector that nobody uses any more; nil is none.
func (p *post) close(n *line) {
	if n == nil {
		return
	}
	if err := n.dest.Close(); err != nil {
		p.log.Warn("closing a replaced connector", "destination", p.destination, "error", err)
	}
}

// charge asks the retry budget for one more round. False means that it is spent.
func (p *post) charge() bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.group.quota.charge(now)
}

// shut reports whether a round that began now would meet nothing but open
// breakers: a message with somewhere else to go does not wait for that.
func (p *post) shut(now time.Time, a *ask) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.group.mark(a)
	next := *a
	next.tried, next.begun = 0, false
	r := p.group.look(now, &next, 0)
	return r.answer == shut
}

// asked returns when the first of the members that are left to a message may be
// gone to again, where every one of them asked to be left alone until later: ok
// says that. cleared is closed when a person ends one of these holds.
func (p *post) asked(now time.Time, a *ask) (until time.Time, cleared <-chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.group.mark(a)
	for _, m := range p.group.members {
		if a.out&m.bit() != 0 {
			continue
		}
		if !now.Before(m.gate.heldUntil) {
			return time.Time{}, nil, false
		}
		until = earlier(until, m.gate.heldUntil)
	}
	if until.IsZero() {
		return until, nil, false
	}
	if p.cleared == nil {
		p.cleared = make(chan struct{})
	}
	return until, p.cleared, true
}

// wakeResting ends the rest of those who wait out a hold before they come to the
// gates. The caller holds the lock.
func (p *post) wakeResting() {
	if p.cleared != nil {
		close(p.cleared)
		p.cleared = nil
	}
}

// change alters the group from outside (a lever, a reload, a health check) and
// serves those who may go now.
func (p *post) change(alter func(g *group, now time.Time)) {
	now := time.Now()
	p.mu.Lock()
	alter(&p.group, now)
	moves := p.pump(now)
	p.mu.Unlock()
	p.tell(moves)
}

// arm sets the alarm for the next moment at which a gate may change by itself,
// while somebody waits for that. The caller holds the lock.
func (p *post) arm(now time.Time) {
	if p.queue.first == nil {
		return // an alarm that is set already finds nobody, or asks once more
	}
	at := p.group.next(now)
	if at.IsZero() || !p.alarmAt.IsZero() && !at.Before(p.alarmAt) {
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

func (p *post) tell(moves []moved) {
	for _, m := range moves {
		p.events(event.Event{
			Kind: event.BreakerMoved, At: m.At, Breaker: breakerState(m.To), BreakerFrom: breakerState(m.From),
			Destination: p.destination, Endpoint: m.member,
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
