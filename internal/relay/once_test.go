package relay

// These tests catch: a message that repeats another's key and is delivered; one
// that is dropped though the first was given back, or though it has no key; one
// that waits with its source's room in hand; one whose sender was told that it
// goes on and that is gone.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/settle"
)

// firstWord is a key: what stands before the first blank of the body. "broken"
// fails and "panics" panics.
func firstWord(_ context.Context, m *message.Message) (string, error) {
	word, _, _ := strings.Cut(string(m.Body), " ")
	switch word {
	case "broken":
		return "", errors.New("no such field")
	case "panics":
		panic("boom")
	}
	return word, nil
}

func deduped(s SourceSpec) SourceSpec {
	s.Dedupe = &Dedupe{Key: firstWord, Seen: settle.NewDedupe(settle.DedupeOptions{TTL: time.Minute})}
	return s
}

func (r *rig) says(body string) connector.Delivery {
	d := r.next("web")
	d.Message.Body = []byte(body)
	return d
}

func TestASeenKeyIsFiltered(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := takes()
		r.configure(setup{specs: []deliver.Spec{spec("a", a)}, routes: toAll("a"), sources: []SourceSpec{deduped(web())}})
		for _, c := range []struct {
			body string
			want event.Settlement
		}{
			{"k one", event.SettledDelivered}, {"k two", event.SettledFiltered}, {"n", event.SettledDelivered},
			{"", event.SettledDelivered}, {"", event.SettledDelivered}, // no key
			{"broken", event.SettledDelivered}, {"broken", event.SettledDelivered}, {"panics", event.SettledDelivered},
		} {
			d := r.says(c.body)
			if s := r.handle(r.Context(), d); s.Status != c.want || s.ID != d.Message.ID || !s.Acked() {
				t.Errorf("%q: %+v, want %s", c.body, s, c.want)
			}
		}
		failed := 0
		for _, e := range r.told(event.NoKey) {
			if e.Source != "web" || e.MessageID == "" {
				t.Errorf("told %+v", e)
			}
			if e.Error != "" {
				failed++
			}
		}
		if n := len(r.told(event.NoKey)); n != 5 || failed != 3 {
			t.Errorf("%d without a key, %d of them failed; want 5 and 3", n, failed)
		}
		if got, _ := a.counts(); got != 7 {
			t.Errorf("%d arrived, want 7", got)
		}
		time.Sleep(time.Minute)
		if s := r.handle(r.Context(), r.says("k three")); s.Status != event.SettledDelivered {
			t.Errorf("after its time: %+v", s)
		}
	})
}

// A dead letter is an end too; a nack is none.
func TestWhatCountsAsSeen(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", refuses(400))}, routes: toAll("a"), sources: []SourceSpec{deduped(web())}})
		r.shelf.fail(errors.New("no space left on device"))
		if s := r.handle(r.Context(), r.says("k")); s.Status != event.SettledNacked {
			t.Errorf("first: %+v", s)
		}
		r.shelf.fail(nil)
		if s := r.handle(r.Context(), r.says("k")); s.Status != event.SettledDeadLettered {
			t.Errorf("after a nack: %+v", s)
		}
		if s := r.handle(r.Context(), r.says("k")); s.Status != event.SettledFiltered {
			t.Errorf("after a dead letter: %+v", s)
		}
		out := r.relay.Replay(r.Context(), r.shelf.all()[0], "")
		if out.Err != nil || len(out.Letters) != 1 { // it was sent and refused again, not filtered
			t.Errorf("a replay: %+v", out)
		}
	})
}

// The second waits without the source's room, and so does not keep the third out.
func TestTheSecondOfAKeyHoldsNoRoom(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := web()
		s.MaxInFlight = 2
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second))}, routes: toAll("a"), sources: []SourceSpec{deduped(s)}})
		first := r.start(r.Context(), r.says("k one"))
		second := r.start(r.Context(), r.says("k two"))
		pending(second)
		third := r.start(r.Context(), r.says("n"))
		for _, c := range []struct {
			from <-chan connector.Settlement
			want event.Settlement
		}{{first, event.SettledDelivered}, {second, event.SettledFiltered}, {third, event.SettledDelivered}} {
			if s := <-c.from; s.Status != c.want {
				t.Errorf("%+v, want %s", s, c.want)
			}
		}
	})
}

// A message that waited and whose sender was told that it goes on is delivered
// or a dead letter, whatever room there is.
func TestAWaitOutlivesItsSender(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := web()
		s.MaxInFlight = 2
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second))}, routes: toAll("a"), sources: []SourceSpec{deduped(s)}})
		first := r.start(r.Context(), r.says("k one"))
		told := r.says("k two")
		told.Nackable = func() bool { return false }
		ctx, gone := context.WithCancel(r.Context())
		second := r.start(ctx, told)
		kept := r.says("k three")
		third := r.start(ctx, kept)
		gone()
		if s := <-third; s.Status != event.SettledRefused {
			t.Errorf("whose sender is gone: %+v", s)
		}
		pending(second)
		if s := <-first; s.Status != event.SettledDelivered {
			t.Errorf("first: %+v", s)
		}
		if s := <-second; s.Status != event.SettledFiltered {
			t.Errorf("whose sender was told that it goes on: %+v", s)
		}
	})
}

// A queue's message goes back to it instead of waiting for long.
func TestAQueuesMessageDoesNotWaitForLong(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := web()
		s.Push = Pause
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(4*time.Second))}, routes: toAll("a"), sources: []SourceSpec{deduped(s)}})
		first := r.start(r.Context(), r.says("k one"))
		d := r.says("k two")
		d.MaxWait = time.Second
		if s := r.handle(r.Context(), d); s.Status != event.SettledDeferred || s.Attempts != 0 || s.RetryAfter <= 0 || s.Err == nil {
			t.Errorf("ended %+v", s)
		}
		if s := <-first; s.Status != event.SettledDelivered {
			t.Errorf("first: %+v", s)
		}
		if s := r.handle(r.Context(), d); s.Status != event.SettledFiltered {
			t.Errorf("when it came again: %+v", s)
		}
	})
}

func TestThoseThatWaitForAKeyAreBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Second))}, routes: toAll("a"), sources: []SourceSpec{deduped(web())}})
		open := []<-chan connector.Settlement{r.start(r.Context(), r.says("k"))}
		for range settle.MaxWaiting {
			open = append(open, r.start(r.Context(), r.says("k")))
		}
		if s := r.handle(r.Context(), r.says("k")); s.Status != event.SettledRefused || !errors.Is(s.Err, errCrowdedKey) || s.RetryAfter <= 0 {
			t.Errorf("one too many: %+v", s)
		}
		for _, c := range open {
			<-c
		}
	})
}
