package explain

import (
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/setting"
)

// Course is what a message goes through at one destination for as long as the
// failure goes on.
type Course struct {
	// Attempts is the schedule; of a group each is a round.
	Attempts []Attempt `json:"attempts"`
	// Reason is why the destination is left after the last attempt.
	Reason string `json:"reason"`
	// Tag is what pawl itself says of the message then; "" for nothing.
	Tag failure.Tag `json:"tag,omitzero"`
	// GivenUpAfter bounds the time from the first attempt to the hop. Nothing
	// else is reckoned in: no other message, no hold, no open breaker.
	GivenUpAfter Window `json:"given_up_after"`
	// Unmade is how many of retry.attempts can't be made before the deadline or
	// the ttl, however fast each fails and however short its wait is.
	Unmade int `json:"unmade,omitzero"`
}

// Attempt is one try of the schedule; of a group a round, in which each member
// is tried once without a wait in between.
type Attempt struct {
	Number int `json:"attempt"`
	// Sends is how many attempts it is at most: the members of a group.
	Sends int `json:"sends"`
	// Wait is how long the one before has failed when this one begins: the
	// backoff, and the wait for the rate limit where each fails at once and
	// nothing else is sent.
	Wait Window `json:"wait"`
	// Since is the time from the beginning of the first attempt, where each
	// fails at once.
	Since Window `json:"since_first"`
	// Slowest is that time where each takes its whole timeout, and before it the
	// wait for the rest of a batch, and each wait is the longest.
	Slowest setting.Duration `json:"slowest"`
	// MayBePast says that Slowest is past the deadline or the ttl: this attempt
	// is not made if the ones before it took that long.
	MayBePast bool `json:"may_be_past,omitzero"`
}

// Window is a time that jitter moves.
type Window struct {
	Earliest setting.Duration `json:"earliest"`
	Latest   setting.Duration `json:"latest"`
}

func (w Window) add(o Window) Window {
	return Window{w.Earliest + o.Earliest, w.Latest + o.Latest}
}

// stay is a course with what its bounds are made of.
type stay struct {
	Course
	tries []try
	// last is when it is over, where no limit cuts it off before: the fastest and
	// the slowest.
	last Window
	// timeout is the longest that one send may take, with the hedges that follow it.
	timeout setting.Duration
}

// try is the end of one attempt of a stay, counted from its beginning.
type try struct {
	fast setting.Duration // each fails at once, each wait is the shortest
	slow setting.Duration // each takes its whole timeout, each wait is the longest
	wait setting.Duration // the longest wait that comes next; noWait for none
	// backoff is its part that is made before the limits are asked again.
	backoff Window
}

// noWait marks the try after which none is due.
const noWait setting.Duration = -1

// limits end the retrying: times from the beginning of the stay, 0 for none, and
// below 0 for over already.
type limits struct {
	deadline, ttl setting.Duration
}

// first returns the limit that comes first.
func (l limits) first() setting.Duration {
	if l.ttl != 0 && (l.deadline == 0 || l.ttl <= l.deadline) {
		return l.ttl
	}
	return l.deadline
}

// tooLate says why a wait until next is not begun; "" where it is.
func (l limits) tooLate(next setting.Duration) (reason string, tag failure.Tag) {
	late := l.deadline != 0 && next > l.deadline
	old := l.ttl != 0 && next >= l.ttl
	switch {
	case old && (!late || l.ttl < l.deadline):
		return retry.Permanent.String(), failure.Expired
	case late:
		return "deadline", ""
	}
	return "", ""
}

// refuses says why the gate lets nobody in whose token comes at next; "" where it
// does.
func (l limits) refuses(next setting.Duration) (reason string, tag failure.Tag) {
	end := l.first()
	switch {
	case end == 0:
	case l.ttl == end && next >= end:
		return retry.Permanent.String(), failure.Expired
	case l.ttl != end && next > end:
		return "deadline", ""
	}
	return "", ""
}

// stayAt makes the attempts at d as the engine would, each ending with f.
func stayAt(d *config.Destination, f *failure.Error, until limits) *stay {
	v := &d.Delivery
	e := endpointsOf(d)
	s := &stay{timeout: e.longest + hedging(d, e.longest)}
	if delivers(d, f) {
		sends, slow := e.untilDelivered(d, f)
		s.Attempts = []Attempt{{Number: 1, Sends: sends}}
		s.Reason = "delivered (delivered_on)"
		s.tries, s.last = []try{{slow: slow, wait: noWait}}, Window{0, slow}
		return s
	}
	if until.ttl < 0 { // nothing is sent any more
		s.Attempts, s.Unmade = []Attempt{}, v.Retry.Attempts
		s.Reason, s.Tag = retry.Permanent.String(), failure.Expired
		s.tries = []try{{wait: noWait}}
		return s
	}
	if until.deadline < 0 {
		e.count = 1
	}
	p := paces{newPace(v.RateLimit), newPace(v.RateLimit)}
	a := Attempt{Number: 1}
	for {
		a.MayBePast = until.first() != 0 && a.Slowest > until.first()
		last, over := s.round(&a, e, p, until)
		s.Attempts = append(s.Attempts, a)
		s.last = Window{s.tries[len(s.tries)-1].fast, s.tries[len(s.tries)-1].slow}
		t := &s.tries[len(s.tries)-1]
		lo, hi := v.Retry.Decide(f, a.Number, 0), v.Retry.Decide(f, a.Number, 1)
		switch {
		case over:
			s.Unmade = v.Retry.Attempts - a.Number
			return s
		case lo.Verdict != retry.Again:
			s.Reason = lo.Verdict.String()
			return s
		}
		backoff := Window{setting.Duration(lo.Wait), setting.Duration(hi.Wait)}
		next, wait := p.next(last, backoff)
		t.wait, t.backoff = wait.Latest, backoff
		if s.Reason, s.Tag = until.tooLate(last.Earliest + backoff.Earliest); s.Reason == "" {
			if s.Reason, s.Tag = until.refuses(next.Earliest); s.Reason != "" { // which is seen after the backoff
				s.last = Window{s.last.Earliest + backoff.Earliest, s.last.Latest + backoff.Latest}
			}
		}
		if s.Reason != "" {
			s.Unmade = v.Retry.Attempts - a.Number
			return s
		}
		a = Attempt{Number: a.Number + 1, Wait: wait, Since: next, Slowest: t.slow + wait.Latest}
	}
}

// round makes the sends of an attempt, one after the other, and says when the last
// begins and whether the limits end it all.
func (s *stay) round(a *Attempt, e endpoints, p paces, until limits) (last Window, over bool) {
	last = a.Since
	begins := a.Slowest
	for a.Sends = 1; ; a.Sends++ {
		// Whose turn is when is the strategy's affair.
		whole := min(e.longest, e.whole-e.longest*setting.Duration(a.Sends-1))
		ends := begins + max(whole, 0)
		if a.Sends == e.count {
			s.tries = append(s.tries, try{fast: last.Earliest, slow: ends, wait: noWait})
			return last, false
		}
		next, wait := p.next(last, Window{}) // a token, where there is a limit
		s.tries = append(s.tries, try{fast: last.Earliest, slow: ends, wait: wait.Latest})
		if s.Reason, s.Tag = until.refuses(next.Earliest); s.Reason != "" {
			return last, true
		}
		last, begins = next, ends+wait.Latest
	}
}

// endpoints are what one round of a destination is at.
type endpoints struct {
	count int
	// whole is the sum of what an attempt may take at each, longest the longest of
	// them: its timeout, and the wait for the rest of a batch before.
	whole, longest setting.Duration
}

func endpointsOf(d *config.Destination) endpoints {
	var gathers setting.Duration
	if b := d.Delivery.Batch; b != nil {
		gathers = setting.Duration(b.MaxWait)
	}
	if d.Group == nil {
		t := setting.Duration(d.Delivery.Timeout) + gathers
		return endpoints{1, t, t}
	}
	e := endpoints{count: len(d.Group.Members)}
	for i := range d.Group.Members {
		t := setting.Duration(d.Group.Members[i].Delivery.Timeout) + gathers
		e.whole, e.longest = e.whole+t, max(e.longest, t)
	}
	return e
}

// untilDelivered is how many sends a round takes at most where each ends with f,
// which one of the endpoints at least takes for a success, and how long they take:
// the strategy may have the others tried before.
func (e endpoints) untilDelivered(d *config.Destination, f *failure.Error) (sends int, slow setting.Duration) {
	if d.Group == nil {
		return 1, e.longest
	}
	sends = 1
	for i := range d.Group.Members {
		if f.Tags.Highest(d.Group.Members[i].Delivery.DeliveredOn) == 0 {
			sends++
		}
	}
	return sends, min(e.longest*setting.Duration(sends), e.whole)
}

// hedging is how long after a send its last hedge begins at most, where an answer
// takes the longest.
func hedging(d *config.Destination, longest setting.Duration) setting.Duration {
	h := d.Delivery.Hedge
	if h == nil {
		return 0
	}
	after := setting.Duration(h.After)
	if after == 0 { // of the 95th percentile is known that no answer takes longer
		after = longest
	}
	return after * setting.Duration(h.Max)
}

// left bounds the time at which the message leaves, where it entered within the
// window and its retrying ends within end; nil for never.
func (s *stay) left(entered Window, end *Window) Window {
	w := entered.add(s.last)
	if end == nil {
		return w
	}
	if at, ok := s.cut(entered, end.Earliest); ok {
		w.Earliest = min(w.Earliest, at)
	}
	if entered.Latest < end.Latest {
		w.Latest = min(w.Latest, end.Latest+s.timeout)
	} else { // past it there is one attempt
		w.Latest = entered.Latest + s.timeout
	}
	return w
}

// cut returns the earliest moment at which a message leaves because its next wait
// would end past the end; false where none does. It need not be the one whose
// attempts fail fastest: after a slower one the next wait may be too long.
func (s *stay) cut(entered Window, end setting.Duration) (at setting.Duration, ok bool) {
	found := func(moment setting.Duration) {
		if !ok || moment < at {
			at, ok = moment, true
		}
	}
	if entered.Latest >= end {
		found(max(entered.Earliest, end))
	}
	for _, t := range s.tries {
		if t.wait != noWait && entered.Latest+t.slow+t.wait > end {
			found(max(entered.Earliest+t.fast, end-t.wait) + t.backoff.Earliest) // at the gate
		}
		if entered.Latest+t.slow+t.backoff.Latest > end && t.wait != noWait {
			found(max(entered.Earliest+t.fast, end-t.backoff.Latest))
		}
	}
	return at, ok
}

// pace is a rate limit that nobody else uses, from the first attempt on.
type pace struct {
	began  time.Time
	bucket *limit.Bucket // nil: none
}

func newPace(r *limit.Rate) pace {
	p := pace{began: time.Unix(0, 0)}
	if r != nil {
		p.bucket = limit.NewBucket(*r, p.began)
		p.bucket.Take(p.began) // the first attempt's
	}
	return p
}

// next returns when an attempt begins that may as soon as at, both counted from
// the first attempt.
func (p pace) next(at setting.Duration) setting.Duration {
	if p.bucket == nil {
		return at
	}
	begins := p.bucket.Look(p.began.Add(at.D()))
	p.bucket.Take(begins)
	return setting.Duration(begins.Sub(p.began))
}

// paces are those of the attempts that fail the fastest and of the ones whose
// waits are the longest.
type paces struct{ early, late pace }

// next returns when an attempt begins after the one at last and the backoff, and
// how long that has failed by then.
func (p paces) next(last, backoff Window) (next, wait Window) {
	next = last.add(backoff)
	next = Window{p.early.next(next.Earliest), p.late.next(next.Latest)}
	// A token comes when it comes: who failed later waits less for it.
	return next, Window{
		max(backoff.Earliest, next.Earliest-last.Latest),
		max(backoff.Latest, next.Earliest-last.Earliest, next.Latest-last.Latest),
	}
}
