package relay

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
)

// hangs answers nothing until its attempt is given up.
func hangs() *endpoint {
	return &endpoint{do: func(ctx context.Context, _ *message.Message) error {
		<-ctx.Done()
		return givenUp(ctx)
	}}
}

// stop stops the relay within d and returns its error and how long it took.
func (r *rig) stop(d time.Duration) (error, time.Duration) {
	before := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	err := r.relay.Stop(ctx)
	return err, time.Since(before)
}

func TestStopLetsWhatIsInFlightFinish(t *testing.T) {
	inBubble(t, func(r *rig) {
		news := slow(4 * time.Second)
		r.configure(setup{specs: []deliver.Spec{spec("a", slow(3*time.Second)), spec("news", news)}, routes: func(to func(string) Target) []*Route {
			return []*Route{{Name: "orders", Choose: chooses(to("a"), bestEffort(to("news")))}}
		}})
		c := r.goOn()
		err, took := r.stop(25 * time.Second)
		if err != nil || took != 4*time.Second {
			t.Errorf("%v after %v, want nil after the best-effort leg's 4s", err, took)
		}
		if s := <-c; s.Status != event.SettledDelivered {
			t.Errorf("ended %+v", s)
		}
		if got, _ := news.counts(); got != 1 {
			t.Error("the best-effort leg was cut short")
		}
		if s := r.send(); s.Status != event.SettledRefused || s.RetryAfter <= 0 {
			t.Errorf("after the stop: %+v", s)
		}
		if err := r.relay.Stop(r.Context()); err == nil {
			t.Error("stopped twice")
		}
	})
}

func TestStopAnIdleRelay(t *testing.T) {
	inBubble(t, func(r *rig) {
		if err, took := r.stop(time.Second); err != nil || took != 0 {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// What is cut short is nacked, or becomes a dead letter where nobody is left
// to nack. The letters may still be written after the deliveries were cut.
func TestStopCutShort(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", hangs(), func(s *deliver.Spec) { s.Timeout = time.Minute })}, routes: toAll("a")})
		nackable, gone := r.next("web"), r.next("web")
		gone.Nackable = func() bool { return false }
		one, other := r.start(r.Context(), nackable), r.start(r.Context(), gone)
		err, took := r.stop(2 * time.Second)
		if err == nil || !strings.Contains(err.Error(), "2 messages were cut short") || took != 2*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if s := <-one; s.Status != event.SettledNacked || s.RetryAfter <= 0 {
			t.Errorf("ended %+v", s)
		}
		if s := <-other; s.Status != event.SettledDeadLettered {
			t.Errorf("ended %+v", s)
		}
		l := r.shelf.all()
		if len(l) != 1 || l[0].Message.ID != gone.Message.ID || l[0].Hops[0].Reason != message.HopCancelled {
			t.Errorf("letters %+v", l)
		}
	})
}

// A full disk and nobody to nack: stopping does not wait for ever, and each
// message that is lost is named.
func TestStopNamesWhatItLoses(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		r.relay.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		r.configure(setup{specs: []deliver.Spec{spec("a", refuses(400)), spec("b", refuses(400))}, routes: toAll("a", "b")})
		r.shelf.fail(errors.New("no space left on device"))
		d := r.next("web")
		d.Nackable = func() bool { return false }
		c := r.start(r.Context(), d)
		err, took := r.stop(2 * time.Second)
		if err == nil || !strings.Contains(err.Error(), "1 never came to an end") || took != 2*time.Second+lastWords {
			t.Errorf("%v after %v", err, took)
		}
		for _, destination := range []string{"a", "b"} {
			line := regexp.MustCompile(`level=ERROR msg="a message is lost: its dead letter could not be kept before pawl stopped" id=` +
				d.Message.ID + ` source=web route=\S+ destination=` + destination + ` error="no space left on device"`)
			if n := len(line.FindAllString(log.String(), -1)); n != 1 { // when Stop returns, not later
				t.Errorf("%d lines name the letter of %s:\n%s", n, destination, log.String())
			}
		}
		if s := <-c; s.Status != event.SettledNacked {
			t.Errorf("ended %+v", s)
		}
	})
}

// Space that is made at any moment of a stop's last seconds is used, although
// the tries before the stop had grown rare.
func TestStopKeepsLettersToTheEnd(t *testing.T) {
	for _, free := range []time.Duration{0, time.Second, lastWords - lastLetterPause} {
		inBubble(t, func(r *rig) {
			var log bytes.Buffer
			r.relay.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
			r.configure(setup{specs: []deliver.Spec{spec("a", refuses(400))}, routes: toAll("a")})
			r.shelf.fail(errors.New("no space left on device"))
			d := r.next("web")
			d.Nackable = func() bool { return false }
			c := r.start(r.Context(), d)
			time.Sleep(16 * time.Second) // the next try is at 25s
			time.AfterFunc(2*time.Second+free-ms, func() { r.shelf.fail(nil) })
			err, took := r.stop(2 * time.Second)
			var cut *CutShortError
			if !errors.As(err, &cut) || cut.CutShort != 1 || cut.Unended != 0 || took != 2*time.Second+free {
				t.Errorf("space after %v: %v after %v", free, err, took)
			}
			if s := <-c; s.Status != event.SettledDeadLettered || len(r.shelf.all()) != 1 {
				t.Errorf("space after %v: ended %+v with %d letters", free, s, len(r.shelf.all()))
			}
			if strings.Contains(log.String(), "lost") {
				t.Errorf("space after %v: the log says %s", free, log.String())
			}
		})
	}
}

// Whoever still waits for a place or for room is told, even by a source that
// never ends its ctx.
func TestStopEndsEveryWait(t *testing.T) {
	inBubble(t, func(r *rig) {
		one, paused := pausing("one"), pausing("paused")
		one.MaxInFlight = 2
		r.configure(setup{
			specs:   []deliver.Spec{spec("a", hangs(), places(1), func(s *deliver.Spec) { s.Timeout = time.Hour })},
			routes:  toAll("a"),
			sources: []SourceSpec{one, paused},
		})
		r.relay.PauseSource("paused")
		sends := r.start(r.Context(), r.next("one"))
		place := r.start(r.Context(), r.next("one"))
		room := r.start(r.Context(), r.next("one"))
		pause := r.start(r.Context(), r.next("paused"))
		if err, took := r.stop(time.Second); err == nil || took != time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if s := <-sends; s.Status != event.SettledNacked {
			t.Errorf("in flight: %+v", s)
		}
		// A place and room may come free a moment before the wait for them ends.
		if s := <-place; s.Acked() {
			t.Errorf("for a place: %+v", s)
		}
		if s := <-room; s.Acked() {
			t.Errorf("for room: %+v", s)
		}
		if s := <-pause; s.Status != event.SettledRefused {
			t.Errorf("paused: %+v", s)
		}
	})
}

// A stop ends a pause, and sends nothing that somebody held back by it.
func TestStopSendsNothingThatWasPaused(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", takes())}, routes: toAll("a"), sources: []SourceSpec{pausing("paused")}})
		r.relay.PauseSource("paused")
		waits := r.start(r.Context(), r.next("paused"))
		if err, took := r.stop(time.Minute); err != nil || took != 0 {
			t.Errorf("%v after %v", err, took)
		}
		if s := <-waits; s.Status != event.SettledRefused || s.RetryAfter != retryWhenStopped {
			t.Errorf("ended %+v", s)
		}
	})
}

// A filter that fails because pawl stops is no reason for a dead letter.
func TestStopWhileRouting(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", takes())}, routes: func(to func(string) Target) []*Route {
			return []*Route{{Name: "orders", Choose: chooses(to("a")), Filter: func(ctx context.Context, _ *message.Message) (bool, error) {
				<-ctx.Done()
				return false, ctx.Err()
			}}}
		}})
		c := r.goOn()
		letter := &message.DeadLetter{Message: r.next("web").Message, Death: message.Death{Reason: message.ReasonTransform, Route: "orders"}}
		replay := make(chan error, 1)
		go func() { replay <- r.relay.Replay(r.Context(), letter, "").Err }()
		synctest.Wait()
		if err, _ := r.stop(time.Second); err == nil {
			t.Error("nothing was cut short?")
		}
		if s := <-c; s.Status != event.SettledNacked || len(r.shelf.all()) != 0 {
			t.Errorf("ended %+v with %d letters", s, len(r.shelf.all()))
		}
		if err := <-replay; err == nil {
			t.Error("the replay was not abandoned")
		}
	})
}

// A joined repeat is answered when the one it joined was cut short.
func TestStopWithJoinedRepeats(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", hangs(), func(s *deliver.Spec) { s.Timeout = time.Hour })}, routes: toAll("a")})
		one, two := r.start(r.Context(), repeat("k", "x", "")), r.start(r.Context(), repeat("k", "x", ""))
		r.stop(time.Second)
		if s := <-one; s.Status != event.SettledNacked {
			t.Errorf("ended %+v", s)
		}
		if s := <-two; s.Acked() {
			t.Errorf("the repeat of a nacked one ended %+v", s)
		}
		if len(r.shelf.all()) != 0 {
			t.Errorf("%d letters", len(r.shelf.all()))
		}
	})
}

func TestAPanicOutsideOfRoutingLeavesNothingOpen(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(setup{specs: []deliver.Spec{spec("a", refuses(400))}, routes: toAll("a")})
		r.relay.opts.Letters = func(context.Context, *message.DeadLetter) error { panic("boom") }
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			r.handle(r.Context(), repeat("k", "x", ""))
		}()
		r.relay.opts.Letters = r.shelf.put
		if s := r.handle(r.Context(), repeat("k", "x", "")); s.Status != event.SettledDeadLettered {
			t.Errorf("the repeat: %+v", s)
		}
		if err, took := r.stop(time.Minute); err != nil || took != 0 {
			t.Errorf("%v after %v", err, took)
		}
	})
}
