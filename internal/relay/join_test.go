package relay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/settle"
)

func repeat(id, body, caller string) connector.Delivery {
	return connector.Delivery{
		Message: &message.Message{ID: id, Source: "web", Time: time.Now(), Body: []byte(body)}, Caller: caller, Keyed: true,
	}
}

func TestRepeatsAreJoined(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := slow(time.Second)
		r.configure(setup{specs: []deliver.Spec{spec("a", a)}, routes: toAll("a")})
		first := r.start(r.Context(), repeat("k", "x", "alice"))
		second := r.start(r.Context(), repeat("k", "x", "alice"))
		other := r.start(r.Context(), repeat("k", "x", "bob"))
		if s := r.handle(r.Context(), repeat("k", "y", "alice")); s.Status != event.SettledConflict || s.Err == nil {
			t.Errorf("another body: %+v", s)
		}
		for _, c := range []<-chan connector.Settlement{first, second, other} {
			if s := <-c; s.Status != event.SettledDelivered || s.ID != "k" {
				t.Errorf("ended %+v", s)
			}
		}
		time.Sleep(10*time.Minute - ms)
		if s := r.handle(r.Context(), repeat("k", "x", "alice")); s.Status != event.SettledDelivered {
			t.Errorf("from memory: %+v", s)
		}
		if _, sends := a.counts(); sends != 2 {
			t.Errorf("%d sends, want one for alice and one for bob", sends)
		}
		time.Sleep(ms)
		r.handle(r.Context(), repeat("k", "x", "alice"))
		if _, sends := a.counts(); sends != 3 {
			t.Errorf("%d sends: remembered for more than 10 minutes", sends)
		}
		var how []event.Settlement
		for _, e := range r.told(event.Settled) {
			how = append(how, e.Settlement)
		}
		count := map[event.Settlement]int{}
		for _, h := range how {
			count[h]++
		}
		want := map[event.Settlement]int{event.SettledDelivered: 3, event.SettledJoined: 2, event.SettledConflict: 1}
		if diff := cmp.Diff(want, count); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

func TestANackIsForgotten(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := &endpoint{do: func(context.Context, *message.Message) error {
			time.Sleep(time.Second)
			return failure.FromStatus(400, 0)
		}}
		r.configure(setup{specs: []deliver.Spec{spec("a", a)}, routes: toAll("a")})
		r.shelf.fail(errors.New("no space left on device"))
		first := r.start(r.Context(), repeat("k", "x", ""))
		second := r.start(r.Context(), repeat("k", "x", ""))
		if s := <-first; s.Status != event.SettledNacked {
			t.Errorf("ended %+v", s)
		}
		r.shelf.fail(nil)
		if s := <-second; s.Status != event.SettledDeadLettered { // a try of its own
			t.Errorf("ended %+v", s)
		}
		if _, sends := a.counts(); sends != 2 {
			t.Errorf("%d sends, want 2", sends)
		}
	})
}

func TestIdsThatPawlMadeAreNotJoined(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := takes()
		r.configure(setup{specs: []deliver.Spec{spec("a", a)}, routes: toAll("a")})
		d := repeat("k", "x", "")
		d.Keyed = false
		r.handle(r.Context(), d)
		r.handle(r.Context(), d)
		if got, _ := a.counts(); got != 2 {
			t.Errorf("%d arrived, want 2", got)
		}
	})
}

// A sender that repeats without end while its message hangs is pushed back:
// what waits to join is bounded too.
func TestRepeatsThatWaitAreBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second))}, routes: toAll("a")})
		waiting := []<-chan connector.Settlement{r.start(r.Context(), repeat("k", "x", "alice"))}
		for range settle.MaxWaiting {
			waiting = append(waiting, r.start(r.Context(), repeat("k", "x", "alice")))
		}
		if s := r.handle(r.Context(), repeat("k", "x", "alice")); s.Status != event.SettledRefused || s.RetryAfter <= 0 || s.Err == nil {
			t.Errorf("one too many: %+v", s)
		}
		for _, c := range waiting {
			if s := <-c; s.Status != event.SettledDelivered {
				t.Errorf("ended %+v", s)
			}
		}
	})
}

// Repeats of many messages take as much room as the messages may, and no more.
func TestRepeatsOfASourceAreBounded(t *testing.T) {
	for name, limit := range map[string]SourceSpec{
		"messages": {MaxInFlight: 2, MaxInFlightBytes: 1 << 20},
		"bytes":    {MaxInFlight: 100, MaxInFlightBytes: 7},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				limit.Name = "web"
				r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second))}, routes: toAll("a"), sources: []SourceSpec{limit}})
				var open []<-chan connector.Settlement
				for range 2 {
					for _, key := range []string{"k1", "k2"} {
						open = append(open, r.start(r.Context(), repeat(key, "123", "alice")))
						synctest.Wait()
					}
				}
				if s := r.handle(r.Context(), repeat("k1", "123", "alice")); s.Status != event.SettledRefused || s.RetryAfter <= 0 || !errors.Is(s.Err, errJoined) {
					t.Errorf("one too many: %+v", s)
				}
				for _, c := range open {
					if s := <-c; s.Status != event.SettledDelivered {
						t.Errorf("ended %+v", s)
					}
				}
				for range 2 { // all room is back
					open := []<-chan connector.Settlement{}
					for range 3 {
						open = append(open, r.start(r.Context(), repeat("next", "123", "alice")))
					}
					for _, c := range open {
						if s := <-c; s.Status != event.SettledDelivered {
							t.Errorf("after all: %+v", s)
						}
					}
				}
			})
		})
	}
}
