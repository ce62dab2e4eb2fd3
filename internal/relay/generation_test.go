package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
)

// A message keeps the routes and policies it began with; connectors of
// destinations that are gone are closed when the last one that may use them has
// ended, not before.
func TestAReloadUnderTraffic(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := slow(2*time.Second), takes()
		r.configure(setup{specs: []deliver.Spec{spec("a", a)}, routes: toAll("a")})
		old := r.goOn()
		r.configure(setup{specs: []deliver.Spec{spec("b", b)}, routes: toAll("b")})
		if s := r.send(); s.Status != event.SettledDelivered {
			t.Errorf("after the reload: %+v", s)
		}
		if st := r.relay.Status(); st.Generation != 2 || st.Draining != 1 || a.closes() != 0 {
			t.Errorf("generation %d, %d draining, a closed %d times", st.Generation, st.Draining, a.closes())
		}
		if s := <-old; s.Status != event.SettledDelivered {
			t.Errorf("the old one: %+v", s)
		}
		synctest.Wait()
		if st := r.relay.Status(); st.Draining != 0 || a.closes() != 1 || b.closes() != 0 {
			t.Errorf("%d draining, a closed %d times, b %d", st.Draining, a.closes(), b.closes())
		}
		if got, _ := b.counts(); got != 1 {
			t.Errorf("b got %d", got)
		}
		r.configure(setup{specs: []deliver.Spec{spec("a", takes())}, routes: toAll("a")})
		if b.closes() != 1 {
			t.Error("an idle generation's connector is not closed at once")
		}
	})
}

// A generation drains until its last message has ended, not its first.
func TestAGenerationDrainsToTheLast(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := slow(2 * time.Second)
		r.configure(setup{specs: []deliver.Spec{spec("a", a)}, routes: toAll("a")})
		first := r.goOn()
		time.Sleep(time.Second)
		second := r.goOn()
		r.configure(setup{specs: []deliver.Spec{spec("b", takes())}, routes: toAll("b")})
		<-first
		synctest.Wait()
		if st := r.relay.Status(); st.Draining != 1 || a.closes() != 0 {
			t.Errorf("%d draining and a closed %d times with a message in flight", st.Draining, a.closes())
		}
		<-second
		synctest.Wait()
		if st := r.relay.Status(); st.Draining != 0 || a.closes() != 1 {
			t.Errorf("%d draining and a closed %d times at the end", st.Draining, a.closes())
		}
	})
}

// A best-effort leg that nobody waits for keeps its generation too.
func TestAReloadUnderABestEffortLeg(t *testing.T) {
	inBubble(t, func(r *rig) {
		news := slow(3 * time.Second)
		r.configure(setup{specs: []deliver.Spec{spec("a", takes()), spec("news", news)}, routes: func(to func(string) Target) []*Route {
			return []*Route{{Name: "orders", Choose: chooses(to("a"), bestEffort(to("news")))}}
		}})
		r.send()
		r.configure(setup{specs: []deliver.Spec{spec("a", takes())}, routes: toAll("a")})
		if news.closes() != 0 {
			t.Error("closed under its message")
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got, _ := news.counts(); got != 1 || news.closes() != 1 {
			t.Errorf("news got %d and was closed %d times", got, news.closes())
		}
	})
}

func TestAtMostFourGenerationsDrain(t *testing.T) {
	inBubble(t, func(r *rig) {
		var all []<-chan connector.Settlement
		for range 5 {
			r.configure(setup{specs: []deliver.Spec{spec("a", slow(4*time.Second))}, routes: toAll("a")})
			all = append(all, r.goOn())
			time.Sleep(ms)
		}
		if err := r.relay.MaySwap(); !errors.Is(err, ErrDraining) {
			t.Errorf("%v, want ErrDraining", err)
		}
		if _, err := r.relay.Swap(Config{}); !errors.Is(err, ErrDraining) {
			t.Errorf("%v, want ErrDraining", err)
		}
		for _, c := range all {
			if s := <-c; s.Status != event.SettledDelivered {
				t.Errorf("ended %+v", s)
			}
		}
		synctest.Wait()
		if err := r.relay.MaySwap(); err != nil {
			t.Error(err)
		}
	})
}

func TestSourcesOverReloads(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := []deliver.Spec{spec("a", takes())}
		r.configure(setup{specs: a, routes: toAll("a"), sources: []SourceSpec{web(), pausing("queue")}})
		r.relay.PauseSource("web")
		small := web()
		small.MaxInFlight = 7
		r.configure(setup{specs: a, routes: toAll("a"), sources: []SourceSpec{small}})
		st := r.relay.Status()
		if len(st.Sources) != 1 || !st.Sources[0].Paused || st.Sources[0].MaxInFlight != 7 {
			t.Errorf("sources %+v: web should be paused still, with its new bound, and queue be gone", st.Sources)
		}
		if _, err := r.relay.Handler("queue"); err == nil {
			t.Error("a handler of a source that is gone")
		}
	})
}

// letter is a dead letter of a fresh message of web.
func (r *rig) letter(d message.Death) *message.DeadLetter {
	return &message.DeadLetter{Message: r.next("web").Message, Death: d}
}

func TestReplay(t *testing.T) {
	stale := errors.New("still wrong")
	tests := []struct {
		name    string
		death   message.Death
		to      string
		want    deadletter.Verdict
		at      string // the destination that got it
		letters string // destinations or reasons of the new letters
		err     string
	}{
		{"a delivery", message.Death{Reason: message.ReasonDelivery, Destination: "a", Route: "orders"}, "", deadletter.Delivered, "a", "", ""},
		{"over another", message.Death{Reason: message.ReasonDelivery, Destination: "a", Route: "orders"}, "b", deadletter.Delivered, "b", "", ""},
		{"its whole path", message.Death{Reason: message.ReasonDelivery, Destination: "bad", Route: "orders"}, "", deadletter.Delivered, "b", "", ""},
		{"fails again", message.Death{Reason: message.ReasonDelivery, Destination: "worse", Route: "orders"}, "", deadletter.FailedAgain, "", "worse", ""},
		{"a destination that is gone", message.Death{Reason: message.ReasonDelivery, Destination: "old", Route: "orders"}, "", deadletter.Abandoned, "", "", `no destination "old"`},
		{"to one that is not there", message.Death{Reason: message.ReasonSchema, Route: "orders"}, "old", deadletter.Abandoned, "", "", `no destination "old"`},
		{"a route", message.Death{Reason: message.ReasonSchema, Route: "orders"}, "", deadletter.Delivered, "a", "", ""},
		{"a route's letter over a destination", message.Death{Reason: message.ReasonSchema, Route: "orders"}, "b", deadletter.Delivered, "b", "", ""},
		{"a route that fails again", message.Death{Reason: message.ReasonTransform, Route: "stale"}, "", deadletter.FailedAgain, "", "transform", ""},
		{"a route that no longer wants it", message.Death{Reason: message.ReasonTransform, Route: "elsewhere"}, "", deadletter.Delivered, "", "", ""},
		{"a route that is gone", message.Death{Reason: message.ReasonTransform, Route: "old"}, "", deadletter.Abandoned, "", "", `no route "old"`},
		{"one that no route took", message.Death{Reason: message.ReasonNoRoute}, "b", deadletter.Delivered, "b", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				all := map[string]*endpoint{"a": takes(), "b": takes(), "bad": refuses(400), "worse": refuses(400)}
				specs := []deliver.Spec{spec("a", all["a"]), spec("b", all["b"]), spec("worse", all["worse"]),
					spec("bad", all["bad"], func(s *deliver.Spec) { s.Fallback = []string{"b"} })}
				r.configure(setup{specs: specs, routes: func(to func(string) Target) []*Route {
					return []*Route{
						{Name: "orders", Choose: chooses(to("a"))},
						{Name: "stale", Filter: func(context.Context, *message.Message) (bool, error) { return false, stale }, Choose: chooses(to("a"))},
						{Name: "elsewhere", Filter: func(context.Context, *message.Message) (bool, error) { return false, nil }, Choose: chooses(to("a"))},
					}
				}})
				l := r.letter(test.death)
				got := r.relay.Replay(r.Context(), l, test.to)
				if got.Verdict != test.want {
					t.Errorf("verdict %d (%v), want %d", got.Verdict, got.Err, test.want)
				}
				if (got.Err == nil) != (test.err == "") || (got.Err != nil && !strings.Contains(got.Err.Error(), test.err)) {
					t.Errorf("error %v, want %q", got.Err, test.err)
				}
				var letters []string
				for _, n := range got.Letters {
					if n.Message.ID != l.Message.ID || n.Relay != "shop" || n.At.IsZero() {
						t.Errorf("new letter %+v", n.Death)
					}
					if n.Reason == message.ReasonDelivery {
						letters = append(letters, n.Destination)
					} else {
						letters = append(letters, string(n.Reason))
					}
				}
				if s := strings.Join(letters, ","); s != test.letters {
					t.Errorf("new letters %q, want %q", s, test.letters)
				}
				for name, e := range all {
					n, _ := e.counts()
					if want := name == test.at; (n == 1) != want {
						t.Errorf("%s got %d", name, n)
					}
				}
				if len(r.shelf.all()) != 0 {
					t.Error("a replay writes its letters itself")
				}
			})
		})
	}
}

// A replay waits for a place: it never pushes live messages out.
func TestAReplayWaitsForPlaces(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second), places(1))}, routes: toAll("a")})
		live := r.goOn()
		got := r.relay.Replay(r.Context(), r.letter(message.Death{Reason: message.ReasonDelivery, Destination: "a"}), "")
		if got.Verdict != deadletter.Delivered || r.at() != 2*time.Second {
			t.Errorf("verdict %d after %v", got.Verdict, r.at())
		}
		<-live
	})
}

// Age begins anew: a letter is usually older than any ttl.
func TestAReplayIsYoung(t *testing.T) {
	inBubble(t, func(r *rig) {
		ttl := func(s *deliver.Spec) { s.TTL = time.Minute }
		a, news := takes(), takes()
		r.configure(setup{specs: []deliver.Spec{spec("a", a, ttl), spec("news", news, ttl)}, routes: func(to func(string) Target) []*Route {
			return []*Route{{Name: "orders", Choose: chooses(to("a"), bestEffort(to("news")))}}
		}})
		l := r.letter(message.Death{Reason: message.ReasonSchema, Route: "orders"})
		time.Sleep(time.Hour)
		if got := r.relay.Replay(r.Context(), l, ""); got.Verdict != deadletter.Delivered {
			t.Errorf("verdict %d (%v)", got.Verdict, got.Err)
		}
		synctest.Wait()
		if n, _ := a.counts(); n != 1 {
			t.Errorf("a got %d", n)
		}
		if n, _ := news.counts(); n != 1 {
			t.Errorf("news got %d", n)
		}
	})
}

func TestAReplayIsAbandonedWhenPawlStops(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", hangs(), func(s *deliver.Spec) { s.Timeout = time.Hour })}, routes: toAll("a")})
		done := make(chan deadletter.ReplayOutcome, 1)
		go func() {
			done <- r.relay.Replay(r.Context(), r.letter(message.Death{Reason: message.ReasonDelivery, Destination: "a"}), "")
		}()
		synctest.Wait()
		r.stop(time.Second)
		if got := <-done; got.Verdict != deadletter.Abandoned || got.Err == nil || len(got.Letters) != 0 {
			t.Errorf("%+v", got)
		}
		if got := r.relay.Replay(r.Context(), r.letter(message.Death{Reason: message.ReasonDelivery, Destination: "a"}), ""); got.Verdict != deadletter.Abandoned {
			t.Errorf("after the stop: %+v", got)
		}
	})
}
