package deliver

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// stay is a message's stay at one destination: the retry loop. A plain
// destination is a group of one: its round is one attempt.
type stay struct {
	*run
	at       *Destination
	deadline time.Time // ends the retrying; zero for none
	once     time.Time // set past the deadline: one attempt, over by then
	w        waiter    // w.been is where the message was
	room     [1]been
	own      attempt   // what goes before any hedge
	ready    time.Time // since when the next attempt could have begun
	number   int       // of the last attempt
	tries    []message.Attempt
	last     *failure.Error
	only     *message.Message // as the only endpoint gets it; nil until made
	alone    bool             // it goes in no batch any more
}

// visit stays at the i-th destination of the chain until the message has
// arrived or the destination must be left.
func (r *run) visit(i int) (message.Hop, bool) {
	d := r.head.chain[i].to
	if i > 0 && r.expired(time.Now()) {
		return hopFor(message.HopPermanent, expiry(d)), false
	}
	deadline, once, full := r.enter(i)
	if full {
		if r.ctx.Err() != nil {
			return r.cancelled(), false
		}
		return hopFor(message.HopFull, &failure.Error{
			Message: fmt.Sprintf("the lane of %s had no place in time (max_pending %d)", d.spec.Name, d.spec.MaxPending),
		}), false
	}
	s := &stay{run: r, at: d, deadline: deadline, once: once}
	s.w.pass = &s.own.pass
	s.w.been = s.room[:0]
	last := r.next(i) == nil
	if last && once.IsZero() {
		s.w.patience = r.req.MaxWait
	}
	if !last || d.spec.WhenOpen == FailWhenOpen || r.req.WhenOpen == FailWhenOpen || !once.IsZero() {
		s.w.hops = hopsAtOpen // past the deadline too: there is no time left to wait in
	}
	if len(d.endpoints) == 1 { // what can't be sent need not wait
		if _, f := s.prepared(d.endpoints[0].EndpointName, &d.endpoints[0]); f != nil {
			return hopFor(message.HopPermanent, f), false
		}
	}
	hop, arrived := s.tryUntilLeft()
	hop.Attempts = s.tries
	return hop, arrived
}

func (r *run) cancelled() message.Hop {
	return hopFor(message.HopCancelled, &failure.Error{
		Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral, Message: "pawl is stopping",
	})
}

// outcome is how a step of a stay ended.
type outcome uint8

const (
	onward  outcome = iota + 1 // the stay goes on
	again                      // it goes on, without an attempt that counts
	ended                      // the round has nobody left
	arrived                    // the message has
	left                       // the destination is, by the hop
)

// tryUntilLeft is the retry loop: rounds, with a wait between them.
func (s *stay) tryUntilLeft() (message.Hop, bool) {
	s.ready = time.Now()
	for n := 1; ; n++ {
		s.w.final = s.w.hops == staysAtOpen && n >= s.at.spec.Retry.Attempts
		switch hop, how := s.round(n); how {
		case arrived, left:
			return hop, how == arrived
		case onward, again, ended:
		}
		if hop, how := s.between(n); how == left {
			return hop, false
		}
		for i := range s.w.been {
			s.w.been[i].tried = false
		}
		s.w.begun, s.w.try = false, repeating
	}
}

// round tries each member that is available once, one after the other, without
// waiting in between for anything but their being full.
func (s *stay) round(n int) (message.Hop, outcome) {
	for {
		f, hop, how := s.try(n)
		switch {
		case how == again:
			continue
		case how != onward:
			return hop, how
		case f == nil:
			return message.Hop{}, arrived
		case s.ctx.Err() != nil:
			return s.cancelled(), left
		case !s.once.IsZero():
			return s.onceTried(n), left
		}
		s.ready = time.Now()
	}
}

// try stands at the gates and makes an attempt: onward says that one was made, and
// failed with f unless it is nil.
func (s *stay) try(n int) (f *failure.Error, hop message.Hop, how outcome) {
	if s.rides() {
		return s.ride(n)
	}
	if hop, how = s.wait(); how != onward {
		return nil, hop, how
	}
	s.w.begun = true
	if !s.prepare() {
		return nil, hop, again
	}
	return s.step(n), hop, onward
}

// onceTried is the hop of the one attempt past the deadline.
func (s *stay) onceTried(n int) message.Hop {
	switch {
	case s.refusedByAll():
		return hopFor(message.HopPermanent, s.last)
	case n >= s.at.spec.Retry.Attempts && len(s.at.endpoints) == 1:
		return hopFor(message.HopExhausted, s.last)
	}
	return hopFor(message.HopDeadline, s.last)
}

// refusedByAll reports whether every member that the message was at answered with
// a permanent failure.
func (s *stay) refusedByAll() bool {
	for i := range s.w.been {
		if !s.w.been[i].out {
			return false
		}
	}
	return len(s.w.been) > 0
}

// between decides after the n-th round whether there is another, and waits for it.
func (s *stay) between(n int) (message.Hop, outcome) {
	switch {
	case s.refusedByAll():
		return hopFor(message.HopPermanent, s.last), left
	case n >= s.at.spec.Retry.Attempts:
		return hopFor(message.HopExhausted, s.last), left
	}
	s.ready = time.Now()
	post := s.at.lane.post
	if s.w.hops == hopsAtOpen && post.shut(s.ready, &s.w.ask) {
		return hopFor(message.HopBreakerOpen, s.last), left
	}
	until, cleared, held := post.asked(s.ready, &s.w.ask)
	wait := until.Sub(s.ready)
	if !held {
		wait = s.at.spec.Retry.Schedule.Delay(n, s.at.fleet.opts.Random())
	}
	if hop, over := s.tooLate(s.ready.Add(wait)); over {
		return hop, left
	}
	if s.w.patience > 0 && wait > s.w.patience {
		return s.putOff(wait, s.last), left
	}
	if !post.charge() { // last: a retry that is not made costs nothing
		return hopFor(message.HopBudget, s.last), left
	}
	if !rest(s.ctx, wait, cleared) {
		return s.cancelled(), left
	}
	return message.Hop{}, onward
}

// rest waits before the next round, and says whether ctx outlived the wait. What
// endpoints asked for ends where a person clears a hold; cleared is nil where
// they did not.
func rest(ctx context.Context, wait time.Duration, cleared <-chan struct{}) bool {
	if cleared == nil {
		return sleep(ctx, wait)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-cleared:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// tooLate says whether a wait until next would end past the deadline or the
// ttl, whichever comes first; such a wait is not begun.
func (s *stay) tooLate(next time.Time) (message.Hop, bool) {
	ttl := s.ttl()
	late := !s.deadline.IsZero() && next.After(s.deadline)
	old := !ttl.IsZero() && !next.Before(ttl)
	switch {
	case old && (!late || ttl.Before(s.deadline)):
		return hopFor(message.HopPermanent, expiry(s.at)), true
	case late:
		return hopFor(message.HopDeadline, s.last), true
	}
	return message.Hop{}, false
}

// ttl is when the message is too old for the destination or for the head of
// the chain; zero for never.
func (s *stay) ttl() time.Time {
	own := time.Time{}
	if s.at.spec.TTL > 0 {
		own = s.req.Since.Add(s.at.spec.TTL)
	}
	return earlierSet(own, s.expires)
}

func expiry(d *Destination) *failure.Error {
	return &failure.Error{
		Tags: failure.Tags{failure.Expired}, Class: failure.Permanent, Verdict: failure.Neutral,
		Message: fmt.Sprintf("the message is older than its ttl; it was not sent to %s any more", d.spec.Name),
	}
}

// wait stands at the gates. When it says onward the pass holds everything that a
// send needs.
func (s *stay) wait() (message.Hop, outcome) {
	limit, ttl := s.deadline, s.ttl()
	if !s.once.IsZero() {
		limit = s.once
	}
	limit = earlierSet(limit, ttl)
	how := s.at.lane.post.enter(s.ctx, &s.w, limit)
	if how == entered && !ttl.IsZero() && !time.Now().Before(ttl) {
		s.at.lane.post.abandon(&s.own.pass, expiry(s.at))
		how, limit = late, ttl
	}
	return s.waited(how, limit, ttl)
}

// waited is what the end of a wait until limit, or by the ttl, comes to.
func (s *stay) waited(how entry, limit, ttl time.Time) (message.Hop, outcome) {
	byAge := !ttl.IsZero() && limit.Equal(ttl)
	switch how {
	case entered:
		return message.Hop{}, onward
	case roundOver:
		return message.Hop{}, ended
	case enteredNot:
		return hopFor(message.HopBreakerOpen, s.because("the circuit breaker of "+s.at.spec.Name+" is open")), left
	case late:
		if byAge {
			return hopFor(message.HopPermanent, expiry(s.at)), left
		}
		return hopFor(message.HopDeadline, s.because(s.lateness(s.w.refused))), left
	case tooLong:
		return s.putOff(s.w.away, s.because(s.refusal(s.w.refused))), left
	case gaveUp:
		return s.cancelled(), left
	default:
		panic("deliver: unknown entry " + strconv.Itoa(int(how)))
	}
}

// putOff ends the stay at a wait that is not to be made here.
func (s *stay) putOff(wait time.Duration, f *failure.Error) message.Hop {
	s.after = wait
	return hopFor(message.HopDeferred, f)
}

// refusal says why the gates let nobody in.
func (s *stay) refusal(r reply) string {
	switch {
	case r.answer == shut:
		return "the circuit breaker of " + s.at.spec.Name + " is open"
	case r.answer == limited:
		return "the rate limit of " + s.at.spec.Name + " has no slot before then"
	case !r.until.IsZero():
		return s.at.spec.Name + " asked to be left alone"
	}
	return s.at.spec.Name + " is paused"
}

// lateness says why the deadline passed, or will, at the gates.
func (s *stay) lateness(r reply) string {
	if r.answer == limited {
		return "the deadline comes before the next slot in the rate limit of " + s.at.spec.Name
	}
	return "the deadline came before " + s.at.spec.Name + " let the message in"
}

// because is the last failure, or says why nothing was tried at all.
func (s *stay) because(why string) *failure.Error {
	if s.last != nil {
		return s.last
	}
	return &failure.Error{Message: why}
}

// visited returns what is known of the message at a member.
func (s *stay) visited(m *member) *been {
	for i := range s.w.been {
		if s.w.been[i].at.name == m.name {
			return &s.w.been[i]
		}
	}
	s.w.been = append(s.w.been, been{at: m})
	return &s.w.been[len(s.w.been)-1]
}

// step makes an attempt at the member that the pass is for, with the hedges that
// it may have, and returns the failure of the last to fail: nil for a success.
func (s *stay) step(n int) *failure.Error {
	s.start(&s.own, n, noHedge)
	s.own.limited = s.w.forToken(s.own.began)
	s.w.try = repeating
	if after, ok := s.hedgeAfter(); ok {
		return s.race(n, after)
	}
	r := s.own.make(s.ctx)
	return s.note(r)
}

// note takes in how an attempt ended. A failure that is out for this message is
// so from now on.
func (s *stay) note(r result) *failure.Error {
	b := s.visited(r.of.at)
	b.guard, b.mark = r.of.pass.guard, r.of.pass.mark
	if r.failure == nil {
		s.endpoint = b.at.name
		return nil
	}
	b.out = b.out || r.outcome == message.OutcomePermanent
	s.last = r.failure
	s.tries = append(s.tries, r.record)
	return r.failure
}

func earlierSet(a, b time.Time) time.Time {
	if b.IsZero() {
		return a
	}
	return earlier(a, b)
}

// sleep waits and says whether ctx outlived the wait.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
