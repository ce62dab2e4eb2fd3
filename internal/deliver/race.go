package deliver

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// errOvertaken is why a first attempt was cancelled that a hedge overtook, errLost
// why any other was of a race that is decided.
var (
	errOvertaken = errors.New("a hedge was faster")
	errLost      = errors.New("another attempt was faster")
)

// overtaken makes of a cancelled first attempt that a hedge overtook a failure of
// its endpoint, or one that never answers would be picked for ever.
func overtaken(ctx context.Context, f *failure.Error) *failure.Error {
	if !f.Tags.Has(failure.Cancelled) || !errors.Is(context.Cause(ctx), errOvertaken) {
		return f
	}
	sick := *f
	sick.Verdict = failure.Sick
	return &sick
}

// hedgeAfter is how long an answer may take before the message goes to another
// member too; false where it does not.
func (s *stay) hedgeAfter() (time.Duration, bool) {
	h := s.at.spec.Hedge
	if h == nil || len(s.at.endpoints) < 2 || !s.once.IsZero() {
		return 0, false
	}
	if h.After > 0 {
		return h.After, true
	}
	return s.at.lane.post.slowest()
}

// slowShare is what share of the answers is faster than a hedge waits.
const slowShare = 0.95

// slowest is how long the slow answers of the last minute took; false where too
// few are known.
func (p *post) slowest() (time.Duration, bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group.answers == nil {
		return 0, false
	}
	return p.group.answers.Quantile(now, slowShare)
}

// race is attempts of one message in flight at once.
type race struct {
	stay     *stay
	base     context.Context // outlives the stay's own: a trial runs on
	results  chan result     // has room for all of them
	inFlight []runner
	hedges   int
}

type runner struct {
	attempt *attempt
	cancel  context.CancelCauseFunc
}

// race makes the stay's own attempt and, each time after has passed without an
// answer, sends a hedge, up to the most that there may be. The first success wins
// and the others are cancelled; but a trial of a half-open breaker runs on by
// itself, up to its own timeout, holding what it holds: what becomes of it
// concerns that breaker alone. Only when all have failed is it a failure.
func (s *stay) race(round int, after time.Duration) *failure.Error {
	most := s.at.spec.Hedge.Max
	r := &race{stay: s, base: context.WithoutCancel(s.ctx), results: make(chan result, most+1)}
	r.run(&s.own)
	timer := time.NewTimer(after)
	defer timer.Stop()
	stop := s.ctx.Done()
	var last *failure.Error
	for len(r.inFlight) > 0 {
		select {
		case res := <-r.results:
			r.ended(res.of)
			if last = s.note(res); last == nil {
				r.won(res.of)
				return nil
			}
		case <-timer.C:
			if r.hedges < most && s.ctx.Err() == nil && s.inTime(time.Now()) {
				r.hedge(round)
				timer.Reset(after)
			}
		case <-stop:
			stop = nil
			r.cancel(context.Canceled)
		}
	}
	r.tell(event.RaceNone)
	return last
}

// inTime reports whether the message may still be sent: its deadline and its ttl
// have not come.
func (s *stay) inTime(now time.Time) bool {
	end := earlierSet(s.deadline, s.ttl())
	return end.IsZero() || now.Before(end)
}

// run makes an attempt beside the others.
func (r *race) run(a *attempt) {
	ctx, cancel := context.WithCancelCause(r.base)
	r.inFlight = append(r.inFlight, runner{a, cancel})
	go func() {
		defer cancel(nil)
		r.results <- a.make(ctx)
	}()
}

// ended takes an attempt out of those in flight.
func (r *race) ended(a *attempt) {
	for i := range r.inFlight {
		if r.inFlight[i].attempt == a {
			r.inFlight = append(r.inFlight[:i], r.inFlight[i+1:]...)
			return
		}
	}
}

// cancel ends every attempt in flight.
func (r *race) cancel(why error) {
	for _, one := range r.inFlight {
		one.cancel(why)
	}
}

// hedge sends the message to another member too, if it can go there now.
func (r *race) hedge(round int) {
	s := r.stay
	a := &attempt{}
	ask := ask{been: s.w.been, begun: true, try: hedging, pass: &a.pass}
	if s.at.lane.post.hedge(&ask).answer != goes || !s.prepareFor(&a.pass) {
		return
	}
	s.start(a, round, isHedge)
	r.hedges++
	r.run(a)
}

// won ends the race for those that a success overtook.
func (r *race) won(by *attempt) {
	s := r.stay
	for _, one := range r.inFlight {
		why := errLost
		if a := one.attempt; a.hedge == noHedge { // so a hedge has won
			why = errOvertaken
			if a.sampled.CompareAndSwap(false, true) {
				s.at.lane.post.observe(a.at, time.Since(a.began))
			}
		}
		if !one.attempt.trial {
			one.cancel(why)
		}
	}
	if by.hedge == isHedge {
		r.tell(event.RaceHedge)
		return
	}
	r.tell(event.RaceFirst)
}

// tell tells of a race in which a hedge was sent.
func (r *race) tell(won event.Race) {
	if r.hedges == 0 {
		return
	}
	s := r.stay
	s.at.fleet.opts.Events(event.Event{
		Kind: event.Raced, At: time.Now(), Destination: s.at.spec.Name, Route: s.req.Route,
		MessageID: s.req.Message.ID, Race: won, Number: r.hedges,
	})
}
