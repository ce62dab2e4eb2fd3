package relay

// These tests catch a message from a queue that waits long in memory though it
// could go back, or goes back though others of its destinations have it; what is
// told or kept of it at each pass instead of once; and one that is routed by the
// source that it first came in by instead of the queue.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
)

// asksToWait answers everything with a 503 that asks to wait for a minute.
func asksToWait() *endpoint {
	return &endpoint{do: func(context.Context, *message.Message) error { return failure.FromStatus(503, time.Minute) }}
}

// respectful lets an endpoint ask for more than the default.
func respectful(s *deliver.Spec) { s.Retry.MaxRetryAfter = time.Hour }

// buffer is a source that keeps its messages itself.
func buffer() SourceSpec {
	return SourceSpec{Name: "buffer", Push: Pause, MaxInFlight: 10, MaxInFlightBytes: 1 << 20}
}

// fromBuffer settles a message that came in by web first.
func (r *rig) fromBuffer() connector.Settlement {
	r.Helper()
	h, err := r.relay.Handler("buffer")
	if err != nil {
		r.Fatal(err)
	}
	d := r.next("web")
	d.MaxWait = 10 * time.Second
	return h.Handle(r.Context(), d)
}

func TestAMessageOfAQueueGoesBackToWait(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", asksToWait(), respectful)}, routes: toAll("a"), sources: []SourceSpec{buffer()}})
		s := r.fromBuffer()
		if s.Status != event.SettledDeferred || s.RetryAfter != time.Minute || s.Attempts != 1 || s.Err == nil || s.Acked() {
			r.Errorf("%+v, want deferred for a minute after one attempt", s)
		}
		s = r.fromBuffer()
		if s.Status != event.SettledDeferred || s.RetryAfter != time.Minute || s.Attempts != 0 {
			r.Errorf("%+v, want deferred for a minute without one: the endpoint is held", s)
		}
		told := r.told(event.Settled)
		if len(told) != 2 || told[0].Settlement != event.SettledDeferred || told[0].Source != "buffer" || told[0].Number != 1 {
			r.Errorf("told %+v", told)
		}
		if len(r.shelf.all()) != 0 {
			r.Error("it left a dead letter")
		}
	})
}

func TestWithoutABoundItWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", asksToWait(), respectful)}, routes: toAll("a")})
		if s := r.send(); s.Status != event.SettledDeadLettered {
			r.Errorf("%+v", s)
		}
	})
}

// Sent back it would be delivered again to the one that has it already.
func TestWithTwoRequiredDestinationsItWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := asksToWait(), takes()
		r.configure(setup{specs: []deliver.Spec{spec("a", a, respectful), spec("b", b)}, routes: toAll("a", "b"), sources: []SourceSpec{buffer()}})
		if s := r.fromBuffer(); s.Status != event.SettledDeadLettered {
			r.Errorf("%+v", s)
		}
		if got, _ := b.counts(); got != 1 {
			r.Errorf("b has it %d times", got)
		}
	})
}

// What nobody waits for is sent once the message has its end, and not at each
// pass; so are the letters of routes that failed.
func TestBestEffortAndLettersComeWithTheEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := asksToWait(), takes()
		r.configure(setup{
			specs: []deliver.Spec{spec("a", a, respectful), spec("b", b)}, sources: []SourceSpec{buffer()},
			routes: func(to func(string) Target) []*Route {
				return []*Route{
					{Name: "main", Choose: chooses(to("a"), bestEffort(to("b")))},
					{Name: "broken", Choose: func(context.Context, *message.Message) ([]Target, error) { return nil, errors.New("no rule") }},
				}
			},
		})
		for range 3 {
			if s := r.fromBuffer(); s.Status != event.SettledDeferred {
				r.Errorf("%+v", s)
			}
			time.Sleep(time.Minute)
		}
		if _, sends := b.counts(); sends != 0 || len(r.shelf.all()) != 0 {
			r.Errorf("before its end b has it %d times, and %d letters are kept", sends, len(r.shelf.all()))
		}
		a.do = func(context.Context, *message.Message) error { return nil }
		if s := r.fromBuffer(); s.Status != event.SettledDeadLettered {
			r.Errorf("%+v", s)
		}
		time.Sleep(time.Second)
		if got, _ := b.counts(); got != 1 || len(r.shelf.all()) != 1 {
			r.Errorf("at its end b has it %d times, and %d letters are kept", got, len(r.shelf.all()))
		}
	})
}

func TestAStopNacksWhatWaitsShortly(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(time.Hour), func(s *deliver.Spec) { s.Timeout = 2 * time.Hour })},
			routes: toAll("a"), sources: []SourceSpec{buffer()}})
		done := make(chan connector.Settlement, 1)
		go func() { done <- r.fromBuffer() }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := r.relay.Stop(ctx); err == nil {
			r.Error("nothing was cut short")
		}
		if s := <-done; s.Status != event.SettledNacked {
			r.Errorf("%+v, want a nack: it goes back to its queue", s)
		}
	})
}

// The routes are those of the queue, and so are they at a replay.
func TestAMessageOfAQueueGoesTheQueuesWay(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := takes()
		set, err := r.fleet.Configure([]deliver.Spec{spec("a", a)})
		if err != nil {
			r.Fatal(err)
		}
		to, _ := set.Destination("a")
		fails := true
		routes := map[string][]*Route{
			"buffer": {{Name: "out", Choose: func(context.Context, *message.Message) ([]Target, error) {
				if fails {
					return nil, errors.New("no rule")
				}
				return []Target{{To: to}}, nil
			}}},
			"web": {{Name: "in", Choose: func(context.Context, *message.Message) ([]Target, error) { panic("the way in again") }}},
		}
		if _, err := r.relay.Swap(Config{Routes: routes, Destinations: set, Sources: []SourceSpec{web(), buffer()}}); err != nil {
			r.Fatal(err)
		}
		if s := r.fromBuffer(); s.Status != event.SettledDeadLettered {
			r.Errorf("%+v", s)
		}
		letters := r.shelf.all()
		if len(letters) != 1 || letters[0].Source != "buffer" || letters[0].Message.Source != "web" || letters[0].Route != "out" {
			r.Fatalf("letters %+v", letters)
		}
		if out := r.relay.Replay(r.Context(), letters[0], ""); out.Verdict != deadletter.FailedAgain || out.Letters[0].Source != "buffer" {
			r.Errorf("replayed: %+v", out)
		}
		fails = false
		if out := r.relay.Replay(r.Context(), letters[0], ""); out.Verdict != deadletter.Delivered {
			r.Errorf("replayed: %+v", out)
		}
		if s := r.send(); s.Status != event.SettledDeadLettered || r.shelf.all()[1].Source != "" {
			r.Errorf("one of web: %+v", s)
		}
	})
}
