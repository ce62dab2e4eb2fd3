package relay

// Catches: a message that is acked without being anywhere; a place that is held
// while another is waited for; a best-effort leg that somebody waits for; a
// repeat that is delivered twice; a letter with the wrong message, reason or
// story; a stop or a reload that loses, hangs or closes too early. Everything
// runs in virtual time over scripted destinations, and every test ends with the
// check that all lanes and sources are empty.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
)

func TestHowAMessageEnds(t *testing.T) {
	no := errors.New("bad expression")
	filter := func(takes bool, err error) func(*Route) {
		return func(r *Route) {
			r.Filter = func(context.Context, *message.Message) (bool, error) { return takes, err }
		}
	}
	tests := []struct {
		name   string
		route  func(*Route)
		a      *endpoint
		want   event.Settlement
		reason message.Reason // of the letter, "" for none
		text   string         // in the letter's error
	}{
		{"delivered", func(*Route) {}, takes(), event.SettledDelivered, "", ""},
		{"dead-lettered", func(*Route) {}, refuses(400), event.SettledDeadLettered, message.ReasonDelivery, "HTTP 400"},
		{"unrouted", filter(false, nil), takes(), event.SettledUnrouted, "", ""},
		{"the filter fails", filter(false, no), takes(), event.SettledDeadLettered, message.ReasonTransform, "filter: bad expression"},
		{"the filter panics", func(r *Route) {
			r.Filter = func(context.Context, *message.Message) (bool, error) { panic("boom") }
		}, takes(), event.SettledDeadLettered, message.ReasonTransform, "panicked: boom"},
		{"a transform fails", func(r *Route) {
			r.Transform = func(context.Context, *message.Message) (*message.Message, error) { return nil, no }
		}, takes(), event.SettledDeadLettered, message.ReasonTransform, "bad expression"},
		{"the schema refuses", func(r *Route) {
			r.Validate = func(context.Context, *message.Message) error { return errors.New("/id is missing") }
		}, takes(), event.SettledDeadLettered, message.ReasonSchema, "/id is missing"},
		{"no router decides", func(r *Route) {
			r.Choose = func(context.Context, *message.Message) ([]Target, error) { return nil, errors.New("no rule matches") }
		}, takes(), event.SettledDeadLettered, message.ReasonNoRoute, "no rule matches"},
		{"nothing is chosen", func(r *Route) { r.Choose = chooses() }, takes(), event.SettledDeadLettered, message.ReasonNoRoute, "no router chose"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.configure(setup{specs: []deliver.Spec{spec("a", test.a)}, routes: func(to func(string) Target) []*Route {
					route := &Route{Name: "orders", Choose: chooses(to("a"))}
					test.route(route)
					return []*Route{route}
				}})
				got := r.send()
				if got.Status != test.want || got.ID != "m1" || !got.Acked() {
					t.Errorf("ended %+v, want %s", got, test.want)
				}
				letters := r.shelf.all()
				if test.reason == "" {
					if len(letters) != 0 {
						t.Errorf("%d letters, want none", len(letters))
					}
					return
				}
				if len(letters) != 1 {
					t.Fatalf("%d letters, want one", len(letters))
				}
				l := letters[0]
				if l.Reason != test.reason || l.Route != "orders" || l.Relay != "shop" || l.At.IsZero() || !strings.Contains(l.Error, test.text) {
					t.Errorf("letter %+v", l.Death)
				}
				if want := test.reason == message.ReasonDelivery; (l.Destination == "a") != want {
					t.Errorf("the letter names the destination %q", l.Destination)
				}
			})
		})
	}
}

// A delivery letter keeps the message as its route made it, the others as it
// was received.
func TestWhatALetterKeeps(t *testing.T) {
	inBubble(t, func(r *rig) {
		shape := func(_ context.Context, m *message.Message) (*message.Message, error) {
			return m.With(func(m *message.Message) { m.Body = []byte("shaped") }), nil
		}
		r.configure(setup{
			specs: []deliver.Spec{spec("a", refuses(400))},
			routes: func(to func(string) Target) []*Route {
				return []*Route{
					{Name: "delivers", Transform: shape, Choose: chooses(to("a"))},
					{Name: "refuses", Transform: shape, Validate: func(context.Context, *message.Message) error { return errors.New("no") }, Choose: chooses(to("a"))},
				}
			},
		})
		r.send()
		bodies := map[message.Reason]string{}
		for _, l := range r.shelf.all() {
			bodies[l.Reason] = string(l.Message.Body)
		}
		want := map[message.Reason]string{message.ReasonDelivery: "shaped", message.ReasonSchema: "body of m1"}
		if diff := cmp.Diff(want, bodies); diff != "" {
			t.Errorf("letters (-want +got):\n%s", diff)
		}
	})
}

func TestOneLetterForEachThatFailed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{
			specs:  []deliver.Spec{spec("a", refuses(503)), spec("b", takes()), spec("c", refuses(400))},
			routes: toAll("a", "b", "c"),
		})
		if s := r.send(); s.Status != event.SettledDeadLettered {
			t.Errorf("ended %+v", s)
		}
		got := map[string]int{}
		for _, l := range r.shelf.all() {
			got[l.Destination+" of "+l.Route] = l.Attempts
		}
		if diff := cmp.Diff(map[string]int{"a of to-a": 5, "c of to-c": 1}, got); diff != "" {
			t.Errorf("letters and their attempts (-want +got):\n%s", diff)
		}
	})
}

func TestUnrouted(t *testing.T) {
	inBubble(t, func(r *rig) {
		keep := web()
		keep.Unrouted = DeadLetterUnrouted
		r.configure(setup{specs: []deliver.Spec{spec("a", takes())}, sources: []SourceSpec{keep}, routes: func(to func(string) Target) []*Route {
			return []*Route{{Name: "none", Filter: func(context.Context, *message.Message) (bool, error) { return false, nil }, Choose: chooses(to("a"))}}
		}})
		if s := r.send(); s.Status != event.SettledDeadLettered {
			t.Errorf("ended %+v", s)
		}
		if l := r.shelf.all(); len(l) != 1 || l[0].Reason != message.ReasonNoRoute || l[0].Route != "" {
			t.Errorf("letters %+v", l)
		}
	})
}

func TestEventOfASettledMessage(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(30*ms)), spec("b", refuses(400))}, routes: toAll("a", "b")})
		r.send()
		want := []event.Event{{
			Kind: event.Settled, At: r.began.Add(30 * ms), Source: "web", MessageID: "m1", Settlement: event.SettledDeadLettered,
			Route: "to-a,to-b", Destination: "a,b", Number: 2, Took: 30 * ms,
		}}
		if diff := cmp.Diff(want, r.told(event.Settled)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestBestEffortIsNotWaitedFor(t *testing.T) {
	inBubble(t, func(r *rig) {
		news := slow(time.Minute)
		r.configure(setup{
			specs: []deliver.Spec{spec("a", slow(10*ms)), spec("news", news, func(s *deliver.Spec) { s.Timeout, s.MaxPending = 2*time.Minute, 2 })},
			routes: func(to func(string) Target) []*Route {
				return []*Route{{Name: "orders", Choose: chooses(to("a"), bestEffort(to("news")))}}
			},
		})
		for range 3 {
			if s := r.send(); s.Status != event.SettledDelivered {
				t.Errorf("ended %+v", s)
			}
		}
		if r.at() != 30*ms {
			t.Errorf("took %v: the best-effort leg was waited for", r.at())
		}
		dropped := r.told(event.BestEffortDropped)
		if len(dropped) != 1 || dropped[0].MessageID != "m3" || dropped[0].Destination != "news" || !strings.Contains(dropped[0].Error, "full") {
			t.Errorf("dropped %+v, want m3 alone: two have the places", dropped)
		}
		time.Sleep(2 * time.Minute)
		if got, _ := news.counts(); got != 2 || len(r.shelf.all()) != 0 {
			t.Errorf("news got %d, and there are %d letters", got, len(r.shelf.all()))
		}
	})
}

func TestAFailedBestEffortLegLeavesNoLetter(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{
			specs: []deliver.Spec{spec("a", takes()), spec("news", refuses(400))},
			routes: func(to func(string) Target) []*Route {
				return []*Route{{Name: "orders", Choose: chooses(to("a"), bestEffort(to("news")))}}
			},
		})
		if s := r.send(); s.Status != event.SettledDelivered {
			t.Errorf("ended %+v", s)
		}
		time.Sleep(time.Second)
		if d := r.told(event.BestEffortDropped); len(d) != 1 || d[0].Error != "HTTP 400 Bad Request" || len(r.shelf.all()) != 0 {
			t.Errorf("dropped %+v with %d letters", d, len(r.shelf.all()))
		}
		if f := r.told(event.DeliveryFailed); len(f) != 1 || f[0].Required {
			t.Errorf("failed %+v; want one that nobody required", f)
		}
	})
}

func TestADestinationChosenTwiceByARouteGetsTheMessageOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := refuses(400)
		r.configure(setup{specs: []deliver.Spec{spec("a", a)}, routes: func(to func(string) Target) []*Route {
			return []*Route{{Name: "orders", Choose: chooses(bestEffort(to("a")), to("a"), to("a"))}}
		}})
		if s := r.send(); s.Status != event.SettledDeadLettered {
			t.Errorf("ended %+v: required where either is", s)
		}
		if _, sends := a.counts(); sends != 1 {
			t.Errorf("%d sends", sends)
		}
	})
}

func TestALetterThatCannotBeKeptIsANack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", refuses(400))}, routes: toAll("a")})
		full := errors.New("no space left on device")
		r.shelf.fail(full)
		s := r.send()
		if s.Status != event.SettledNacked || !errors.Is(s.Err, full) || s.RetryAfter <= 0 || s.Acked() {
			t.Errorf("ended %+v", s)
		}
		if r.at() != 0 || r.shelf.tries != 1 {
			t.Errorf("answered after %v and %d tries", r.at(), r.shelf.tries)
		}
	})
}

// With nobody left to nack, the letter is tried until there is space; the
// message holds its room meanwhile.
func TestALetterWithNobodyToNackIsTriedUntilThereIsSpace(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", refuses(400))}, routes: toAll("a")})
		r.shelf.fail(errors.New("no space left on device"))
		d := r.next("web")
		d.Nackable = func() bool { return false }
		c := r.start(r.Context(), d)
		time.Sleep(time.Hour)
		pending(c)
		if st := r.relay.Status().Sources[0]; st.InFlight != 1 {
			t.Errorf("%d in flight while it waits for space", st.InFlight)
		}
		if r.shelf.tries < 100 || r.shelf.tries > 500 {
			t.Errorf("%d tries in an hour", r.shelf.tries)
		}
		r.shelf.fail(nil)
		if s := <-c; s.Status != event.SettledDeadLettered {
			t.Errorf("ended %+v", s)
		}
		if over := r.at() - time.Hour; over > 10*time.Second || len(r.shelf.all()) != 1 {
			t.Errorf("kept %v after there was space, %d letters", over, len(r.shelf.all()))
		}
	})
}

// Whether somebody waits is asked at each failure: a 504 may go out meanwhile.
func TestTheSenderMayGoAwayWhileALetterFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", &endpoint{do: func(context.Context, *message.Message) error {
			time.Sleep(2 * time.Second)
			return failure.FromStatus(400, 0)
		}})}, routes: toAll("a")})
		r.shelf.fail(errors.New("no space left on device"))
		d := r.next("web")
		d.Nackable = func() bool { return r.at() < time.Second }
		c := r.start(r.Context(), d)
		time.Sleep(10 * time.Second)
		pending(c)
		r.shelf.fail(nil)
		if s := <-c; s.Status != event.SettledDeadLettered {
			t.Errorf("ended %+v", s)
		}
	})
}

func TestTraceOfAMessage(t *testing.T) {
	inBubble(t, func(r *rig) {
		type key struct{}
		var traced []string
		r.relay.opts.Trace = func(ctx context.Context, m *message.Message) (context.Context, func(event.Settlement, error)) {
			return context.WithValue(ctx, key{}, m.ID), func(s event.Settlement, err error) {
				traced = append(traced, fmt.Sprintf("%s %s %v", m.ID, s, err))
			}
		}
		a := &endpoint{do: func(ctx context.Context, m *message.Message) error {
			if ctx.Value(key{}) != m.ID {
				t.Error("the delivery does not know of the message's trace")
			}
			return failure.FromStatus(400, 0)
		}}
		r.configure(setup{specs: []deliver.Spec{spec("a", a)}, routes: toAll("a")})
		r.send()
		r.shelf.fail(errors.New("full"))
		r.send()
		if diff := cmp.Diff([]string{"m1 dead_lettered <nil>", "m2 nacked full"}, traced); diff != "" {
			t.Errorf("traced (-want +got):\n%s", diff)
		}
	})
}
