package deliver

import (
	"context"
	"time"
)

// waiter is one send that waits at the gates.
type waiter struct {
	ask
	before, after *waiter
	queued        bool
	odd           bool // it asks otherwise than a message that comes anew
	hops          hops
	// final says that the message ends if this send fails: no try is left, and
	// nowhere to go.
	final bool
	// patience is the longest wait at gates that let nobody in; 0 is any. What
	// was said to one whose patience or limit did not do is in refused, and how
	// long the impatient is to stay away in away.
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

// tooLong reports whether the reply sends w away: gates that stay shut for longer
// than its patience, as far as is known.
func (w *waiter) tooLong(r reply, now time.Time) bool {
	if w.patience == 0 || r.until.Sub(now) <= w.patience {
		return false
	}
	w.refused, w.away = r, r.until.Sub(now)
	return true
}

// await blocks until w is answered; late is the time, gaveUp the end of ctx.
func (w *waiter) await(ctx context.Context, until time.Time) entry {
	var timeout <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
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

// how is what the answer of one who was served comes to.
func (w *waiter) how() entry {
	switch w.answer {
	case goes:
		return entered
	case over:
		return roundOver
	case shut, waits, busy, limited, spent:
	}
	return enteredNot
}

// queue is who waits, oldest first.
type queue struct {
	first, last *waiter
	waiting     int
	odd         int // of them ask otherwise than a message that comes anew
	final       int // of them end with a send that fails
}

func (q *queue) push(w *waiter) {
	w.queued, w.before, w.after = true, q.last, nil
	if w.ready == nil {
		w.ready = make(chan struct{}, 1)
	}
	if q.last == nil {
		q.first = w
	} else {
		q.last.after = w
	}
	q.last = w
	q.waiting++
	if w.odd = w.begun || w.tried|w.out != 0; w.odd {
		q.odd++
	}
	if w.final {
		q.final++
	}
}

func (q *queue) remove(w *waiter) {
	if w.before == nil {
		q.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		q.last = w.before
	} else {
		w.after.before = w.before
	}
	w.queued, w.before, w.after = false, nil, nil
	q.waiting--
	if w.odd {
		q.odd--
	}
	if w.final {
		q.final--
	}
}

func (q *queue) serve(w *waiter, a answer) {
	q.remove(w)
	w.answer = a
	w.ready <- struct{}{}
}

// mark brings what everybody asks up to date with the members.
func (q *queue) mark(g *group) {
	q.odd = 0
	for w := q.first; w != nil; w = w.after {
		g.mark(&w.ask)
		if w.odd = w.begun || w.tried|w.out != 0; w.odd {
			q.odd++
		}
	}
}

// refusals is what those were told who asked in one pump and could not go: who
// asks the same is told the same, since those who go meanwhile leave no more room
// than there was. What does not fit in is asked anew.
type refusals struct {
	n    int
	told [8]struct {
		tried, out mask
		begun      bool
		reply      reply
	}
}

func (f *refusals) find(a *ask) (reply, bool) {
	for i := range f.n {
		if t := &f.told[i]; t.tried == a.tried && t.out == a.out && t.begun == a.begun {
			return t.reply, true
		}
	}
	return reply{}, false
}

func (f *refusals) add(a *ask, r reply) {
	if f.n == len(f.told) {
		return
	}
	t := &f.told[f.n]
	t.tried, t.out, t.begun, t.reply = a.tried, a.out, a.begun, r
	f.n++
}

// pump serves the queue as far as the gates let it and sets the alarm for what is
// left: in order, but one that waits for members which are full stands in nobody's
// way who can go elsewhere, and trials of a breaker are given to those first whose
// end they would not be. The caller holds the lock and tells of the moves after
// letting go.
func (p *post) pump(now time.Time) (moves []moved) {
	moves = p.group.settle(nil)
	if p.queue.first == nil {
		return moves
	}
	var refused refusals
	if p.queue.final > 0 && p.group.trying(now) {
		moves = p.serve(now, &refused, moves, func(w *waiter) bool { return !w.final })
	}
	moves = p.serve(now, &refused, moves, func(*waiter) bool { return true })
	p.arm(now)
	return moves
}

// serve lets those of the queue who are meant go, in order, as far as the gates
// let them.
func (p *post) serve(now time.Time, refused *refusals, moves []moved, meant func(*waiter) bool) []moved {
	for w := p.queue.first; w != nil; {
		after := w.after
		if !meant(w) {
			w = after
			continue
		}
		r, known := refused.find(&w.ask)
		if !known {
			r = p.group.try(now, &w.ask)
			moves = p.group.settle(moves)
			w.told(r, now)
		}
		switch {
		case r.answer == goes, r.answer == over, r.answer == shut && w.hops == hopsAtOpen:
			p.queue.serve(w, r.answer)
		case r.answer != shut && p.queue.odd == 0: // nobody behind asks otherwise
			after = nil
		}
		if !known && r.answer != goes {
			refused.add(&w.ask, r)
		}
		w = after
	}
	return moves
}
