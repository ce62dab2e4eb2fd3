package breaker

import "time"

// Permit is the place of one attempt. The caller owns it: it is filled by
// Begin, given back by End, and may be used again after that. The zero value is
// ready for Begin. It must not be copied while it is held.
type Permit struct {
	_          noCopy
	of         *Breaker // nil unless held
	generation uint64   // the breaker's when the attempt began
	due        time.Time
	was        Mark // where the message was counted before this attempt
	slow       Mark // where the attempt is counted as slow; zero if it is not
	queued     bool // in the breaker's queue
	prev, next *Permit
}

// noCopy makes go vet complain about copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// queue holds the attempts of the present state that are not slow yet, the
// earliest due first.
type queue struct{ head, tail *Permit }

// push puts the permit in its place. Attempts on one endpoint share a timeout,
// so that is nearly always the end.
func (q *queue) push(p *Permit) {
	after := q.tail
	for after != nil && after.due.After(p.due) {
		after = after.prev
	}
	p.prev = after
	if after == nil {
		p.next, q.head = q.head, p
	} else {
		p.next, after.next = after.next, p
	}
	if p.next == nil {
		q.tail = p
	} else {
		p.next.prev = p
	}
	p.queued = true
}

// remove takes the permit out.
func (q *queue) remove(p *Permit) {
	if p.prev == nil {
		q.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next, p.queued = nil, nil, false
}

// clear takes every permit out.
func (q *queue) clear() {
	for q.head != nil {
		q.remove(q.head)
	}
}
