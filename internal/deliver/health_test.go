package deliver

// These tests catch: a check that is made too often, too late or two at once, or
// of an endpoint that is to be left alone; a member that is called well or unwell
// too soon; checks that go on after a reload took them away.

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/event"
)

// asked is an endpoint that can be asked how it is.
type asked struct {
	*endpoint
	mu     sync.Mutex
	began  time.Time
	checks []time.Duration
	open   int
	peak   int
	says   func(ctx context.Context, n int) error // of the nth check; nil is well
}

func (a *asked) Check(ctx context.Context) error {
	a.mu.Lock()
	a.checks = append(a.checks, time.Since(a.began))
	n, says := len(a.checks), a.says
	a.open++
	a.peak = max(a.peak, a.open)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open--
	}()
	if says == nil {
		return nil
	}
	return says(ctx, n)
}

func (a *asked) seen() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.checks)
}

// most is how many checks were under way at once.
func (a *asked) most() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peak
}

func (a *asked) say(f func(context.Context, int) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says = f
}

func (r *rig) asked(a act, says func(context.Context, int) error) *asked {
	return &asked{endpoint: always(a), began: r.began, says: says}
}

var errIll = errors.New("HTTP 503")

func ill(context.Context, int) error { return errIll }

// illOn fails the checks of these numbers.
func illOn(numbers ...int) func(context.Context, int) error {
	return func(_ context.Context, n int) error {
		if slices.Contains(numbers, n) {
			return errIll
		}
		return nil
	}
}

// checked has a group's members asked every 10 s, with 2 s for an answer.
func checked(unhealthyAfter, healthyAfter int) func(*Spec) {
	return func(s *Spec) {
		s.Group.Health = &HealthCheck{Interval: 10 * time.Second, Timeout: 2 * time.Second, UnhealthyAfter: unhealthyAfter, HealthyAfter: healthyAfter}
	}
}

// pair is a group of east, which is asked, and west, which can't be.
func pair(east *asked, changes ...func(*Spec)) Spec {
	return of("g", balance.Failover, []Member{in("east", east, tripped(1)), in("west", always(well))}, changes...)
}

// moves tells what was told of health: "30s unhealthy".
func (r *rig) moves() (all []string) {
	for _, e := range r.told(event.HealthMoved) {
		all = append(all, e.At.Sub(r.began).String()+" "+e.Endpoint+" "+e.Health.String()+" "+e.Error)
	}
	return all
}

func (r *rig) movesAre(want ...string) {
	r.Helper()
	if diff := cmp.Diff(want, r.moves()); diff != "" {
		r.Errorf("health (-want +got)\n%s", diff)
	}
}

func TestChecksInARowDecide(t *testing.T) {
	inBubble(t, func(r *rig) {
		// 1 and 2 fail, 3 passes, 4, 5 and 6 fail, 7 passes, 8 fails, 9 and 10 pass.
		east := r.asked(well, illOn(1, 2, 4, 5, 6, 8))
		r.configure(pair(east, checked(3, 2)))
		time.Sleep(55 * time.Second)
		synctest.Wait()
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "west" {
			r.Errorf("unhealthy, and yet sent to %s", res.Endpoint)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		r.movesAre("50s east unhealthy HTTP 503", "1m30s east healthy ")
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "east" {
			r.Errorf("well again, and yet sent to %s", res.Endpoint)
		}
		want := []time.Duration{0}
		for i := range 9 {
			want = append(want, time.Duration(i+1)*10*time.Second)
		}
		if diff := cmp.Diff(want, east.seen()); diff != "" {
			r.Errorf("checks (-want +got)\n%s", diff)
		}
	})
}

// Members and relays that begin together do not ask in step for ever.
func TestChecksAreSpread(t *testing.T) {
	for u, want := range map[float64]time.Duration{0: 9 * time.Second, 0.5: 10 * time.Second, 0.999: 10998 * time.Millisecond} {
		inBubble(t, func(r *rig) {
			r.fleet = NewFleet(Options{Random: func() float64 { return u }})
			east := r.asked(well, nil)
			r.configure(pair(east, checked(1, 1)))
			time.Sleep(12 * time.Second)
			if got := east.seen(); len(got) != 2 || got[1] != want {
				r.Errorf("with %v: %v, want the second at %v", u, got, want)
			}
		})
	}
}

// An open breaker is ended early by a recovery, and only by that: a check that
// always passes does not defeat it.
func TestChecksAndTheBreaker(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := r.asked(reset, nil)
		r.configure(pair(east, checked(1, 1), func(s *Spec) {
			s.Group.Health.Interval = time.Second
			s.Group.Members[0].Breaker.OpenFor = 30 * time.Second
		}))
		r.deliver(r.Context(), "g")
		time.Sleep(5500 * time.Millisecond)
		if s := r.member("g", "east"); s.Breaker != event.BreakerOpen || len(east.seen()) != 6 {
			r.Errorf("the breaker is %v after %d checks that passed", s.Breaker, len(east.seen()))
		}
		east.say(ill)
		time.Sleep(time.Second)
		east.say(nil)
		east.change(well)
		time.Sleep(time.Second)
		if s := r.member("g", "east"); s.Breaker != event.BreakerHalfOpen {
			r.Errorf("the breaker is %v after a recovery", s.Breaker)
		}
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "east" {
			r.Errorf("sent to %s", res.Endpoint)
		}
	})
}

// One that asked to be left alone is not asked, nor one that is paused.
func TestWhoIsLeftAloneIsNotAsked(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := r.asked(asks(503, 10*time.Second), illOn(1))
		r.configure(pair(east, checked(2, 1), func(s *Spec) { s.Group.Health.Interval = 4 * time.Second }))
		time.Sleep(time.Second)
		r.deliver(r.Context(), "g") // holds east until 11 s
		time.Sleep(9500 * time.Millisecond)
		if got := east.seen(); len(got) != 1 {
			r.Errorf("asked at %v though it is held", got)
		}
		time.Sleep(2500 * time.Millisecond)
		if got := east.seen(); len(got) != 2 || got[1] != 12*time.Second {
			r.Errorf("asked at %v after its hold", got)
		}
		if !r.fleet.Pause("east") {
			r.Fatal("no east")
		}
		time.Sleep(20 * time.Second)
		if n := len(east.seen()); n != 2 {
			r.Errorf("a paused one is asked %d times", n-2)
		}
	})
}

// A check that hangs is a failure at its timeout. One that hangs past it, whatever
// its ctx says, fails those after it, and is the only one.
func TestChecksThatHang(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := r.asked(well, func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
		r.configure(pair(east, checked(1, 1)))
		time.Sleep(3 * time.Second)
		r.movesAre("2s east unhealthy " + east.lastError(r))
		if s := r.member("g", "east"); s.Health != event.Unhealthy {
			r.Errorf("%v", s.Health)
		}
	})
	inBubble(t, func(r *rig) {
		east := r.asked(well, func(context.Context, int) error { time.Sleep(35 * time.Second); return nil })
		r.configure(pair(east, checked(2, 1)))
		time.Sleep(34 * time.Second)
		if east.most() != 1 || len(east.seen()) != 1 {
			r.Errorf("%d checks, %d at once", len(east.seen()), east.most())
		}
		r.movesAre("12s east unhealthy " + errCheckHangs.Error())
		east.say(nil)
		time.Sleep(20 * time.Second)
		if s := r.member("g", "east"); s.Health != event.Healthy {
			r.Errorf("%v after the check came back", s.Health)
		}
	})
}

// lastError is the error of the newest move: whose words a timeout has is the
// connector's affair.
func (a *asked) lastError(r *rig) string {
	moves := r.told(event.HealthMoved)
	if len(moves) == 0 || moves[len(moves)-1].Error == "" {
		r.Fatal("nothing was told of a failed check")
	}
	return moves[len(moves)-1].Error
}

func TestACheckThatPanics(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := r.asked(well, func(context.Context, int) error { panic("boom") })
		r.configure(pair(east, checked(2, 1)))
		time.Sleep(15 * time.Second)
		r.movesAre("10s east unhealthy " + errCheckPanic.Error())
	})
}

// A reload keeps what a member was found to be, asks with its numbers and its
// connectors, and without checks all are well.
func TestChecksOverReloads(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := r.asked(well, ill)
		r.configure(pair(east, checked(1, 1)))
		time.Sleep(time.Second)
		old := r.set
		newer := r.asked(well, ill)
		r.configure(pair(newer, checked(1, 1), func(s *Spec) { s.Group.Health.Interval = 3 * time.Second }))
		r.fleet.Retire(old)
		synctest.Wait()
		if s := r.member("g", "east"); s.Health != event.Unhealthy || east.closes() != 1 {
			r.Errorf("%v; the old connector was closed %d times", s.Health, east.closes())
		}
		time.Sleep(7 * time.Second)
		if a, b := east.seen(), newer.seen(); len(a) != 1 || len(b) != 3 || b[0] != time.Second || b[2] != 7*time.Second {
			r.Errorf("the old one was asked at %v, the new one at %v", a, b)
		}
		r.movesAre("0s east unhealthy HTTP 503")

		r.configure(pair(newer, checked(1, 1), func(s *Spec) { s.Group.Health = nil }))
		time.Sleep(time.Minute)
		if s := r.member("g", "east"); s.Health == event.Unhealthy || len(newer.seen()) != 3 {
			r.Errorf("%v after %d checks, with none configured", s.Health, len(newer.seen()))
		}
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "east" {
			r.Errorf("sent to %s", res.Endpoint)
		}
	})
}

// What is retired is not asked any more, whatever a check was doing.
func TestChecksEndWithTheirLane(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := r.asked(well, func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
		r.configure(pair(east, checked(1, 1)))
		time.Sleep(time.Second) // in the middle of one
		r.fleet.Retire(r.set)
		synctest.Wait()
		time.Sleep(time.Minute)
		if n := len(east.seen()); n != 1 || east.closes() != 1 {
			r.Errorf("%d checks, closed %d times", n, east.closes())
		}
		r.movesAre()
	})
}
