package deliver

// These tests catch: a member that is picked though it is down, held, unhealthy or
// at its share; one that hangs and takes the workers or the queue of the others; a
// group that is left too soon or too late.

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
)

// in is a member of a group with the timeout of the reference and no breaker.
func in(name string, e connector.Destination, changes ...func(*Endpoint)) Member {
	m := Member{Endpoint: Endpoint{EndpointName: name, Connector: e, Timeout: 5 * time.Second}, Weight: 1}
	for _, c := range changes {
		c(&m.Endpoint)
	}
	return m
}

// tripped gives a member a breaker that the number of messages opens, for 5 s at
// first.
func tripped(messages int) func(*Endpoint) {
	b := breaker.Defaults()
	b.MinRequests, b.HalfOpenMax = messages, 1
	return func(e *Endpoint) { e.Breaker = &b }
}

// grouped makes the destination a group.
func grouped(how balance.Strategy, members ...Member) func(*Spec) {
	return func(s *Spec) {
		s.Endpoint = Endpoint{}
		s.Group = &Group{Strategy: how, Members: members}
	}
}

// of is a group with the defaults of the reference.
func of(name string, how balance.Strategy, members []Member, changes ...func(*Spec)) Spec {
	return spec(name, nil, append([]func(*Spec){grouped(how, members...)}, changes...)...)
}

// went tells the attempts in order: "east retry, west ok".
func (r *rig) went() string {
	var all []string
	for _, e := range r.told(event.AttemptEnded) {
		all = append(all, fmt.Sprintf("%s %s", e.Endpoint, e.Outcome))
	}
	return strings.Join(all, ", ")
}

func (r *rig) member(group, name string) EndpointStatus {
	r.Helper()
	for _, e := range r.lane(group).Endpoints {
		if e.Name == name {
			return e
		}
	}
	r.Fatalf("no member %s of %s", name, group)
	return EndpointStatus{}
}

func TestTheNextMemberTakesOver(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(status(503)), always(well)
		r.configure(of("g", balance.Failover, []Member{in("east", east), in("west", west)}))
		res := r.deliver(r.Context(), "g")
		if res.Status != Delivered || res.Endpoint != "west" || res.Took != 0 || res.Attempts != 2 {
			t.Errorf("status %d at %q after %v and %d attempts", res.Status, res.Endpoint, res.Took, res.Attempts)
		}
		for i, e := range r.told(event.AttemptEnded) {
			if e.Destination != "g" || e.Number != i+1 || e.Hedge {
				t.Errorf("told %+v", e)
			}
		}
		if done := r.told(event.Delivered); len(done) != 1 || done[0].Destination != "g" || done[0].Endpoint != "west" {
			t.Errorf("told %+v", done)
		}
	})
}

func TestStrategies(t *testing.T) {
	for how, want := range map[balance.Strategy]string{
		balance.Failover: "aaaaaaa", balance.RoundRobin: "abcabca", balance.Weighted: "aabacaa",
	} {
		inBubble(t, func(r *rig) {
			a, b, c := in("a", always(well)), in("b", always(well)), in("c", always(well))
			a.Weight = 5
			r.configure(of("g", how, []Member{a, b, c}))
			got := ""
			for range 7 {
				got += r.deliver(r.Context(), "g").Endpoint
			}
			if got != want {
				t.Errorf("%s goes %s, want %s", how, got, want)
			}
		})
	}
}

// A refusal uses up no turn.
func TestAWaitUsesNoTurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(of("g", balance.RoundRobin, []Member{in("a", always(well)), in("b", always(well))}, rated(1, 1)))
		got := ""
		for _, res := range all([]<-chan Result{r.start(r.Context(), "g"), r.start(r.Context(), "g"), r.start(r.Context(), "g"), r.start(r.Context(), "g")}) {
			got += res.Endpoint
		}
		if got != "abab" || r.at() != 3*time.Second {
			t.Errorf("went %s in %v: members share one rate, in turn", got, r.at())
		}
	})
}

func TestAnOpenMemberIsPassedOver(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(reset), always(well)
		r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(2)), in("west", west, tripped(2))}))
		for range 6 {
			if res := r.deliver(r.Context(), "g"); res.Status != Delivered {
				t.Error(reasons(res))
			}
		}
		if len(east.seen()) != 2 || len(west.seen()) != 6 {
			t.Errorf("%d to east, %d to west", len(east.seen()), len(west.seen()))
		}
		if moves := r.told(event.BreakerMoved); len(moves) != 1 || moves[0].Destination != "g" || moves[0].Endpoint != "east" {
			t.Errorf("told %+v", moves)
		}
		if s := r.lane("g"); s.Breaker != event.BreakerClosed || !s.OpenUntil.IsZero() {
			t.Errorf("the group is %v though west is well", s.Breaker)
		}
		east.change(well)
		time.Sleep(5 * time.Second)
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "east" {
			t.Errorf("back, and yet %s is sent to", res.Endpoint)
		}
	})
}

// Only when every breaker is open is the group itself open.
func TestAGroupIsOpenWhenAllAre(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Spec)
		want   string
		took   time.Duration
		status Status
	}{
		{"with a fallback", fallback("b"), "g breaker_open", 0, Delivered},
		{"told to fail", failWhenOpen, "g breaker_open", 0, Failed},
		{"with nowhere to go", workers(64), "", 5 * time.Second, Delivered},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				east, west := always(reset), always(reset)
				r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(1)), in("west", west, tripped(1))}, attempts(1), test.change),
					spec("b", always(well)))
				r.deliver(r.Context(), "g")
				east.change(well)
				west.change(well)
				if s := r.lane("g"); s.Breaker != event.BreakerOpen || s.OpenUntil.Sub(r.began) != 5*time.Second {
					t.Errorf("%v until %v", s.Breaker, s.OpenUntil.Sub(r.began))
				}
				res := r.deliver(r.Context(), "g")
				if reasons(res) != test.want || res.Took != test.took || res.Status != test.status {
					t.Errorf("%q after %v, status %d", reasons(res), res.Took, res.Status)
				}
			})
		})
	}
}

func TestAHeldMemberIsPassedOver(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(well, asks(429, 4*time.Second)), always(well)
		r.configure(of("g", balance.Failover, []Member{in("east", east), in("west", west)}))
		for _, want := range []string{"west", "west"} {
			if res := r.deliver(r.Context(), "g"); res.Endpoint != want || res.Took != 0 {
				t.Errorf("at %s after %v", res.Endpoint, res.Took)
			}
		}
		if held := r.told(event.HoldSet); len(held) != 1 || held[0].Destination != "g" || held[0].Endpoint != "east" {
			t.Errorf("told %+v", held)
		}
		time.Sleep(4 * time.Second)
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "east" {
			t.Errorf("after its hold: %s", res.Endpoint)
		}
	})
}

func TestHealth(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(of("g", balance.Failover, []Member{in("east", always(well), tripped(1)), in("west", always(well))}))
		post := r.fleet.lanes["g"].post
		post.setHealth("east", event.Healthy, nil) // as it was taken to be: no news
		post.setHealth("east", event.Unhealthy, errors.New("HTTP 500"))
		post.setHealth("east", event.Unhealthy, nil)
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "west" {
			t.Errorf("unhealthy, and yet %s is sent to", res.Endpoint)
		}
		post.setHealth("west", event.Unhealthy, errors.New("HTTP 500"))
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "east" || res.Took != 0 {
			t.Errorf("with none healthy: %q after %v; a wrong check must not stop delivery", res.Endpoint, res.Took)
		}
		moves := r.told(event.HealthMoved)
		if len(moves) != 2 || moves[0].Endpoint != "east" || moves[0].Error != "HTTP 500" || moves[0].Health != event.Unhealthy {
			t.Errorf("told %+v", moves)
		}
		if s := r.member("g", "east"); s.Health != event.Unhealthy {
			t.Errorf("status says %v", s.Health)
		}
	})
}

// From a recovery on an open breaker gives trials at once, and traffic comes back
// by the ramp.
func TestARecoveryEndsTheOpenTime(t *testing.T) {
	inBubble(t, func(r *rig) {
		east := always(reset)
		r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(1)), in("west", always(reset), tripped(1))}, attempts(1)))
		r.deliver(r.Context(), "g")
		post := r.fleet.lanes["g"].post
		post.setHealth("east", event.Unhealthy, errors.New("down"))
		waits := r.start(r.Context(), "g")
		time.Sleep(time.Second)
		east.change(well)
		post.setHealth("east", event.Healthy, nil)
		if res := <-waits; res.Endpoint != "east" || res.Took != time.Second {
			t.Errorf("%s at %q after %v", reasons(res), res.Endpoint, res.Took)
		}
		if s := r.member("g", "east"); s.Breaker != event.BreakerClosed {
			t.Errorf("%v", s.Breaker)
		}
		for range 6 {
			r.deliver(r.Context(), "g")
		}
		if s := r.member("g", "east"); s.Ramp != 0 {
			t.Errorf("a ramp of %d still", s.Ramp)
		}
		post.setHealth("east", event.Unhealthy, errors.New("down"))
		post.setHealth("east", event.Healthy, nil)
		if s := r.member("g", "east"); s.Ramp != 1 {
			t.Errorf("a ramp of %d after a recovery", s.Ramp)
		}
	})
}

// One that hangs takes neither the workers nor the queue of the other, however
// many come.
func TestAHungMemberNeverTakesTheOthersWorkers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(rt, "workers")
		how := rapid.SampledFrom([]balance.Strategy{balance.Failover, balance.RoundRobin, balance.Weighted, balance.LeastLatency}).Draw(rt, "strategy")
		sick := rapid.IntRange(0, 1).Draw(rt, "sick")
		messages := rapid.IntRange(1, 40).Draw(rt, "messages")
		synctest.Test(t, func(t *testing.T) {
			r := &rig{T: t, began: time.Now()}
			r.fleet = NewFleet(Options{Events: r.take, Random: func() float64 { return 0.5 }})
			hung, other := always(hangs), always(well.taking(10*ms))
			members := []Member{in("a", hung), in("b", other)}
			if sick == 1 {
				members = []Member{in("b", other), in("a", hung)}
			}
			r.configure(of("g", how, members, workers(n), attempts(1)))
			share := balance.Share(n, 2)
			var open []<-chan Result
			for range messages {
				open = append(open, r.start(t.Context(), "g"))
			}
			time.Sleep(time.Duration(messages) * 10 * ms)
			synctest.Wait()
			if hung.peak > share || other.peak > share {
				t.Errorf("%d and %d at once, the share is %d", hung.peak, other.peak, share)
			}
			if s := r.lane("g"); s.Waiting != 0 || s.Busy > share {
				t.Errorf("%d wait with %d at work behind a member that hangs", s.Waiting, s.Busy)
			}
			all(open)
			r.fleet.Close()
		})
		if t.Failed() {
			rt.Fatal("a hung member is in the way")
		}
	})
}

// A message that can only go to a full member stands in nobody's way.
func TestWhoWaitsForAFullMemberIsPassed(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(hangs), always(status(503).taking(ms))
		r.configure(of("g", balance.RoundRobin, []Member{in("east", east), in("west", west)}, workers(2), attempts(1)))
		hung := r.start(r.Context(), "g") // hangs at east
		time.Sleep(ms)
		waits := r.start(r.Context(), "g") // is refused by west at once, and waits for east
		time.Sleep(5 * ms)
		west.change(well)
		if s := r.lane("g"); s.Waiting != 1 {
			t.Fatalf("%d wait", s.Waiting)
		}
		if res := r.deliver(r.Context(), "g"); res.Endpoint != "west" || res.Took != 0 {
			t.Errorf("at %q after %v: it stood behind one that waits for east", res.Endpoint, res.Took)
		}
		all([]<-chan Result{hung, waits})
	})
}
