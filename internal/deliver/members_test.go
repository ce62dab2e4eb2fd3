package deliver

// These tests catch: a member that a reload or a lever misses; a connector that is
// closed too soon or never; a transform that fails for more than its own member;
// a group that cannot be and is linked.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

func TestLeversOfMembers(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(well), always(well)
		r.configure(of("g", balance.Failover, []Member{in("east", east, tripped(1)), in("west", west, tripped(1))}, fallback("b")), spec("b", always(well)))
		went := func(want string) {
			t.Helper()
			if res := r.deliver(r.Context(), "g"); res.Endpoint != want {
				t.Errorf("at %q, want %q", res.Endpoint, want)
			}
		}
		if !r.fleet.Pause("east") {
			t.Error("no lever for a member")
		}
		went("west")
		r.fleet.Resume("east")
		went("east")
		if m := r.fleet.ForceBreaker("east", breaker.ForceOpen); m != LeverMoved {
			t.Error(m)
		}
		went("west")
		r.fleet.ForceBreaker("g", breaker.ForceOpen)
		went("b")
		r.fleet.ForceBreaker("g", breaker.ForceClosed)
		went("east")
		if !r.fleet.Pause("g") {
			t.Error("no lever for all members")
		}
		if s := r.lane("g"); !s.Paused {
			t.Error("not paused")
		}
		waits := r.start(r.Context(), "g")
		time.Sleep(time.Hour)
		r.fleet.Resume("west")
		if res := <-waits; res.Endpoint != "west" {
			t.Errorf("at %q", res.Endpoint)
		}
		if r.fleet.SetRate("east", nil) != NoDestination || r.fleet.Pause("north") {
			t.Error("a lever of what is not there")
		}
	})
}

// Members come and go by name: what is known of those that stay lives on, and who
// waits learns of the new ones.
func TestMembersComeAndGo(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b, c := always(reset), always(hangs), always(well)
		two := of("g", balance.Failover, []Member{in("a", a, tripped(1)), in("b", b, tripped(1))}, workers(2), attempts(1))
		r.configure(two)
		hung := r.start(r.Context(), "g")  // a refuses and opens, b hangs
		waits := r.start(r.Context(), "g") // b is full
		old := r.set
		r.configure(of("g", balance.Failover, []Member{in("c", c), in("a", a, tripped(1))}, workers(2), attempts(1)))
		if res := <-waits; res.Endpoint != "c" || res.Took != 0 {
			t.Errorf("%s at %q after %v: it began when c was not there", reasons(res), res.Endpoint, res.Took)
		}
		if s := r.member("g", "a"); s.Breaker != event.BreakerOpen {
			t.Errorf("a is forgotten: %v", s.Breaker)
		}
		if b.closes() != 0 {
			t.Error("b is closed with a send in flight")
		}
		if res := <-hung; res.Endpoint != "c" {
			t.Errorf("the one that hung at b: %s at %q", reasons(res), res.Endpoint)
		}
		if b.closes() != 1 || a.closes() != 0 {
			t.Errorf("b closed %d times, a %d", b.closes(), a.closes())
		}
		r.fleet.Retire(old)
	})
}

func TestATransformOfAMember(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(status(503)), always(status(503))
		made := 0
		broken := func(e *Endpoint) {
			e.Transform = func(context.Context, *message.Message) (*message.Message, error) { return nil, errors.New("no id") }
		}
		shouting := func(e *Endpoint) {
			e.Transform = func(_ context.Context, m *message.Message) (*message.Message, error) {
				made++
				return m.With(func(m *message.Message) { m.Body = []byte(strings.ToUpper(string(m.Body))) }), nil
			}
		}
		r.configure(of("g", balance.Failover, []Member{in("east", east, broken), in("west", west, shouting)}, attempts(2), rated(0.001, 2)))
		res := r.deliver(r.Context(), "g")
		if reasons(res) != "g exhausted" || res.Attempts != 2 || len(east.seen()) != 0 || made != 1 {
			t.Errorf("%s after %d attempts, %d to east; made %d times", reasons(res), res.Attempts, len(east.seen()), made)
		}
		for _, s := range west.seen() {
			if s.body != "BODY OF M1" {
				t.Errorf("sent %q", s.body)
			}
		}
		if res.Took != 100*ms {
			t.Errorf("took %v: a token was used for what was not sent", res.Took)
		}
	})
}

// A body that no member can be given is a permanent failure.
func TestAllTransformsFail(t *testing.T) {
	inBubble(t, func(r *rig) {
		broken := func(e *Endpoint) {
			e.Transform = func(context.Context, *message.Message) (*message.Message, error) { panic("boom") }
		}
		r.configure(of("g", balance.Failover, []Member{in("east", always(well), broken), in("west", always(well), broken)}))
		res := r.deliver(r.Context(), "g")
		if reasons(res) != "g permanent" || res.Attempts != 0 || !res.Hops[0].Tags.Has("transform") {
			t.Errorf("%s after %d attempts: %v", reasons(res), res.Attempts, res.Hops)
		}
	})
}

func TestPastTheDeadlineAGroupGetsOneAttempt(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(status(503)), always(well)
		r.configure(spec("a", always(hangs), deadline(time.Second), timeout(2*time.Second), fallback("g", "b")),
			of("g", balance.Failover, []Member{in("east", east), in("west", west)}), spec("b", always(well)))
		res := r.deliver(r.Context(), "a")
		if reasons(res) != "a deadline, g deadline" || len(west.seen()) != 0 || res.Endpoint != "b" {
			t.Errorf("%s, %d to west", reasons(res), len(west.seen()))
		}
	})
}

func TestLinkRefusesGroups(t *testing.T) {
	ms := func(names ...string) (all []Member) {
		for _, n := range names {
			all = append(all, in(n, always(well)))
		}
		return all
	}
	for want, specs := range map[string][]Spec{
		"no members":              {of("g", balance.Failover, nil)},
		"65 members":              {of("g", balance.Failover, ms(make([]string, 65)...))},
		"has no name":             {of("g", balance.Failover, ms("a", ""))},
		"is there twice":          {of("g", balance.Failover, ms("a")), of("h", balance.Failover, ms("a"))},
		"name of a destination":   {of("g", balance.Failover, ms("a")), spec("a", always(well))},
		`the name of a destinati`: {of("g", balance.Failover, ms("g"))},
		"hedges are none":         {of("g", balance.Failover, ms("a"), func(s *Spec) { s.Hedge = &Hedge{} })},
	} {
		if _, err := NewFleet(Options{}).Link(specs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one about %q", err, want)
		}
	}
}

// One who waits in the middle of a round keeps to where it was, whatever order a
// reload gives the members.
func TestAReloadMovesMembersUnderWhoWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		east, west := always(status(503)), always(hangs)
		one, two := in("east", east), in("west", west)
		r.configure(of("g", balance.Failover, []Member{two, one}, workers(2), attempts(1)))
		hung := r.start(r.Context(), "g")  // at west
		waits := r.start(r.Context(), "g") // is refused by east, and waits for west
		r.configure(of("g", balance.Failover, []Member{one, two}, workers(2), attempts(1)))
		time.Sleep(time.Second)
		if n := len(east.seen()); n != 1 {
			t.Errorf("%d sends to east in one round", n)
		}
		west.change(well)
		if res := <-waits; res.Endpoint != "west" {
			t.Errorf("%s at %q", reasons(res), res.Endpoint)
		}
		<-hung
	})
}
