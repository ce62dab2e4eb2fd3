package deliver

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// rider is a message on its way in a batch. Its stay waits meanwhile: while the
// batch is being sent the batch may touch it.
type rider struct {
	stay  *stay
	round int
	done  chan arrival // has room for one
	gone  func() bool  // ends the watch over its ctx; set while the batch is sent
}

// arrival is how a ride ended: by an attempt where how is entered.
type arrival struct {
	how    entry
	result result
	kind   arrivalKind
}

// arrivalKind says what became of a message whose batch got through the gates.
type arrivalKind uint8

const (
	rode    arrivalKind = iota // an attempt was made
	unmade                     // its body could not be made for this member
	expired                    // it was too old by then
	refused                    // the batch was refused whole: the message goes alone
)

// rides reports whether the message's next attempt is one of a batch. Past the
// deadline there is no time to gather, and what is as large as a batch is one.
func (s *stay) rides() bool {
	b := s.at.spec.Batch
	return b != nil && !s.alone && s.once.IsZero() && int64(len(s.req.Message.Body)) < b.MaxBytes && b.MaxMessages > 1
}

// ride makes an attempt together with other messages; see stay.try for what it
// returns. Deadline, ttl, patience and ctx stay the message's own: until the
// batch is sent it can leave, and takes nobody along.
func (s *stay) ride(n int) (*failure.Error, message.Hop, outcome) {
	ttl := s.ttl()
	limit := earlierSet(s.deadline, ttl)
	how, r := s.peek(limit), arrival{}
	if how == 0 {
		one := &rider{stay: s, round: n, done: make(chan arrival, 1)}
		b := s.at.lane.batches.join(one, limit)
		how, r = s.await(one, b, limit)
	}
	if how != entered {
		hop, end := s.waited(how, limit, ttl)
		return nil, hop, end
	}
	switch r.kind {
	case unmade:
		return nil, message.Hop{}, again
	case expired:
		hop, end := s.waited(late, ttl, ttl)
		return nil, hop, end
	case refused:
		_ = s.note(r.result) // it goes again alone
		b := s.visited(r.result.of.at)
		b.tried, b.out = false, false
		s.alone, s.ready = true, time.Now()
		s.w.begun = s.triedAny()
		return nil, message.Hop{}, again
	case rode:
	}
	return s.note(r.result), message.Hop{}, onward
}

func (s *stay) triedAny() bool {
	for i := range s.w.been {
		if s.w.been[i].tried {
			return true
		}
	}
	return false
}

// peek says whether the gates would send the message away at once; zero where it
// may gather with others.
func (s *stay) peek(limit time.Time) entry {
	now := time.Now()
	r := s.at.lane.post.peek(now, &s.w.ask)
	switch {
	case s.ctx.Err() != nil:
		return gaveUp
	case r.answer == over:
		return roundOver
	case r.answer == shut && s.w.hops == hopsAtOpen:
		return enteredNot
	case !limit.IsZero() && (r.until.After(limit) || !now.Before(limit)):
		s.w.refused = r
		return late
	case s.w.tooLong(r, now):
		return tooLong
	}
	return 0
}

// peek says what a send would be told that came now, and takes nothing.
func (p *post) peek(now time.Time, a *ask) reply {
	p.mu.Lock()
	p.group.mark(a)
	r := p.group.look(now, a, p.queue.waiting)
	moves := p.group.settle(nil)
	p.mu.Unlock()
	p.tell(moves)
	return r
}

// await waits for the ride to end. Once the batch is being sent nothing but its
// outcome ends the wait.
func (s *stay) await(one *rider, b *batch, limit time.Time) (entry, arrival) {
	var byLimit, byPatience <-chan time.Time
	if !limit.IsZero() {
		t := time.NewTimer(time.Until(limit))
		defer t.Stop()
		byLimit = t.C
	}
	if s.w.patience > 0 {
		t := time.NewTicker(s.w.patience)
		defer t.Stop()
		byPatience = t.C
	}
	for {
		how := entry(0)
		select {
		case end := <-one.done:
			return end.how, end
		case <-s.ctx.Done():
			how = gaveUp
		case <-byLimit:
			how = late
		case <-byPatience:
			if !s.losesPatience(b) {
				continue
			}
			how = tooLong
		}
		if s.at.lane.batches.leave(one, b) {
			if how == late { // nobody else touches the stay any more
				s.w.refused = s.at.lane.post.peek(time.Now(), &s.w.ask)
			}
			return how, arrival{}
		}
		end := <-one.done // it is being sent
		return end.how, end
	}
}

// losesPatience reports whether a message that waited for as long as its patience
// goes is to leave; see post.losesPatience.
func (s *stay) losesPatience(b *batch) bool {
	now := time.Now()
	asks, waits := s.at.lane.batches.asks(b, &s.w.ask)
	if !waits {
		return false
	}
	r := s.at.lane.post.peek(now, &asks)
	switch {
	case r.answer == goes, r.answer == over, r.answer == busy:
		return false
	case r.until.IsZero():
		s.w.refused, s.w.away = r, s.w.patience
		return true
	}
	return s.w.tooLong(r, now)
}

// watch has the batch hear of the end of the message's ctx.
func (one *rider) watch(f func()) { one.gone = context.AfterFunc(one.stay.ctx, f) }
