package deliver

import (
	"fmt"
	"reflect"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/ramp"
)

const (
	callers   = 3
	slowAfter = 2 * time.Second // of every send: an answer later than that is a failure until it comes
	holdFor   = 2 * time.Second // what a throttled answer asks for
)

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// step is one thing that can happen to a gate.
type step uint8

// The steps: three of each for the callers, then those without one.
const (
	begins step = iota * callers
	succeeds
	fails
	cancels
	throttled
	retries // asks the budget for a retry
	tick    // a second passes
	_       = iota
)

const (
	leap         = tick + 1 // four seconds pass: longer than any hold or open time but a doubled one
	pauses       = tick + 2 // a person pauses the endpoint, or resumes it
	reloads      = tick + 3 // a reload takes the breaker away, or puts a new one there
	steps   step = tick + 4
)

func (s step) String() string {
	names := [...]string{"begins", "succeeds", "fails", "cancels", "throttled", "schedules a retry"}
	switch {
	case s < tick:
		return fmt.Sprintf("%c %s", 'a'+s%callers, names[s/callers])
	case s == tick:
		return "1s"
	case s == leap:
		return "4s"
	case s == pauses:
		return "pause"
	}
	return "reload"
}

// world is a gate with its callers, and beside it what the test knows itself.
type world struct {
	group    group
	gate     *gate // the only member's
	settings breaker.Settings
	now      time.Time
	held     time.Time // until when, as the test reckons it
	passes   [callers]pass
	asks     [callers]ask
	sends    [callers]send
	era      uint64 // breakers that were put in so far
	// What the test reckons of the limits: how long a token takes to come, how
	// long until all are there, and what the budget counted.
	token, missing time.Duration
	firsts, taken  int
}

// send is what the test knows of a caller.
type send struct {
	open  bool
	era   uint64
	state uint64 // the breaker's generation when it began
	trial bool
	began time.Time
	ramp  uint64 // the ramp's start that it counts for
}

// The burst of the rate limit, and how many first tries allow one retry.
const (
	burst     = 2
	eachRetry = 2
)

func newWorld(v variant) *world {
	w := &world{now: dawn}
	if v.breaker != nil {
		w.settings = *v.breaker
	}
	w.group.configure(w.now, &Spec{Workers: v.workers}, []Endpoint{{EndpointName: "a", Timeout: 2 * slowAfter, Breaker: v.breaker}})
	w.gate = &w.group.members[0].gate
	for i := range w.asks {
		w.asks[i] = ask{pass: &w.passes[i], been: []been{{at: w.group.members[0]}}}
	}
	if v.ramping {
		w.gate.ramp.Start()
	}
	if w.token = v.rate; v.rate > 0 {
		w.group.quota.bucket = limit.NewBucket(limit.Rate{PerSecond: 1 / v.rate.Seconds(), Burst: burst}, w.now)
	}
	if v.budget {
		// A window that nothing falls out of.
		w.group.quota.budget = limit.NewBudget(limit.BudgetSettings{Ratio: 1.0 / eachRetry, Window: time.Hour}, w.now)
	}
	return w
}

// possible says whether the step can be taken at all.
func (w *world) possible(s step) bool {
	switch {
	case s < succeeds:
		return !w.sends[s%callers].open
	case s < retries:
		return w.sends[s%callers].open
	case s < tick:
		i := s % callers
		return w.group.quota.budget != nil && !w.sends[i].open && w.asks[i].try == firstTry
	}
	return true
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.missing = max(w.missing-d, 0)
}

// wait is how long the next token takes to come; zero for one that is there.
func (w *world) wait() time.Duration {
	return max(w.missing-(burst-1)*w.token, 0)
}

// generation reads the breaker's count of changes of state.
func generation(b *breaker.Breaker) uint64 {
	if b == nil {
		return 0
	}
	return reflect.ValueOf(b).Elem().FieldByName("generation").Uint()
}

// started reads the ramp's count of starts.
func (w *world) started() uint64 {
	return reflect.ValueOf(w.gate.ramp).FieldByName("start").Uint()
}

// onRamp counts the open sends that began since the ramp's last start.
func (w *world) onRamp() (n int) {
	for _, s := range w.sends {
		if s.open && s.ramp == w.started() {
			n++
		}
	}
	return n
}

func (w *world) snapshot() (s breaker.Snapshot) {
	if w.gate.breaker != nil {
		s = w.gate.breaker.Snapshot(w.now)
	}
	return s
}

// take does the step and says what is wrong with what came of it.
func (w *world) take(s step) error {
	i := s % callers
	switch {
	case s < succeeds:
		return w.begin(int(i))
	case s < fails:
		return w.end(int(i), nil, 0)
	case s < cancels:
		return w.end(int(i), &failure.Error{Verdict: failure.Sick}, 0)
	case s < throttled:
		return w.end(int(i), &failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral}, 0)
	case s < retries:
		return w.end(int(i), &failure.Error{Verdict: failure.Neutral, Throttled: true}, holdFor)
	case s < tick:
		return w.retry(int(i))
	case s == tick:
		w.pass(time.Second)
	case s == leap:
		w.pass(4 * time.Second)
	case s == pauses:
		w.gate.paused = !w.gate.paused
	case s == reloads:
		if w.gate.breaker == nil {
			w.gate.breaker = breaker.New(w.settings, w.now)
			w.era++
		} else {
			w.gate.breaker = nil
		}
	}
	w.group.settle(nil)
	return w.check()
}

// retry asks the budget for a retry and compares its answer.
func (w *world) retry(i int) error {
	want := w.taken < w.firsts/eachRetry
	got := w.group.quota.charge(w.now)
	if got != want {
		return fmt.Errorf("the budget says %v to a retry after %d first tries and %d retries", got, w.firsts, w.taken)
	}
	if got {
		w.taken++
		w.asks[i].try = repeating
	}
	return w.check()
}

// begin tries to begin a send and compares the answer with what the test knows.
func (w *world) begin(i int) error {
	before := w.snapshot()
	w.group.settle(nil)
	ramped, ramping := w.gate.ramp.Limit()
	open, onRamp := w.open(), w.onRamp()
	if w.gate.holding && !w.now.Before(w.held) && w.group.workers > 1 {
		ramped, ramping, onRamp = 1, true, 0 // this is when the end of the hold is noticed
	}
	full := before.State == breaker.HalfOpen && w.trials() >= w.settings.HalfOpenMax
	var want answer
	switch {
	case before.State == breaker.Open, full:
		want = shut
	case w.gate.paused, w.now.Before(w.held):
		want = waits
	case w.wait() > 0:
		want = limited
	case open >= w.group.workers, ramping && onRamp >= ramped:
		want = busy
	default:
		want = goes
	}
	got := w.group.try(w.now, &w.asks[i])
	w.group.settle(nil)
	if got.answer != want {
		return fmt.Errorf("%c is told %d, want %d", 'a'+i, got.answer, want)
	}
	if want == limited {
		at, next := w.now.Add(w.wait()), w.group.next(w.now)
		if !got.until.Equal(at) || !next.After(w.now) || next.After(at) {
			return fmt.Errorf("%c waits for the token of %v until %v, and the gate looks again at %v", 'a'+i, at.Sub(dawn), got.until.Sub(dawn), next.Sub(dawn))
		}
	}
	if want == goes {
		w.missing += w.token
		if w.asks[i].try == firstTry {
			w.firsts++
		}
		w.sends[i] = send{true, w.era, generation(w.gate.breaker), before.State == breaker.HalfOpen, w.now, w.started()}
	}
	return w.check()
}

// end ends a send twice: the second time nothing may happen.
func (w *world) end(i int, f *failure.Error, hold time.Duration) error {
	before := w.snapshot()
	w.group.settle(nil)
	s := w.sends[i]
	stale := s.state != generation(w.gate.breaker) || s.era != w.era
	w.sends[i], w.asks[i].try = send{}, firstTry
	if until := w.now.Add(hold); hold > 0 && until.After(w.held) {
		w.held = until
	}
	w.group.end(w.now, &w.passes[i], f, hold)
	w.asks[i].been[0].guard, w.asks[i].been[0].mark = w.passes[i].guard, w.passes[i].mark
	w.group.settle(nil)
	after, key := w.snapshot(), w.key()
	if stale && after != before {
		return fmt.Errorf("%c began before the last change of state and moved the breaker from %+v to %+v", 'a'+i, before, after)
	}
	w.group.end(w.now, &w.passes[i], f, hold)
	w.group.settle(nil)
	if w.key() != key {
		return fmt.Errorf("ending %c a second time changed something", 'a'+i)
	}
	return w.check()
}

func (w *world) open() (n int) {
	for _, s := range w.sends {
		if s.open {
			n++
		}
	}
	return n
}

// trials counts the sends that are trials of the present round: one that is
// slow has ended the round.
func (w *world) trials() (n int) {
	for _, s := range w.sends {
		if s.open && s.trial && s.era == w.era && s.state == generation(w.gate.breaker) {
			n++
		}
	}
	return n
}

// check says which invariant does not hold.
func (w *world) check() error {
	snap := w.snapshot() // first: it moves the breaker on
	open, trials := w.open(), w.trials()
	w.group.settle(nil)
	switch {
	case w.gate.busy != open, w.group.busy != open:
		return fmt.Errorf("%d and %d busy with %d open sends", w.gate.busy, w.group.busy, open)
	case w.gate.busy > w.group.workers:
		return fmt.Errorf("%d busy of %d workers", w.gate.busy, w.group.workers)
	case w.gate.ramp.InFlight() != w.onRamp():
		return fmt.Errorf("%d on the ramp with %d open sends of this start", w.gate.ramp.InFlight(), w.onRamp())
	case w.token > 0 && !w.group.quota.bucket.Look(w.now).Equal(w.now.Add(w.wait())):
		return fmt.Errorf("the next token comes in %v, want %v", w.group.quota.bucket.Look(w.now).Sub(w.now), w.wait())
	case w.group.quota.budget != nil && w.group.quota.budget.Left(w.now) != max(w.firsts/eachRetry-w.taken, 0):
		return fmt.Errorf("%d retries are left after %d first tries and %d retries", w.group.quota.budget.Left(w.now), w.firsts, w.taken)
	case !w.gate.heldUntil.Equal(w.held):
		return fmt.Errorf("held until %v, want %v", w.gate.heldUntil.Sub(dawn), w.held.Sub(dawn))
	case w.gate.breaker == nil:
		return nil
	case snap.State == breaker.HalfOpen && (snap.Trials != trials || trials > w.settings.HalfOpenMax):
		return fmt.Errorf("%d trials, want %d and at most %d", snap.Trials, trials, w.settings.HalfOpenMax)
	case snap.State != breaker.HalfOpen && snap.Trials != 0:
		return fmt.Errorf("%d trials while %v", snap.Trials, snap.State)
	}
	for i, s := range w.sends {
		if s.open && s.trial && s.era == w.era && w.now.Sub(s.began) >= slowAfter && s.state == generation(w.gate.breaker) {
			return fmt.Errorf("the trial of %c is unanswered since %v and the round goes on", 'a'+i, w.now.Sub(s.began))
		}
	}
	return nil
}

// escapes ends everything and lets time pass: then the gate must let a caller
// in, and with successes alone everything must become as it was at first. One
// opening more is no trap: a success may be the outcome that makes the messages
// of the window enough.
func (w *world) escapes() error {
	w.gate.paused = false
	for i := range w.sends {
		if w.sends[i].open {
			if err := w.take(cancels + step(i)); err != nil {
				return err
			}
		}
	}
	w.pass(w.settings.MaxOpenFor + holdFor)
	for opened, n := false, 0; n < 2*callers+4; n++ {
		w.pass(w.wait())
		if err := w.take(begins); err != nil {
			return err
		}
		if s := w.snapshot(); !opened && s.State == breaker.Open {
			opened = true
			w.pass(s.OpenUntil.Sub(w.now))
			continue
		}
		if !w.sends[0].open {
			return fmt.Errorf("a trap: with nothing open and all time passed the gate says no: %+v, ramp %v", w.snapshot(), w.gate.ramp)
		}
		if err := w.take(succeeds); err != nil {
			return err
		}
	}
	_, ramping := w.gate.ramp.Limit()
	if s := w.snapshot().State; s != breaker.Closed || ramping {
		return fmt.Errorf("a trap: after successes alone the breaker is %v, the ramp on: %v", s, ramping)
	}
	return nil
}

// key is everything that the future of a world hangs on.
type key struct {
	now, held, openFor time.Duration
	snap               breaker.Snapshot
	generation, era    uint64
	guarded            bool
	paused, holding    bool
	ramp               ramp.Ramp
	sends              [callers]send
	takes              [callers]ramp.Ticket
	marks              [callers]breaker.Mark
	missing            time.Duration
	firsts, taken      int
	tries              [callers]try
}

func (w *world) key() key {
	k := key{
		now: w.now.Sub(dawn), held: w.held.Sub(dawn), snap: w.snapshot(),
		generation: generation(w.gate.breaker), era: w.era, guarded: w.gate.breaker != nil,
		paused: w.gate.paused, holding: w.gate.holding, ramp: w.gate.ramp, sends: w.sends,
		missing: w.missing,
	}
	if w.group.quota.budget != nil {
		k.firsts, k.taken = w.firsts, w.taken
	}
	if b := w.gate.breaker; b != nil {
		k.openFor = time.Duration(reflect.ValueOf(b).Elem().FieldByName("openFor").Int())
	}
	for i := range w.passes {
		k.takes[i], k.marks[i], k.tries[i] = w.passes[i].take, w.passes[i].mark, w.asks[i].try
	}
	return k
}
