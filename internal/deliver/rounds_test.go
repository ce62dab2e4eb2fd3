package deliver

// These tests catch: a wait between members of one round, or none between rounds;
// a member that is tried again after it answered for good, or more often than
// retry.attempts; a round that is charged as more than one retry; a reason that
// does not say why the group was left.

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

func TestRounds(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b, c := always(status(503)), always(reset), always(status(500))
		r.configure(of("g", balance.RoundRobin, []Member{in("a", a), in("b", b), in("c", c)}, attempts(3)))
		res := r.deliver(r.Context(), "g")
		// Waits of 100 and 200 ms, between rounds alone.
		want := []time.Duration{0, 100 * ms, 300 * ms}
		for name, e := range map[string]*endpoint{"a": a, "b": b, "c": c} {
			if diff := cmp.Diff(want, r.times(e)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if reasons(res) != "g exhausted" || res.Attempts != 9 || len(res.Hops[0].Attempts) != 9 {
			t.Errorf("%s after %d attempts", reasons(res), res.Attempts)
		}
		for i, at := range res.Hops[0].Attempts {
			if at.Number != i+1 || at.Outcome != message.OutcomeRetry {
				t.Errorf("attempt %d: %+v", i, at)
			}
		}
	})
}

func TestPermanentAnswers(t *testing.T) {
	no, busy := status(404), status(503)
	for _, test := range []struct {
		name       string
		east, west *endpoint
		change     func(*Spec)
		went, want string
	}{
		{"one after the other", always(no), always(no), attempts(5), "east permanent, west permanent", "g permanent"},
		{"one of them", always(no), always(busy), attempts(3), "east permanent, west retry, west retry, west retry", "g exhausted"},
		{"in a later round", always(no, busy), always(no, busy), attempts(3),
			"east retry, west retry, east permanent, west permanent", "g permanent"},
		{"and in the last round", always(no, busy), always(no), attempts(2), "east retry, west permanent, east permanent", "g permanent"},
		{"and the other takes it", always(no), always(well), attempts(5), "east permanent, west ok", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.configure(of("g", balance.Failover, []Member{in("east", test.east), in("west", test.west)}, test.change))
				res := r.deliver(r.Context(), "g")
				if diff := cmp.Diff(test.went, r.went()); diff != "" || reasons(res) != test.want {
					t.Errorf("left %q, want %q (-want +got):\n%s", reasons(res), test.want, diff)
				}
			})
		})
	}
}

// Whoever is not available when all the others have refused is not waited for.
func TestPermanentWithTheOtherAway(t *testing.T) {
	for name, away := range map[string]func(r *rig){
		"held":   func(r *rig) { r.deliver(r.Context(), "g") },
		"paused": func(r *rig) { r.fleet.Pause("west") },
		"open":   func(r *rig) { r.fleet.ForceBreaker("west", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				east, west := always(status(404), status(503)), always(well, asks(503, 5*time.Second))
				r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(9)), in("west", west, tripped(9))}, attempts(1)))
				if away(r); name != "held" {
					east.change(status(404))
					r.deliver(r.Context(), "g")
				}
				if res := r.deliver(r.Context(), "g"); reasons(res) != "g permanent" || res.Took != 0 {
					t.Errorf("left %q after %v", reasons(res), res.Took)
				}
			})
		})
	}
}

// Where all ask for a time the shortest is waited, where one does not the backoff.
func TestTheWaitBetweenRounds(t *testing.T) {
	for _, test := range []struct {
		name        string
		east, west  act
		again, took time.Duration
	}{
		{"both ask", asks(503, 4*time.Second), asks(429, 2*time.Second), 2 * time.Second, 2 * time.Second},
		{"one asks", asks(503, 4*time.Second), status(503), 100 * ms, 100 * ms},
		{"one is out", asks(503, 4*time.Second), status(404), 4 * time.Second, 4 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				east, west := always(well, test.east), always(well, test.west)
				r.configure(of("g", balance.Failover, []Member{in("east", east), in("west", west)}))
				if res := r.deliver(r.Context(), "g"); res.Status != Delivered || res.Took != test.took {
					t.Errorf("%s after %v, want %v", reasons(res), res.Took, test.took)
				}
			})
		})
	}
}

func TestAClearedHoldOfAMember(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(of("g", balance.Failover, []Member{in("east", always(well, asks(503, 9*time.Second))), in("west", always(well, asks(503, 8*time.Second)))}))
		c := r.start(r.Context(), "g")
		time.Sleep(time.Second)
		r.fleet.ClearHold("east")
		if res := <-c; res.Endpoint != "east" || res.Took != time.Second {
			t.Errorf("%s at %q after %v", reasons(res), res.Endpoint, res.Took)
		}
	})
}

// Another member's try in the same round is no retry; a round is one.
func TestARoundIsChargedOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(status(503)), always(status(503))
		r.configure(of("g", balance.Failover, []Member{in("a", a), in("b", b)}, attempts(5), budgeted(0, 0.3, 10*time.Second)))
		res := r.deliver(r.Context(), "g")
		if reasons(res) != "g budget" || len(a.seen()) != 4 || len(b.seen()) != 4 {
			t.Errorf("%s with %d and %d sends: three retries are allowed", reasons(res), len(a.seen()), len(b.seen()))
		}
	})
}

// Of a message its first send alone counts as a first attempt.
func TestAMessageIsOneFirstAttempt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(of("g", balance.Failover, []Member{in("a", always(status(503))), in("b", always(well))}, budgeted(1, 0, 10*time.Second)))
		for range 3 {
			r.deliver(r.Context(), "g")
		}
		if left := r.lane("g").Retries; left == nil || *left != 3 {
			t.Errorf("%v retries after 3 messages and 6 sends, each of which allows one", *left)
		}
	})
}

func TestTheDeadlineEndsARound(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(status(503).taking(2*time.Second)), always(well)
		r.configure(of("g", balance.Failover, []Member{in("east", east), in("west", west)}, deadline(time.Second)))
		res := r.deliver(r.Context(), "g")
		if reasons(res) != "g deadline" || len(west.seen()) != 0 || res.Took != 2*time.Second {
			t.Errorf("%s after %v with %d to west", reasons(res), res.Took, len(west.seen()))
		}
		if res.Hops[0].Error == "" || !res.Hops[0].Tags.Has("503") {
			t.Errorf("the hop says %+v", res.Hops[0])
		}
	})
}

// A member that is full is waited for within the round, unless its breaker opens
// meanwhile.
func TestARoundWaitsForAFullMember(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(status(503)), always(hangs)
		r.configure(of("g", balance.Failover, []Member{in("west", west, tripped(1)), in("east", east)}, workers(2), attempts(1)))
		hung := r.start(r.Context(), "g") // at west, until 5 s; its breaker opens at 2.5 s
		res := r.deliver(r.Context(), "g")
		if reasons(res) != "g exhausted" || res.Took != 2500*ms {
			t.Errorf("%s after %v", reasons(res), res.Took)
		}
		if s := r.member("g", "west"); s.Breaker != event.BreakerOpen {
			t.Errorf("%v", s.Breaker)
		}
		<-hung
	})
}

// A delivery from a queue puts off the wait between rounds, not the next member.
func TestARoundIsNotPutOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(of("g", balance.Failover, []Member{in("a", always(asks(503, time.Minute))), in("b", always(asks(503, 2*time.Minute)))}, slowly))
		r.deferred(r.deliverPatiently("g"), time.Minute, 2)
	})
}

// A failure that opens the last breaker sends the message on at once where there
// is somewhere to go: it does not rest before it finds out.
func TestNobodyRestsBeforeAShutGroup(t *testing.T) {
	for _, test := range []struct {
		name string
		spec func(a, b *endpoint) Spec
	}{
		{name: "a plain destination", spec: func(a, _ *endpoint) Spec { return spec("g", a, guarded(1), fallback("c")) }},
		{name: "a group", spec: func(a, b *endpoint) Spec {
			s := of("g", balance.Failover, []Member{in("a", a, tripped(1)), in("b", b, tripped(1))}, fallback("c"))
			return s
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a, b, c := always(reset), always(reset), always(well)
				r.configure(test.spec(a, b), spec("c", c))
				res := r.deliver(r.Context(), "g")
				if reasons(res) != "g breaker_open" || res.Endpoint != "c" || res.Took != 0 || res.Hops[0].Error == "" {
					t.Errorf("%s, at %s after %v: %+v", reasons(res), res.Endpoint, res.Took, res.Hops)
				}
			})
		})
	}
}

// One that was refused for good by a member is told of the others alone: the rest
// of them shut is all of them shut.
func TestNobodyRestsForAMemberThatRefused(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(reset), always(status(400))
		r.configure(of("g", balance.Failover, []Member{in("a", a, tripped(1)), in("b", b)}, fallback("c")), spec("c", always(well)))
		res := r.deliver(r.Context(), "g")
		if reasons(res) != "g breaker_open" || res.Endpoint != "c" || res.Took != 0 {
			t.Errorf("%s, at %s after %v", reasons(res), res.Endpoint, res.Took)
		}
	})
}
