package relay

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
)

// outage is a stream of messages to an endpoint that is away for a while. Its
// callers ask again when they are told to.
type outage struct {
	healthy, away, after time.Duration // before, during, and after it
	every                time.Duration // between two messages
}

// run returns how many messages there were and how often a caller was told to
// come again.
func (o outage) run(r *rig) (asked, refused int, e *endpoint) {
	gone, back := r.began.Add(o.healthy), r.began.Add(o.healthy+o.away)
	e = &endpoint{do: func(context.Context, *message.Message) error {
		time.Sleep(5 * ms)
		if now := time.Now(); !now.Before(gone) && now.Before(back) {
			return &failure.Error{Tags: failure.Tags{failure.Connect}, Message: "connection refused"}
		}
		return nil
	}}
	r.configure(setup{specs: []deliver.Spec{spec("a", e, guarded)}, routes: toAll("a")})
	asked = int((o.healthy + o.away + o.after) / o.every)
	told := make(chan int, asked)
	for range asked {
		go func() {
			again := 0
			for d := r.next("web"); ; again++ {
				s := r.handle(r.Context(), d)
				if s.Acked() {
					break
				}
				if s.Status != event.SettledRefused || s.RetryAfter <= 0 {
					r.Errorf("a caller is left alone with %+v", s)
				}
				time.Sleep(s.RetryAfter)
			}
			told <- again
		}()
		time.Sleep(o.every)
	}
	for range asked {
		refused += <-told
	}
	synctest.Wait()
	return asked, refused, e
}

// The outage comes after a busy, healthy minute. Twenty messages in a row that
// fail open the breaker, long before anybody's retries are used up, and then
// everybody waits. It stays open for 5 s, in which a few more come than the lane
// has places: those are told to come again.
func TestAnEndpointRestarts(t *testing.T) {
	for seed := range uint64(5) {
		inBubble(t, func(r *rig) {
			r.random = rand.New(rand.NewPCG(seed, 0)).Float64
			asked, _, e := outage{time.Minute, 2 * time.Second, 5 * time.Second, 10 * ms}.run(r)
			got, sends := e.counts()
			if letters := len(r.shelf.all()); letters != 0 || got != asked {
				t.Errorf("seed %d: %d of %d arrived and %d are letters; a restart of 2 s must make none", seed, got, asked, letters)
			}
			if wasted := sends - asked; wasted > 200 {
				t.Errorf("seed %d: %d sends in vain for %d messages", seed, wasted, asked)
			}
		})
	}
}

func TestAnEndpointIsAwayForAMinute(t *testing.T) {
	inBubble(t, func(r *rig) {
		asked, refused, e := outage{time.Minute, time.Minute, 30 * time.Second, 50 * ms}.run(r)
		got, sends := e.counts()
		if letters := len(r.shelf.all()); letters != 0 || got != asked {
			t.Errorf("%d of %d arrived and %d are letters", got, asked, letters)
		}
		if refused == 0 {
			t.Error("no caller was told to come again, though the lane has 512 places")
		}
		if wasted := sends - asked; wasted > 100 {
			t.Errorf("%d sends in vain for %d messages", wasted, asked)
		}
	})
}
