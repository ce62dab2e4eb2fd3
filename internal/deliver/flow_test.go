package deliver

import (
	order "cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// begun counts the sends that begin in each second since the test began.
func (r *rig) begun(e *endpoint) map[int]int {
	n := map[int]int{}
	for _, at := range r.times(e) {
		n[int(at/time.Second)]++
	}
	return n
}

func TestAHoldStopsAllAndTheRampLetsThemBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		e := always(well.taking(time.Second), asks(429, 3*time.Second))
		r.configure(spec("a", e))
		all := []<-chan Result{r.start(r.Context(), "a")}
		time.Sleep(time.Second)
		for range 15 {
			all = append(all, r.start(r.Context(), "a"))
		}
		if s := r.lane("a"); s.HeldUntil.Sub(r.began) != 3*time.Second || s.Waiting != 15 {
			t.Errorf("held until %v with %d waiting", s.HeldUntil.Sub(r.began), s.Waiting)
		}
		for _, c := range all {
			if res := <-c; res.Status != Delivered {
				t.Errorf("left %q", reasons(res))
			}
		}
		want := map[int]int{0: 1, 3: 1, 4: 2, 5: 8, 6: 5} // each success doubles: 1, 2, then 4 and 8
		if diff := cmp.Diff(want, r.begun(e)); diff != "" {
			t.Errorf("sends a second (-want +got):\n%s", diff)
		}
		if held := r.told(event.HoldSet); len(held) != 1 || held[0].Took != 3*time.Second || held[0].Endpoint != "a" {
			t.Errorf("told of holds: %+v", held)
		}
	})
}

func TestTheRampIsHalvedByAThrottledAnswer(t *testing.T) {
	inBubble(t, func(r *rig) {
		e := always(well.taking(time.Second), asks(503, time.Second), well.taking(time.Second),
			asks(429, 0).taking(time.Second), well.taking(1500*ms))
		r.configure(spec("a", e))
		var all []<-chan Result
		for range 8 {
			all = append(all, r.start(r.Context(), "a"))
		}
		for _, c := range all {
			<-c
		}
		// Two at 2 s; at 3 s a 429 halves the limit to 1, which the other still
		// takes; at 3.5 s that one passes.
		if diff := cmp.Diff([]time.Duration{1000 * ms, 2000 * ms, 2000 * ms, 3500 * ms, 3500 * ms}, r.times(e)[1:6]); diff != "" {
			t.Errorf("sends (-want +got):\n%s", diff)
		}
	})
}

func TestWithSomewhereToGoAnOpenBreakerIsLeftAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(status(503)), always(well)
		r.configure(spec("a", a, guarded(3), attempts(1), fallback("b")), spec("b", b))
		for range 3 {
			r.deliver(r.Context(), "a")
		}
		before := r.at()
		res := r.deliver(r.Context(), "a")
		if reasons(res) != "a breaker_open" || res.Endpoint != "b" || r.at() != before || len(a.seen()) != 3 {
			t.Errorf("left %q for %q after %v with %d sends to a", reasons(res), res.Endpoint, r.at()-before, len(a.seen()))
		}
		if res.Attempts != 1 {
			t.Errorf("%d attempts: an open breaker uses up none", res.Attempts)
		}
	})
}

func TestWithNowhereToGoItWaitsForTheBreaker(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, guarded(3), attempts(1)))
		for range 3 {
			r.deliver(r.Context(), "a")
		}
		a.change(well.taking(100 * ms))
		var all []<-chan Result
		for range 8 {
			all = append(all, r.start(r.Context(), "a"))
		}
		if s := r.lane("a"); s.Breaker != event.BreakerOpen || s.Waiting != 8 || s.OpenUntil.Sub(r.began) != 5*time.Second {
			t.Errorf("%v until %v with %d waiting", s.Breaker, s.OpenUntil.Sub(r.began), s.Waiting)
		}
		for _, c := range all {
			if res := <-c; res.Status != Delivered {
				t.Errorf("left %q", reasons(res))
			}
		}
		sends := a.seen()[3:]
		slices.SortStableFunc(sends, func(a, b sent) int { // those that begin at one moment may do so in any order
			return order.Or(a.at.Compare(b.at), order.Compare(number(a.id), number(b.id)))
		})
		for i, s := range sends {
			if number(s.id) != 4+i {
				t.Errorf("send %d is %s, want m%d: first come, first served", i, s.id, 4+i)
			}
		}
		// One trial at 5 s; it closes the breaker, and the ramp goes 1, 2, 4.
		want := []time.Duration{5000, 5100, 5200, 5200, 5300, 5300, 5300, 5300}
		for i := range want {
			want[i] *= ms
		}
		if diff := cmp.Diff(want, r.times(a)[3:]); diff != "" {
			t.Errorf("sends (-want +got):\n%s", diff)
		}
		var moves []string
		for _, e := range r.told(event.BreakerMoved) {
			moves = append(moves, fmt.Sprintf("%s %v", e.At.Sub(r.began), e.Breaker))
		}
		if diff := cmp.Diff([]string{"0s open", "5s half_open", "5.1s closed"}, moves); diff != "" {
			t.Errorf("moves (-want +got):\n%s", diff)
		}
	})
}

// number is the number in a message's id.
func number(id string) int {
	n, _ := strconv.Atoi(id[1:])
	return n
}

func TestAFailedTrialOpensForTwiceAsLong(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, guarded(1), attempts(4)))
		res := r.deliver(r.Context(), "a")
		if diff := cmp.Diff([]time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second}, r.times(a)); diff != "" {
			t.Errorf("trials (-want +got):\n%s", diff)
		}
		if reasons(res) != "a exhausted" {
			t.Errorf("left %q", reasons(res))
		}
	})
}

// A trial is not the last try of a message while another can be the trial: an
// outage ends no message that waits.
func TestTheLastTryIsTheLastTrial(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, guarded(1), attempts(2)))
		all := []<-chan Result{r.start(r.Context(), "a")} // opens the breaker, and has one try left
		time.Sleep(time.Second)
		all = append(all, r.start(r.Context(), "a"), r.start(r.Context(), "a"))
		time.Sleep(30 * time.Second) // they were the trials at 5 and 15 s; all have one left
		all = append(all, r.start(r.Context(), "a"))
		time.Sleep(10 * time.Second) // the newest was the trial at 35 s
		a.change(well)
		for i, c := range all {
			if res := <-c; res.Status != Delivered {
				t.Errorf("message %d left %q", i+1, reasons(res))
			}
		}
		var got []string
		for _, s := range a.seen()[:5] {
			got = append(got, fmt.Sprint(s.at.Sub(r.began), " ", s.id))
		}
		// At 75 s none but last tries are left: the first in line goes.
		if diff := cmp.Diff([]string{"0s m1", "5s m2", "15s m3", "35s m4", "1m15s m1"}, got); diff != "" {
			t.Errorf("sends (-want +got):\n%s", diff)
		}
	})
}

// TestBreakerMovesSayWhereTheyCameFrom: who tells people of outages goes by it.
func TestBreakerMovesSayWhereTheyCameFrom(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well, status(503), status(503))
		r.configure(spec("a", a, guarded(1)))
		r.deliver(r.Context(), "a")
		var moves []string
		for _, e := range r.told(event.BreakerMoved) {
			moves = append(moves, e.BreakerFrom.String()+" "+e.Breaker.String())
		}
		want := []string{"closed open", "open half_open", "half_open open", "open half_open", "half_open closed"}
		if diff := cmp.Diff(want, moves); diff != "" {
			t.Errorf("moves (-want +got):\n%s", diff)
		}
	})
}

func TestWaitingAtAnOpenBreakerIsBoundedByTheDeadline(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, guarded(1), attempts(2), deadline(4*time.Second)))
		res := r.deliver(r.Context(), "a")
		// Open until 5 s: that wait is not begun.
		if reasons(res) != "a deadline" || res.Took != 100*ms || res.Attempts != 1 {
			t.Errorf("left %q after %v and %d attempts", reasons(res), res.Took, res.Attempts)
		}
	})
}

func TestWhenOpenFail(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, guarded(1), attempts(1), failWhenOpen))
		r.deliver(r.Context(), "a")
		res := r.deliver(r.Context(), "a")
		if reasons(res) != "a breaker_open" || res.Status != Failed || len(a.seen()) != 1 {
			t.Errorf("left %q with status %d and %d sends", reasons(res), res.Status, len(a.seen()))
		}
	})
}

// A caller with somewhere else to go waits neither at an open breaker nor long
// for a place, whatever the destination says of itself.
func TestACallerWithSomewhereElseToGo(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, guarded(1), attempts(1), func(s *Spec) { s.MaxPending = 1 }))
		r.deliver(r.Context(), "a")
		d, _ := r.set.Destination("a")
		place, err := d.EnterBriefly(r.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := r.at()
		res := d.Deliver(r.Context(), Request{Message: &message.Message{ID: "m", Time: time.Now()}, Place: place, WhenOpen: FailWhenOpen})
		if reasons(res) != "a breaker_open" || r.at() != before {
			t.Errorf("left %q after %v", reasons(res), r.at()-before)
		}
		if place, err = d.EnterBriefly(r.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := d.EnterBriefly(r.Context()); !errors.Is(err, context.DeadlineExceeded) || r.at()-before != d.spec.Timeout {
			t.Errorf("a full lane: %v after %v", err, r.at()-before)
		}
		place.Leave()
	})
}

func TestPastTheDeadlineAnOpenBreakerStillSkips(t *testing.T) {
	inBubble(t, func(r *rig) {
		b := always(status(503))
		r.configure(spec("a", always(hangs), deadline(time.Second), fallback("b")), spec("b", b, guarded(1), attempts(1)))
		time.Sleep(500 * ms)
		go func() {
			time.Sleep(4 * time.Second) // opens b at 4.5 s, for 5 s
			r.deliver(r.Context(), "b")
		}()
		res := r.deliver(r.Context(), "a")
		if reasons(res) != "a deadline, b breaker_open" || res.Took != 5*time.Second || len(b.seen()) != 1 {
			t.Errorf("left %q after %v with %d sends to b", reasons(res), res.Took, len(b.seen()))
		}
	})
}

// A hanging endpoint is found out after half a timeout: those who wait for its
// workers hop as soon as its breaker opens.
func TestAHangingEndpointIsLeftAfterHalfATimeout(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(hangs), always(well)
		r.configure(spec("a", a, guarded(4), workers(4), attempts(1), fallback("b")), spec("b", b))
		var all []<-chan Result
		for range 20 {
			all = append(all, r.start(r.Context(), "a"))
		}
		if s := r.lane("a"); s.Busy != 4 || s.Waiting != 16 {
			t.Errorf("%d busy and %d waiting, want 4 and 16", s.Busy, s.Waiting)
		}
		for i, c := range all {
			res := <-c
			want, hop := 2500*ms, "a breaker_open"
			if i < 4 {
				want, hop = 5*time.Second, "a exhausted"
			}
			if res.Endpoint != "b" || res.Took != want || reasons(res) != hop {
				t.Errorf("%d: at %q after %v, left %q; want b after %v, %q", i, res.Endpoint, res.Took, reasons(res), want, hop)
			}
		}
		if a.peak != 4 || len(a.seen()) != 4 {
			t.Errorf("a saw %d sends, %d at once", len(a.seen()), a.peak)
		}
	})
}

func TestWorkersBoundWhatIsInFlight(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well.taking(time.Second))
		r.configure(spec("a", a, workers(3)))
		var all []<-chan Result
		for range 10 {
			all = append(all, r.start(r.Context(), "a"))
		}
		for _, c := range all {
			<-c
		}
		if a.peak != 3 || r.at() != 4*time.Second {
			t.Errorf("%d at once, done after %v; want 3 and 4s", a.peak, r.at())
		}
	})
}

func TestADestinationThatHangsTakesNothingFromAnother(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(hangs), always(well.taking(10*ms))
		r.configure(spec("a", a, workers(2), places(40)), spec("b", b, workers(2), places(40), guarded(5)))
		ctx, stop := cancellable(r)
		var sick []<-chan Result
		for range 40 {
			sick = append(sick, r.start(ctx, "a"))
		}
		for range 100 {
			if res := r.deliver(r.Context(), "b"); res.Status != Delivered || res.Took != 10*ms {
				t.Fatalf("b took %v (%s) while a hangs", res.Took, reasons(res))
			}
		}
		if s := r.lane("a"); s.Pending != 40 || s.Busy != 2 {
			t.Errorf("a has %d places and %d workers", s.Pending, s.Busy)
		}
		stop()
		for _, c := range sick {
			if res := <-c; res.Status != Cancelled {
				t.Errorf("status %d", res.Status)
			}
		}
	})
}

func TestPausedAndResumed(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well)
		r.configure(spec("a", a))
		if !r.fleet.Pause("a") || r.fleet.Pause("nobody") {
			t.Error("Pause knows what is not there, or not what is")
		}
		c := r.start(r.Context(), "a")
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := r.lane("a"); !s.Paused || s.Waiting != 1 || len(a.seen()) != 0 {
			t.Errorf("%+v with %d sends while paused", s, len(a.seen()))
		}
		r.fleet.Resume("a")
		if res := <-c; res.Status != Delivered || res.Took != time.Hour {
			t.Errorf("%s after %v", reasons(res), res.Took)
		}
	})
}

func TestAShorterHoldDoesNotCutALongerOne(t *testing.T) {
	inBubble(t, func(r *rig) {
		e := always(well, asks(429, time.Second).taking(time.Second), asks(503, 8*time.Second))
		r.configure(spec("a", e, attempts(1)))
		first := r.start(r.Context(), "a")
		r.deliver(r.Context(), "a") // is asked to wait until 8 s
		<-first                     // until 2 s
		if res := r.deliver(r.Context(), "a"); res.Status != Delivered || r.at() != 8*time.Second {
			t.Errorf("%s at %v, want delivered at 8s", reasons(res), r.at())
		}
		if n := len(r.told(event.HoldSet)); n != 1 {
			t.Errorf("told of %d holds, want the longer alone", n)
		}
	})
}

// One who comes at the very moment at which the gate opens by itself, before
// those who wait were served, goes behind them.
func TestNobodyOvertakes(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := newPost("a", r.take, slog.New(slog.DiscardHandler))
		p.change(func(g *group, now time.Time) {
			g.configure(now, &Spec{Workers: 1}, []Endpoint{{EndpointName: "a", Connector: always(well), Timeout: time.Second}})
		})
		var before, after pass
		first := &waiter{ask: ask{pass: &before}}
		p.mu.Lock()
		p.queue.push(first) // the gate is free, and the alarm has not rung yet
		p.mu.Unlock()
		second := &waiter{ask: ask{pass: &after}}
		came := make(chan entry, 1)
		go func() { came <- p.enter(r.Context(), second, time.Time{}) }()
		synctest.Wait()
		if first.answer != goes || len(came) != 0 || p.queue.waiting != 1 {
			t.Fatal("the second overtook the first")
		}
		p.leave(&before, nil, 0)
		if <-came != entered {
			t.Error("the second was not served")
		}
		p.leave(&after, nil, 0)
	})
}

// Who waits for a worker when a hold begins must be woken at its end.
func TestAHoldCatchesThoseWhoWaitForAWorker(t *testing.T) {
	inBubble(t, func(r *rig) {
		e := always(well, asks(429, 3*time.Second).taking(time.Second))
		r.configure(spec("a", e, workers(1), attempts(1)))
		first, second := r.start(r.Context(), "a"), r.start(r.Context(), "a")
		<-first
		if res := <-second; res.Status != Delivered || res.Took != 4*time.Second {
			t.Errorf("%s after %v, want delivered after 4s", reasons(res), res.Took)
		}
	})
}

func TestWhenAFullLaneMayHaveRoom(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well, asks(503, 4*time.Second), status(503))
		r.configure(spec("a", a, attempts(1), guarded(1)))
		d, _ := r.set.Destination("a")
		for _, want := range []time.Duration{time.Second, 4 * time.Second} {
			if got := d.RetryAfter(time.Now()); got != want {
				t.Errorf("at %v: %v, want %v", r.at(), got, want)
			}
			r.deliver(r.Context(), "a") // the first is told to wait, the second, at 4 s, opens the breaker
		}
		if got := d.RetryAfter(time.Now()); got != 5*time.Second {
			t.Errorf("with the breaker open: %v, want 5s", got)
		}
	})
}
