package deliver

// These tests catch: a hedge that is sent too soon, too late, too often, to the
// wrong member or without a token; a race that is lost though one attempt brought
// the message there; a dead member that hedging keeps in the rotation; a trial
// that a faster hedge cuts off; anything that is left of a race.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// hedged sends a hedge after the time, at most as many as said.
func hedged(after time.Duration, most int) func(*Spec) {
	return func(s *Spec) { s.Hedge = &Hedge{After: after, Max: most} }
}

// raced fails the test unless exactly these races were told of.
func (r *rig) raced(want ...event.Race) {
	r.Helper()
	var got []event.Race
	for _, e := range r.told(event.Raced) {
		got = append(got, e.Race)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("races (-want +got):\n%s", diff)
	}
}

func TestAHedgeWins(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(hangs), always(well.taking(50*ms))
		r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(1)), in("west", west, tripped(1))}, hedged(800*ms, 1)))
		res := r.deliver(r.Context(), "g")
		if res.Status != Delivered || res.Endpoint != "west" || res.Took != 850*ms || res.Attempts != 2 {
			t.Errorf("%s at %q after %v and %d attempts", reasons(res), res.Endpoint, res.Took, res.Attempts)
		}
		synctest.Wait()
		if got := r.went(); got != "west ok, east cancelled" {
			t.Errorf("went %s", got)
		}
		for _, e := range r.told(event.AttemptEnded) {
			if e.Hedge != (e.Endpoint == "west") {
				t.Errorf("%s is told as hedge: %v", e.Endpoint, e.Hedge)
			}
		}
		r.raced(event.RaceHedge)
		if e := r.told(event.Raced)[0]; e.Number != 1 || e.Destination != "g" || e.MessageID != "m1" {
			t.Errorf("told %+v", e)
		}
		if s := r.member("g", "east"); s.Breaker != event.BreakerOpen || s.Latency != 850*ms {
			t.Errorf("the member that was overtaken is %v with a latency of %v", s.Breaker, s.Latency)
		}
	})
}

func TestTheFirstWinsAndTheHedgeIsNeutral(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(well.taking(time.Second)), always(hangs)
		r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(1)), in("west", west, tripped(1))}, hedged(800*ms, 1)))
		for range 3 {
			if res := r.deliver(r.Context(), "g"); res.Endpoint != "east" || res.Took != time.Second {
				t.Errorf("at %q after %v", res.Endpoint, res.Took)
			}
		}
		synctest.Wait()
		r.raced(event.RaceFirst, event.RaceFirst, event.RaceFirst)
		if s := r.member("g", "west"); s.Breaker != event.BreakerClosed || s.Latency != 0 || s.Busy != 0 {
			t.Errorf("a cancelled hedge left %+v", s)
		}
	})
}

// Only when all have failed is it a failure, and all of them are in the hop.
func TestARaceThatAllLose(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b, c := always(status(404).taking(time.Second)), always(status(503).taking(2*time.Second)), always(well)
		r.configure(of("g", balance.Failover, []Member{in("a", a), in("b", b)}, hedged(500*ms, 1), attempts(1), fallback("c")), spec("c", c))
		res := r.deliver(r.Context(), "g")
		// a answers for good at 1 s, which ends only that try; b fails at 2.5 s.
		if reasons(res) != "g exhausted" || res.Took != 2500*ms {
			t.Errorf("%s after %v", reasons(res), res.Took)
		}
		if diff := cmp.Diff("a permanent, b retry, c ok", r.went()); diff != "" {
			t.Error(diff)
		}
		if at := res.Hops[0].Attempts; len(at) != 2 || at[0].Hedge || !at[1].Hedge || at[1].Number != 2 {
			t.Errorf("the hop has %+v", at)
		}
		r.raced(event.RaceNone)
	})
}

func TestAFailureBeforeTheHedgeIsNoRace(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(of("g", balance.Failover, []Member{in("a", always(status(503).taking(100*ms))), in("b", always(well))}, hedged(500*ms, 1)))
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "b" || res.Took != 100*ms {
			t.Errorf("at %q after %v", res.Endpoint, res.Took)
		}
		r.raced()
	})
}

func TestHedgesGoOneAfterTheOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b, c, d := always(hangs), always(hangs), always(well.taking(10*ms)), always(well)
		r.configure(of("g", balance.Failover, []Member{in("a", a), in("b", b), in("c", c), in("d", d)}, hedged(300*ms, 2)))
		res := r.deliver(r.Context(), "g")
		if res.Endpoint != "c" || res.Took != 610*ms || len(d.seen()) != 0 {
			t.Errorf("at %q after %v", res.Endpoint, res.Took)
		}
		if at := r.times(b); len(at) != 1 || at[0] != 300*ms {
			t.Errorf("the first hedge went at %v", at)
		}
		if e := r.told(event.Raced); len(e) != 1 || e[0].Number != 2 {
			t.Errorf("told %+v", e)
		}
	})
}

// What keeps a hedge from being sent: it never waits, and goes to nobody who is
// not well.
func TestNoHedge(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Spec)
		before func(r *rig)
	}{
		"spent budget":  {budgeted(0, 0, time.Second), nil},
		"no token":      {rated(0.01, 1), nil},
		"paused":        {workers(64), func(r *rig) { r.fleet.Pause("west") }},
		"forced open":   {workers(64), func(r *rig) { r.fleet.ForceBreaker("west", breaker.ForceOpen) }},
		"no worker":     {workers(1), nil},
		"past the once": {workers(64), nil},
		"half-open": {workers(64), func(r *rig) {
			r.fleet.ForceBreaker("west", breaker.ForceOpen)
			r.fleet.ForceBreaker("west", breaker.ForceAuto)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				east, west := always(hangs), always(well)
				r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(9)), in("west", west, tripped(9))}, hedged(800*ms, 1), attempts(1), test.change),
					spec("late", always(hangs), deadline(time.Second), fallback("g"), attempts(1)))
				if test.before != nil {
					test.before(r)
				}
				to := "g"
				if name == "past the once" {
					to = "late"
				}
				c := r.start(r.Context(), to)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if to == "late" {
					time.Sleep(4 * time.Second)
				}
				if n := len(west.seen()); n != 0 || len(east.seen()) != 1 {
					t.Errorf("%d hedges", n)
				}
				r.raced()
				r.fleet.Resume("west")
				<-c
			})
		})
	}
}

func TestAHedgeTakesATokenAndTheBudget(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(of("g", balance.Failover, []Member{in("a", always(hangs)), in("b", always(well))}, hedged(800*ms, 1),
			rated(0.001, 5), budgeted(0, 1, 10*time.Second)))
		r.deliver(r.Context(), "g")
		s := r.lane("g")
		if *s.Retries != 9 {
			t.Errorf("%d retries left of 10", *s.Retries)
		}
		if n := r.fleet.lanes["g"].post.group.quota.bucket.Left(time.Now()); n != 3 {
			t.Errorf("%d tokens left of 5", n)
		}
	})
}

// With p95 hedges begin once enough answers are known, and by their speed.
func TestAHedgeByPercentile(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(well.taking(100*ms)), always(well)
		r.configure(of("g", balance.Failover, []Member{in("east", east), in("west", west)}, hedged(0, 1)))
		for range balance.MinSamples {
			r.deliver(r.Context(), "g")
		}
		r.raced()
		east.change(hangs)
		res := r.deliver(r.Context(), "g")
		if res.Endpoint != "west" || res.Took < 95*ms || res.Took > 105*ms {
			t.Errorf("at %q after %v, want a hedge after about 100ms", res.Endpoint, res.Took)
		}
		time.Sleep(2 * time.Minute)
		if c := r.start(r.Context(), "g"); true {
			time.Sleep(time.Second)
			synctest.Wait()
			if n := len(west.seen()); n != 1 {
				t.Errorf("%d sends to west: nothing of the last minute is known", n)
			}
			<-c
		}
	})
}

// Messages that wait for the member that hangs are no reason against a hedge to
// the other.
func TestAHedgePassesWhoWaitsForAFullMember(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(hangs), always(well, status(503))
		r.configure(of("g", balance.Failover, []Member{in("east", east), in("west", west)}, workers(2), hedged(800*ms, 1), attempts(1)))
		hung := r.start(r.Context(), "g")
		waits := r.start(r.Context(), "g") // is refused by west, and waits for east
		if s := r.lane("g"); s.Waiting != 1 {
			t.Fatalf("%d wait", s.Waiting)
		}
		if res := <-hung; res.Endpoint != "west" || res.Took != 800*ms {
			t.Errorf("%s at %q after %v", reasons(res), res.Endpoint, res.Took)
		}
		<-waits
	})
}

// A hedge does not take the token of one who waits for it.
func TestAHedgeOvertakesNobody(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(hangs), always(well)
		r.configure(of("g", balance.RoundRobin, []Member{in("east", east), in("west", west)}, rated(1, 1), hedged(time.Second, 1), attempts(1)))
		first := r.start(r.Context(), "g")  // at east, with the token
		second := r.start(r.Context(), "g") // its token comes at 1 s
		if res := <-second; res.Took != time.Second {
			t.Errorf("the one that waited took %v", res.Took)
		}
		if res := <-first; res.Endpoint != "west" || res.Took != 2*time.Second {
			t.Errorf("the hedge went after %v: %q", res.Took, res.Endpoint)
		}
	})
}

// A member that never answered, from the start, must not be picked for ever.
func TestADeadMemberLeavesTheRotation(t *testing.T) {
	inBubble(t, func(r *rig) {
		dead, other := always(hangs), always(well.taking(20*ms))
		r.configure(of("g", balance.LeastLatency, []Member{in("dead", dead), in("other", other)}, hedged(200*ms, 1)))
		for range 200 {
			if res := r.deliver(r.Context(), "g"); res.Status != Delivered || res.Took > 220*ms {
				t.Fatalf("%s after %v", reasons(res), res.Took)
			}
		}
		if n := len(dead.seen()); n > 2 {
			t.Errorf("the dead member was sent to %d times by its latency alone", n)
		}
	})
}

// A trial is not cut off by a hedge: it runs on by itself, up to its own timeout,
// and its breaker learns from it.
func TestATrialOutlastsTheRace(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(well.taking(2*time.Second)), always(well.taking(10*ms))
		set := of("g", balance.Failover, []Member{in("east", east, tripped(1)), in("west", west, tripped(1))}, hedged(500*ms, 1))
		r.configure(set)
		r.fleet.ForceBreaker("east", breaker.ForceOpen)
		r.fleet.ForceBreaker("east", breaker.ForceAuto)
		ctx, cancel := context.WithCancel(r.Context())
		res := r.deliver(ctx, "g")
		cancel() // a caller that has its answer
		if res.Endpoint != "west" || res.Took != 510*ms {
			t.Errorf("at %q after %v: the delivery waits for nobody", res.Endpoint, res.Took)
		}
		if s := r.member("g", "east"); s.Breaker != event.BreakerHalfOpen || s.Busy != 1 {
			t.Errorf("%v with %d in flight", s.Breaker, s.Busy)
		}
		old := r.set
		r.configure(of("g", balance.Failover, []Member{in("west", west, tripped(1))}))
		r.fleet.Retire(old)
		if east.closes() != 0 {
			t.Error("the connector of a trial in flight is closed")
		}
		time.Sleep(1500 * ms)
		synctest.Wait()
		if got := r.went(); got != "west ok, east ok" || east.closes() != 1 {
			t.Errorf("went %s, closed %d times", got, east.closes())
		}
		if moves := r.told(event.BreakerMoved); len(moves) == 0 || moves[0].Endpoint != "east" {
			t.Errorf("told %+v", moves)
		}
	})
}

func TestATrialThatOutlastsTheRaceClosesItsBreaker(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := always(well.taking(2 * time.Second))
		r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(1)), in("west", always(well), tripped(1))}, hedged(500*ms, 1)))
		r.fleet.ForceBreaker("east", breaker.ForceOpen)
		r.fleet.ForceBreaker("east", breaker.ForceAuto)
		r.deliver(r.Context(), "g")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := r.member("g", "east"); s.Breaker != event.BreakerClosed || s.Latency != 500*ms {
			t.Errorf("%v, latency %v", s.Breaker, s.Latency)
		}
	})
}

// Whoever gives up ends the whole race.
func TestARaceIsCancelled(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(of("g", balance.Failover, []Member{in("a", always(hangs), tripped(1)), in("b", always(hangs), tripped(1))}, hedged(100*ms, 1)))
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		res := r.deliver(ctx, "g")
		if res.Status != Cancelled || res.Took != time.Second {
			t.Errorf("status %d after %v", res.Status, res.Took)
		}
		for _, e := range r.told(event.AttemptEnded) {
			if e.Outcome != message.OutcomeCancelled {
				t.Errorf("%s: %s", e.Endpoint, e.Outcome)
			}
		}
		if s := r.lane("g"); s.Breaker != event.BreakerClosed {
			t.Error("what pawl gave up says nothing about an endpoint")
		}
	})
}

// Past the deadline, or too old, a message goes nowhere else: the attempt that is
// in flight is its last.
func TestNoHedgePastTheEnd(t *testing.T) {
	for name, change := range map[string]func(*Spec){"deadline": deadline(500 * ms), "ttl": ttl(500 * ms)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				east, west := always(well.taking(time.Second)), always(well)
				r.configure(of("g", balance.Failover, []Member{in("east", east), in("west", west)}, hedged(800*ms, 1), change))
				if res := r.deliver(r.Context(), "g"); res.Status != Delivered || res.Endpoint != "east" || len(west.seen()) != 0 {
					t.Errorf("%s at %q, %d hedges", reasons(res), res.Endpoint, len(west.seen()))
				}
			})
		})
	}
}
