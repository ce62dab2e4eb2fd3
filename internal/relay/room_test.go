package relay

import (
	"context"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
)

func pausing(name string) SourceSpec {
	s := web()
	s.Name, s.Push = name, Pause
	return s
}

func TestAFullLaneRefusesOrPauses(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{
			specs:   []deliver.Spec{spec("a", slow(time.Second), places(1))},
			routes:  toAll("a"),
			sources: []SourceSpec{web(), pausing("queue")},
		})
		first := r.goOn()
		if s := r.send(); s.Status != event.SettledRefused || s.RetryAfter != time.Second || s.Err == nil || r.at() != 0 {
			t.Errorf("refused with %+v after %v", s, r.at())
		}
		second := r.start(r.Context(), r.next("queue"))
		if s := <-first; s.Status != event.SettledDelivered {
			t.Errorf("ended %+v", s)
		}
		if s := <-second; s.Status != event.SettledDelivered || r.at() != 2*time.Second {
			t.Errorf("ended %+v after %v: it should have waited", s, r.at())
		}
	})
}

// With one lane full nothing may be held of the others, and nothing be sent.
func TestAdmissionIsAllOrNone(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := takes(), slow(time.Second)
		r.configure(setup{
			specs: []deliver.Spec{spec("a", a, places(1)), spec("b", b, places(1)), spec("c", takes(), places(1))},
			routes: func(to func(string) Target) []*Route {
				all := &Route{Name: "all", Choose: chooses(to("a"), to("b"), to("c"))}
				only := &Route{Name: "only", Choose: chooses(to("b"))}
				is := func(source string) func(context.Context, *message.Message) (bool, error) {
					return func(_ context.Context, m *message.Message) (bool, error) { return m.Source == source, nil }
				}
				all.Filter, only.Filter = is("queue"), is("web")
				return []*Route{all, only}
			},
			sources: []SourceSpec{web(), pausing("queue")},
		})
		blocks := r.goOn()
		waits := r.start(r.Context(), r.next("queue"))
		pending(waits)
		if p := r.lane("a").Pending + r.lane("c").Pending; p != 0 {
			t.Errorf("%d places are held while b is waited for", p)
		}
		if _, sends := a.counts(); sends != 0 {
			t.Error("sent before all lanes had taken it")
		}
		<-blocks
		if s := <-waits; s.Status != event.SettledDelivered {
			t.Errorf("ended %+v", s)
		}
	})
}

// Two sources that need the same two lanes, in either order: nobody waits for
// ever.
func TestTwoSourcesTwoLanes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{
			specs: []deliver.Spec{spec("a", slow(10*ms), places(1)), spec("b", slow(15*ms), places(1))},
			routes: func(to func(string) Target) []*Route {
				return []*Route{{Name: "both", Choose: func(_ context.Context, m *message.Message) ([]Target, error) {
					if m.Source == "x" {
						return []Target{to("a"), to("b")}, nil
					}
					return []Target{to("b"), to("a")}, nil
				}}}
			},
			sources: []SourceSpec{pausing("x"), pausing("y")},
		})
		var all []<-chan connector.Settlement
		for range 50 {
			all = append(all, r.start(r.Context(), r.next("x")), r.start(r.Context(), r.next("y")))
		}
		for _, c := range all {
			if s := <-c; s.Status != event.SettledDelivered {
				t.Errorf("ended %+v", s)
			}
		}
		if r.at() > 5*time.Second {
			t.Errorf("took %v for 100 messages", r.at())
		}
	})
}

// Two routes send one message to one destination, whose lane has one place:
// the message must get in all the same.
func TestTwoLegsToALaneOfOnePlace(t *testing.T) {
	for _, push := range []Push{Refuse, Pause} {
		inBubble(t, func(r *rig) {
			a := slow(time.Second)
			source := web()
			source.Push = push
			r.configure(setup{
				specs: []deliver.Spec{spec("a", a, places(1))},
				routes: func(to func(string) Target) []*Route {
					return []*Route{{Name: "one", Choose: chooses(to("a"))}, {Name: "two", Choose: chooses(to("a"))}}
				},
				sources: []SourceSpec{source},
			})
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			defer cancel()
			if s := r.handle(ctx, r.next("web")); s.Status != event.SettledDelivered {
				t.Errorf("push %d: ended %+v", push, s)
			}
			if got, _ := a.counts(); got != 2 {
				t.Errorf("push %d: %d arrived, want one a route", push, got)
			}
		})
	}
}

func TestRoomOfASource(t *testing.T) {
	bounds := map[string]func(*SourceSpec){
		"max_in_flight":       func(s *SourceSpec) { s.MaxInFlight = 2 },
		"max_in_flight_bytes": func(s *SourceSpec) { s.MaxInFlightBytes = 25 }, // bodies are "body of m1"
	}
	for name, bound := range bounds {
		for _, push := range []Push{Refuse, Pause} {
			inBubble(t, func(r *rig) {
				source := web()
				source.Push = push
				bound(&source)
				r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second))}, routes: toAll("a"), sources: []SourceSpec{source}})
				var all []<-chan connector.Settlement
				for range 5 {
					all = append(all, r.goOn())
				}
				n := map[event.Settlement]int{}
				for _, c := range all {
					s := <-c
					n[s.Status]++
					if s.Status == event.SettledRefused && s.RetryAfter != time.Second {
						t.Errorf("%s: refused with %+v", name, s)
					}
				}
				delivered, took := 2, time.Second
				if push == Pause {
					delivered, took = 5, 3*time.Second
				}
				if n[event.SettledDelivered] != delivered || n[event.SettledRefused] != 5-delivered || r.at() != took {
					t.Errorf("%s, push %d: %v after %v", name, push, n, r.at())
				}
			})
		}
	}
}

// One that is larger than all the room is let through alone.
func TestABodyLargerThanTheRoom(t *testing.T) {
	inBubble(t, func(r *rig) {
		source := web()
		source.MaxInFlightBytes = 4
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second))}, routes: toAll("a"), sources: []SourceSpec{source}})
		c := r.goOn()
		if s := r.send(); s.Status != event.SettledRefused {
			t.Errorf("the second: %+v", s)
		}
		if s := <-c; s.Status != event.SettledDelivered {
			t.Errorf("the first: %+v", s)
		}
	})
}

func TestAPausedSource(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", takes())}, routes: toAll("a"), sources: []SourceSpec{web(), pausing("queue")}})
		if !r.relay.PauseSource("web") || !r.relay.PauseSource("queue") || r.relay.PauseSource("nobody") {
			t.Error("PauseSource knows what is not there, or not what is")
		}
		if s := r.send(); s.Status != event.SettledRefused || s.RetryAfter != 10*time.Second {
			t.Errorf("refusing: %+v", s)
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if s := r.handle(ctx, r.next("queue")); s.Status != event.SettledRefused || r.at() != time.Second {
			t.Errorf("its ctx ended: %+v after %v", s, r.at())
		}
		c := r.start(r.Context(), r.next("queue"))
		time.Sleep(time.Hour)
		pending(c)
		r.relay.ResumeSource("queue")
		r.relay.ResumeSource("web")
		if s := <-c; s.Status != event.SettledDelivered {
			t.Errorf("ended %+v", s)
		}
		if s := r.send(); s.Status != event.SettledDelivered {
			t.Errorf("ended %+v", s)
		}
	})
}

// The end of the source's ctx does not abandon a message that has its places.
func TestOnceBegunAMessageIsSettled(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second))}, routes: toAll("a")})
		ctx, cancel := context.WithCancel(r.Context())
		c := r.start(ctx, r.next("web"))
		cancel()
		pending(c)
		if s := <-c; s.Status != event.SettledDelivered {
			t.Errorf("ended %+v", s)
		}
	})
}

// A sender that was told its message goes on (a 504 while routing took its time)
// must not find it refused for a full lane: it waits for a place, and a stop
// makes a dead letter of it.
func TestWhatWasTakenIsNotRefusedAnyMore(t *testing.T) {
	for _, stops := range []bool{false, true} {
		inBubble(t, func(r *rig) {
			a := slow(4 * time.Second)
			r.configure(setup{specs: []deliver.Spec{spec("a", a, places(1))}, routes: func(to func(string) Target) []*Route {
				return []*Route{{Name: "slow", Choose: func(_ context.Context, m *message.Message) ([]Target, error) {
					if m.ID == "m2" {
						time.Sleep(time.Second)
					}
					return []Target{to("a")}, nil
				}}}
			}})
			first := r.goOn()
			d := r.next("web")
			d.Nackable = func() bool { return r.at() < time.Second }
			told := r.start(r.Context(), d)
			if s := r.send(); s.Status != event.SettledRefused {
				t.Errorf("a message that nobody was told of: %+v", s)
			}
			time.Sleep(2 * time.Second)
			pending(told)
			want := event.SettledDelivered
			if stops {
				want = event.SettledDeadLettered
				_, _ = r.stop(time.Second)
			}
			if s := <-told; s.Status != want {
				t.Errorf("ended %+v, want %s", s, want)
			}
			<-first
			if letters := r.shelf.all(); stops && (len(letters) != 1 || letters[0].Destination != "a" || letters[0].Hops[0].Reason != message.HopCancelled) {
				t.Errorf("letters %+v", letters)
			}
		})
	}
}
