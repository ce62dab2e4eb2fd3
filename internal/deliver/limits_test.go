package deliver

// These tests catch: sends that come faster than the rate limit or slower than
// it lets them; a token that a send which was not made has used up; a wait that
// is begun though its token comes too late, or for others' tokens only; retries
// beyond the budget, or refused within it; a burst that a reload gives away.

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/message"
)

func rated(perSecond float64, burst int) func(*Spec) {
	return func(s *Spec) { s.RateLimit = &limit.Rate{PerSecond: perSecond, Burst: burst} }
}

func budgeted(ratio, least float64, window time.Duration) func(*Spec) {
	return func(s *Spec) {
		s.RetryBudget = &limit.BudgetSettings{Ratio: ratio, MinPerSecond: least, Window: window}
	}
}

// all waits for the results in order.
func all(from []<-chan Result) (results []Result) {
	for _, c := range from {
		results = append(results, <-c)
	}
	return results
}

func TestARateLimitPacesMessages(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well)
		r.configure(spec("a", a, rated(2, 3)))
		var open []<-chan Result
		for range 7 {
			open = append(open, r.start(r.Context(), "a"))
		}
		for i, res := range all(open) {
			if res.Status != Delivered {
				t.Errorf("message %d: %s", i, reasons(res))
			}
		}
		// Three at once, then one each half second.
		want := []time.Duration{0, 0, 0, 500 * ms, 1000 * ms, 1500 * ms, 2000 * ms}
		if diff := cmp.Diff(want, r.times(a)); diff != "" {
			t.Error(diff)
		}
		var waits []time.Duration
		for i, e := range r.told(event.AttemptEnded) {
			if waits = append(waits, e.Limited); e.MessageID != fmt.Sprintf("m%d", i+1) {
				t.Errorf("%s is served in place %d", e.MessageID, i+1)
			}
		}
		if diff := cmp.Diff(want, waits); diff != "" {
			t.Errorf("told to have waited for the limit:\n%s", diff)
		}
	})
}

func TestRetriesTakeTokens(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, attempts(4), rated(0.1, 2)))
		r.deliver(r.Context(), "a")
		// Backoffs of 0.1, 0.2 and 0.4 s, of which all but the first wait for a
		// token of ten seconds.
		if diff := cmp.Diff([]time.Duration{0, 100 * ms, 10 * time.Second, 20 * time.Second}, r.times(a)); diff != "" {
			t.Error(diff)
		}
	})
}

// Each attempt is told with its own wait for the limit.
func TestARetryDoesNotInheritTheWait(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well, well, asks(503, 5*time.Second))
		r.configure(spec("a", a, rated(1, 1)))
		r.deliver(r.Context(), "a")
		r.deliver(r.Context(), "a") // waits a second, fails, and has a token after its rest
		var waits []time.Duration
		for _, e := range r.told(event.AttemptEnded) {
			waits = append(waits, e.Limited)
		}
		if diff := cmp.Diff([]time.Duration{0, time.Second, 0}, waits); diff != "" {
			t.Error(diff)
		}
	})
}

// A hold, a pause or a breaker that keeps a send back uses no token.
func TestWhatIsNotSentCostsNoToken(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well, asks(429, 5*time.Second))
		r.configure(spec("a", a, rated(0.5, 2)))
		first := r.start(r.Context(), "a") // is asked to wait for 5 s, in which one token comes
		second := r.start(r.Context(), "a")
		all([]<-chan Result{first, second})
		if diff := cmp.Diff([]time.Duration{0, 5 * time.Second, 5 * time.Second}, r.times(a)); diff != "" {
			t.Error(diff)
		}
		// A hold is no wait for the limit.
		for _, e := range r.told(event.AttemptEnded) {
			if e.Limited != 0 {
				t.Errorf("attempt %d of %s waited %v for the limit", e.Number, e.MessageID, e.Limited)
			}
		}
	})
}

func TestATokenAfterTheDeadlineIsNotWaitedFor(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(well), always(well)
		r.configure(spec("a", a, rated(1, 1), deadline(2500*ms), fallback("b")), spec("b", b))
		var open []<-chan Result
		for range 5 {
			open = append(open, r.start(r.Context(), "a"))
		}
		// The first goes, two have their token within the deadline, the rest know at
		// once that theirs comes after it.
		for i, res := range all(open) {
			want, took := "", time.Duration(i)*time.Second
			if i > 2 {
				want, took = "a deadline", 0
			}
			if reasons(res) != want || res.Took != took || res.Status != Delivered {
				t.Errorf("message %d: %q after %v, want %q after %v", i, reasons(res), res.Took, want, took)
			}
		}
		if n := len(a.seen()); n != 3 {
			t.Errorf("%d sends to a", n)
		}
	})
}

// Past the deadline a fallback gets one attempt, and the wait for its token
// counts for its timeout.
func TestPastTheDeadlineATokenIsWaitedForWithinTheTimeout(t *testing.T) {
	for _, c := range []struct {
		name    string
		perSec  float64
		sends   []time.Duration
		reasons string
		took    time.Duration
	}{
		// The attempt at a hangs until 2 s. b's token comes 2 s later, so its
		// attempt has one of its three seconds left.
		{"in time", 0.25, []time.Duration{0, 4 * time.Second}, "a deadline, b deadline", 5 * time.Second},
		{"too late", 0.1, []time.Duration{0}, "a deadline, b deadline", 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a, b := always(hangs), always(hangs, well)
				r.configure(spec("a", a, deadline(time.Second), timeout(2*time.Second), fallback("b")),
					spec("b", b, rated(c.perSec, 1), timeout(3*time.Second)))
				r.deliver(r.Context(), "b") // takes the token
				res := r.deliver(r.Context(), "a")
				if reasons(res) != c.reasons || res.Took != c.took {
					t.Errorf("%q after %v, want %q after %v", reasons(res), res.Took, c.reasons, c.took)
				}
				if diff := cmp.Diff(c.sends, r.times(b)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestALongWaitForATokenIsPutOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well)
		r.configure(spec("a", a, rated(0.2, 1)))
		r.deliver(r.Context(), "a")
		var open []<-chan Result
		for range 4 {
			open = append(open, r.startPatiently("a"))
		}
		// Tokens come at 5 and 10 s; those at 15 and 15 s are beyond patience, and
		// who is put off stands in nobody's way.
		for i, res := range all(open) {
			if i < 2 {
				if res.Status != Delivered || res.Took != time.Duration(i+1)*5*time.Second {
					t.Errorf("message %d: %s after %v", i, reasons(res), res.Took)
				}
				continue
			}
			r.deferred(res, 15*time.Second, 0)
			if _, why := res.Last(); why != "the rate limit of a has no slot before then" {
				t.Error(why)
			}
		}
	})
}

// Patience that ends while a slower limit came into force.
func TestALimitThatGetsSlowerPutsOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well)
		r.configure(spec("a", a, rated(0.2, 1)))
		r.deliver(r.Context(), "a")
		ahead, behind := r.start(r.Context(), "a"), r.startPatiently("a")
		r.configure(spec("a", a, rated(0.02, 1))) // a token each 50 s
		r.deferred(<-behind, 90*time.Second, 0)
		if r.at() != 10*time.Second {
			t.Errorf("put off at %v", r.at())
		}
		if res := <-ahead; res.Took != 50*time.Second {
			t.Errorf("one who may wait took %v", res.Took)
		}
	})
}

func TestAReloadGivesNoBurst(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well)
		r.configure(spec("a", a, rated(1, 2)))
		var open []<-chan Result
		start := func(n int) {
			for range n {
				open = append(open, r.start(r.Context(), "a"))
			}
		}
		start(4)
		r.configure(spec("a", a, rated(1, 2))) // the same: nothing comes of it
		time.Sleep(1500 * ms)
		r.configure(spec("a", a, rated(4, 2))) // half a token is there already
		all(open)
		open = nil
		r.configure(spec("a", a)) // without a limit
		start(3)
		all(open)
		want := []time.Duration{0, 0, 1000 * ms, 1625 * ms, 1625 * ms, 1625 * ms, 1625 * ms}
		if diff := cmp.Diff(want, r.times(a)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestTheRateHoldsForAnyTraffic looks at every stretch of time between two sends.
func TestTheRateHoldsForAnyTraffic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := limit.Rate{PerSecond: rapid.Float64Range(0.2, 50).Draw(rt, "rate"), Burst: rapid.IntRange(1, 5).Draw(rt, "burst")}
		type arrival struct{ after, takes time.Duration }
		arrivals := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) arrival {
			return arrival{time.Duration(rapid.IntRange(0, 300).Draw(rt, "after")) * ms, time.Duration(rapid.IntRange(0, 2000).Draw(rt, "takes")) * ms}
		}), 1, 25).Draw(rt, "arrivals")
		synctest.Test(t, func(t *testing.T) {
			r := &rig{T: t, began: time.Now()}
			r.fleet = NewFleet(Options{Events: r.take, Random: func() float64 { return 0.5 }})
			var script []act
			for i, a := range arrivals {
				act := well
				if i%3 == 0 {
					act = status(503)
				}
				script = append(script, act.taking(a.takes))
			}
			e := always(well, script...)
			r.configure(spec("a", e, workers(3), func(s *Spec) { s.RateLimit = &rate }))
			var open []<-chan Result
			for _, a := range arrivals {
				time.Sleep(a.after)
				open = append(open, r.start(t.Context(), "a"))
			}
			for _, res := range all(open) {
				if res.Status != Delivered {
					t.Errorf("not delivered: %s", reasons(res))
				}
			}
			at := r.times(e)
			for i := range at {
				for j := i; j < len(at); j++ {
					if most := float64(rate.Burst) + rate.PerSecond*(at[j]-at[i]).Seconds(); float64(j-i+1) > most+1e-6 {
						t.Errorf("%d sends from %v to %v, %.3f are allowed", j-i+1, at[i], at[j], most)
					}
				}
			}
			r.fleet.Close()
		})
		if t.Failed() {
			rt.Fatal("the rate is not kept")
		}
	})
}

func TestASpentBudgetIsAHop(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(status(503)), always(well)
		r.configure(spec("a", a, attempts(5), budgeted(0, 0.3, 10*time.Second), fallback("b")), spec("b", b))
		res := r.deliver(r.Context(), "a")
		// Three retries are allowed, the fourth is not waited for.
		if reasons(res) != "a budget" || res.Status != Delivered || res.Took != 700*ms || len(a.seen()) != 4 {
			t.Errorf("%q after %v and %d sends", reasons(res), res.Took, len(a.seen()))
		}
		if h := res.Hops[0]; h.Error == "" || !h.Tags.Has("503") || len(h.Attempts) != 4 {
			t.Errorf("the hop says %+v", h)
		}
		if left := r.lane("a").Retries; left == nil || *left != 0 {
			t.Errorf("%v retries left", left)
		}
		if res := r.deliver(r.Context(), "a"); reasons(res) != "a budget" || res.Took != 0 || res.Attempts != 2 {
			t.Errorf("the next: %q after %v and %d tries", reasons(res), res.Took, res.Attempts)
		}
	})
}

// What is not sent again is not charged.
func TestOnlyScheduledRetriesAreCharged(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, attempts(1), budgeted(0, 1, 10*time.Second)))
		r.deliver(r.Context(), "a") // exhausted
		r.configure(spec("a", a, deadline(50*ms), budgeted(0, 1, 10*time.Second)))
		r.deliver(r.Context(), "a") // the deadline
		r.configure(spec("a", always(status(404)), budgeted(0, 1, 10*time.Second)))
		r.deliver(r.Context(), "a") // permanent
		r.configure(spec("a", always(asks(503, time.Minute)), slowly, budgeted(0, 1, 10*time.Second)))
		r.deliverPatiently("a") // put off
		if left := r.lane("a").Retries; left == nil || *left != 10 {
			t.Errorf("%d retries left of 10", *left)
		}
	})
}

// TestTheBudgetHoldsForAnyTraffic looks at the stretch of a window before each
// retry that was scheduled.
func TestTheBudgetHoldsForAnyTraffic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		settings := limit.BudgetSettings{
			Ratio:        rapid.Float64Range(0, 1).Draw(rt, "ratio"),
			MinPerSecond: rapid.Float64Range(0, 2).Draw(rt, "least"),
			Window:       time.Duration(rapid.IntRange(1000, 5000).Draw(rt, "window")) * ms,
		}
		pauses := rapid.SliceOfN(rapid.IntRange(0, 500), 1, 60).Draw(rt, "pauses")
		fails := rapid.SliceOfN(rapid.Bool(), 1, 20).Draw(rt, "fails")
		synctest.Test(t, func(t *testing.T) {
			r := &rig{T: t, began: time.Now()}
			r.fleet = NewFleet(Options{Events: r.take, Random: func() float64 { return 0.5 }})
			script := make([]act, 0, 300)
			for i := range cap(script) {
				act := well
				if fails[i%len(fails)] {
					act = status(503)
				}
				script = append(script, act.taking(10*ms))
			}
			r.configure(spec("a", always(well, script...), func(s *Spec) { s.RetryBudget = &settings }))
			var open []<-chan Result
			for _, p := range pauses {
				time.Sleep(time.Duration(p) * ms)
				open = append(open, r.start(t.Context(), "a"))
			}
			refused := 0
			for _, res := range all(open) {
				for _, h := range res.Hops {
					if h.Reason == message.HopBudget {
						refused++
					}
				}
			}
			t.Logf("%d refused", refused)
			var firsts, charged []time.Time
			for _, e := range r.told(event.AttemptEnded) {
				if began := e.At.Add(-e.Took); e.Number == 1 {
					firsts = append(firsts, began)
				} else {
					charged = append(charged, began.Add(-e.Waited))
				}
			}
			within := func(list []time.Time, end time.Time) (n float64) {
				for _, at := range list {
					if !at.After(end) && !at.Before(end.Add(-settings.Window)) {
						n++
					}
				}
				return n
			}
			for _, at := range charged {
				most := settings.Ratio*within(firsts, at) + settings.MinPerSecond*settings.Window.Seconds()
				if n := within(charged, at); n > most+1e-3 {
					t.Errorf("%v retries in the window before %v, %.3f are allowed", n, at.Sub(r.began), most)
				}
			}
			// And not a budget that refuses what it has: without refusals there was
			// room, with them it was used.
			if least := math.Floor(settings.MinPerSecond*settings.Window.Seconds() - 1e-6); refused > 0 && float64(len(charged)) < least {
				t.Errorf("%d are refused after %d retries, %v are always allowed", refused, len(charged), least)
			}
			r.fleet.Close()
		})
		if t.Failed() {
			rt.Fatal("the budget is not kept")
		}
	})
}

func TestLeversOutliveAReload(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(well), always(well)
		specs := func(changes ...func(*Spec)) []Spec {
			return []Spec{spec("a", a, append(changes, fallback("b"))...), spec("b", b)}
		}
		r.configure(specs(guarded(1))...)
		if m := r.fleet.ForceBreaker("a", breaker.ForceOpen); m != LeverMoved {
			t.Fatal(m)
		}
		open := func() bool { return reasons(r.deliver(r.Context(), "a")) == "a breaker_open" }
		if time.Sleep(time.Hour); !open() {
			t.Error("held open, and yet it is sent to")
		}
		if r.configure(specs(guarded(2))...); !open() {
			t.Error("a reload let go of the lever")
		}
		if r.configure(specs()...); open() {
			t.Error("there is no breaker to be open")
		}
		if m := r.fleet.ForceBreaker("a", breaker.ForceOpen); m != NoBreaker {
			t.Errorf("a breaker that is not there: %v", m)
		}
		if r.configure(specs(guarded(1))...); !open() {
			t.Error("a breaker that came back forgot the lever")
		}
		if m := r.fleet.ForceBreaker("a", breaker.ForceAuto); m != LeverMoved || open() {
			t.Errorf("left to itself (%v), it is not tried", m)
		}

		if m := r.fleet.SetRate("a", &limit.Rate{PerSecond: 1, Burst: 1}); m != LeverMoved {
			t.Fatal(m)
		}
		r.configure(specs(rated(100, 100))...)
		r.deliver(r.Context(), "a")
		if res := r.deliver(r.Context(), "a"); res.Took != time.Second {
			t.Errorf("under the lever of 1/s the second took %v", res.Took)
		}
		if s := r.lane("a"); s.Rate.PerSecond != 1 || !s.ByLever {
			t.Errorf("status shows %v, by a lever: %v", s.Rate, s.ByLever)
		}
		waits := r.start(r.Context(), "a")
		r.fleet.SetRate("a", nil)
		if res := <-waits; res.Took != 0 {
			t.Errorf("with tokens again the one that waited took %v", res.Took)
		}
		if r.fleet.SetRate("nobody", nil) != NoDestination || r.fleet.ClearHold("nobody") != NoDestination || r.fleet.ForceBreaker("nobody", breaker.ForceAuto) != NoDestination {
			t.Error("levers know what is not there")
		}
	})
}

func TestAClearedHoldComesBackByTheRamp(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(well.taking(time.Second), asks(503, 8*time.Second))
		r.configure(spec("a", a))
		heard := r.start(r.Context(), "a") // and rests before its next try
		if s := r.lane("a"); s.HeldUntil.IsZero() {
			t.Fatal("not held")
		}
		open := []<-chan Result{heard}
		for range 3 {
			open = append(open, r.start(r.Context(), "a"))
		}
		time.Sleep(2 * time.Second)
		if m := r.fleet.ClearHold("a"); m != LeverMoved {
			t.Fatal(m)
		}
		if m := r.fleet.ClearHold("a"); m != NotHeld {
			t.Errorf("cleared twice: %v", m)
		}
		if res := all(open)[0]; res.Status != Delivered || res.Took != 5*time.Second { // behind those at the gate
			t.Errorf("the one that heard it: %s after %v", reasons(res), res.Took)
		}
		// One at first, then two at once.
		if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 3 * time.Second, 3 * time.Second, 4 * time.Second}, r.times(a)); diff != "" {
			t.Error(diff)
		}
	})
}
