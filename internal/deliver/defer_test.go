package deliver

// These tests catch a long wait that is made in memory though its message could
// wait in its queue, a short one that is not made, and a message that is put off
// though it could go on to a fallback or has come to its end.

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// patience is what the queue source asks for.
const patience = 10 * time.Second

// deliverPatiently takes one message through a destination's lane that is not to
// wait for longer than patience.
func (r *rig) deliverPatiently(to string) Result {
	r.mu.Lock()
	r.count++
	id := fmt.Sprintf("m%d", r.count)
	r.mu.Unlock()
	d, _ := r.set.Destination(to)
	place, err := d.EnterWait(r.Context())
	if err != nil {
		panic(err)
	}
	m := &message.Message{ID: id, Source: "web", Time: time.Now()}
	return d.Deliver(r.Context(), Request{Message: m, Route: "orders", Place: place, MaxWait: patience})
}

func (r *rig) startPatiently(to string) <-chan Result {
	done := make(chan Result, 1)
	go func() { done <- r.deliverPatiently(to) }()
	synctest.Wait()
	return done
}

// deferred fails the test unless res was put off for the time after the tries.
func (r *rig) deferred(res Result, after time.Duration, attempts int) {
	r.Helper()
	if res.Status != Deferred || res.After != after || res.Attempts != attempts {
		r.Errorf("status %d (%s), put off for %v after %d attempts; want %d, %v, %d",
			res.Status, reasons(res), res.After, res.Attempts, Deferred, after, attempts)
	}
	if _, why := res.Last(); why == "" {
		r.Error("nothing says why")
	}
}

// slowly lets waits grow beyond the defaults, which are all within patience.
func slowly(s *Spec) {
	s.Retry.Schedule.Max, s.Retry.MaxRetryAfter = time.Hour, 2*time.Hour
	if s.Breaker != nil {
		s.Breaker.OpenFor, s.Breaker.MaxOpenFor = 30*time.Second, time.Hour
	}
}

func TestALongBackoffIsPutOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(status(503))
		r.configure(spec("a", a, attempts(20), slowly))
		res := r.deliverPatiently("a")
		// Waits of 0.1, 0.2 … 6.4 s are made, one of 12.8 s is not.
		r.deferred(res, 12800*ms, 8)
		if res.Took != 12700*ms {
			t.Errorf("took %v", res.Took)
		}
		told := r.told(event.Deferred)
		if len(told) != 1 || told[0].Waited != 12800*ms || told[0].Number != 8 || told[0].Error == "" {
			t.Errorf("told %+v", told)
		}
		if n := len(r.told(event.DeliveryFailed)) + len(r.told(event.Hopped)); n != 0 {
			t.Error("a delivery that was put off is told as one that failed")
		}
	})
}

func TestAShortRetryAfterIsWaitedOut(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(spec("a", always(well, asks(503, patience))))
		if res := r.deliverPatiently("a"); res.Status != Delivered || res.Took != patience {
			t.Errorf("status %d after %v", res.Status, res.Took)
		}
	})
}

func TestALongRetryAfterIsPutOffAndSoIsWhoMeetsTheHold(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(spec("a", always(well, asks(429, time.Minute)), slowly))
		r.deferred(r.deliverPatiently("a"), time.Minute, 1)
		time.Sleep(5 * time.Second)
		r.deferred(r.deliverPatiently("a"), 55*time.Second, 0)
		time.Sleep(46 * time.Second)
		if res := r.deliverPatiently("a"); res.Status != Delivered || res.Took != 9*time.Second {
			t.Errorf("status %d after %v: what is left of the hold is short enough", res.Status, res.Took)
		}
	})
}

func TestAnOpenBreakerPutsOffWithoutAnAttempt(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(reset)
		r.configure(spec("a", a, attempts(1), guarded(1), slowly))
		r.deliver(r.Context(), "a")
		until := r.fleet.Status()[0].OpenUntil
		time.Sleep(time.Second)
		r.deferred(r.deliverPatiently("a"), time.Until(until), 0)
		if n := len(a.seen()); n != 1 {
			t.Errorf("%d sends, want the one that opened the breaker", n)
		}
	})
}

// A message that waits for a trial's end learns within its patience that the
// breaker opened again.
func TestABreakerThatOpensAgainPutsOffWhoWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := always(reset.taking(4 * time.Second))
		r.configure(spec("a", a, attempts(1), guarded(1), slowly))
		r.deliver(r.Context(), "a")
		time.Sleep(time.Until(r.fleet.Status()[0].OpenUntil))
		trial := r.start(r.Context(), "a")
		began := time.Now()
		res := r.deliverPatiently("a")
		r.deferred(res, time.Until(r.fleet.Status()[0].OpenUntil), 0)
		if took := time.Since(began); took != patience {
			t.Errorf("put off after %v, want %v", took, patience)
		}
		<-trial
	})
}

func TestAPausedEndpointPutsOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(spec("a", always(well)))
		r.fleet.Pause("a")
		res := r.deliverPatiently("a")
		r.deferred(res, patience, 0)
		if res.Took != patience {
			t.Errorf("put off after %v", res.Took)
		}
		waiting := r.startPatiently("a")
		time.Sleep(patience / 2)
		r.fleet.Resume("a")
		if res := <-waiting; res.Status != Delivered || res.Took != patience/2 {
			t.Errorf("status %d after %v, resumed after %v", res.Status, res.Took, patience/2)
		}
	})
}

// Who only stands behind others keeps his place: sent away he would lose it.
func TestBusyWorkersAreNoReasonToPutOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.configure(spec("a", always(well.taking(20*time.Second)), workers(1), timeout(time.Minute)))
		first, second := r.startPatiently("a"), r.startPatiently("a")
		if res := r.deliverPatiently("a"); res.Status != Delivered || res.Took != time.Minute {
			t.Errorf("status %d (%s) after %v, want delivered after a minute", res.Status, reasons(res), res.Took)
		}
		<-first
		<-second
	})
}

func TestOnlyTheLastOfAChainPutsOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := always(status(503)), always(asks(503, time.Minute))
		r.configure(spec("a", a, attempts(9), slowly, fallback("b")), spec("b", b, slowly))
		res := r.deliverPatiently("a")
		// a's wait of 12.8 s is made: its ninth attempt, and then b, come after it.
		r.deferred(res, time.Minute, 10)
		if want := "a exhausted, b deferred"; reasons(res) != want {
			t.Errorf("left %q, want %q", reasons(res), want)
		}
	})
}

func TestAnEndIsNotPutOff(t *testing.T) {
	for name, c := range map[string]struct {
		a    *endpoint
		with func(*Spec)
		want string
	}{
		"a wait past the ttl": {always(asks(503, time.Hour)), ttl(time.Minute), "a permanent"},
		"a permanent failure": {always(status(400)), attempts(3), "a permanent"},
	} {
		inBubble(t, func(r *rig) {
			r.configure(spec("a", c.a, c.with, slowly))
			if res := r.deliverPatiently("a"); res.Status != Failed || reasons(res) != c.want {
				t.Errorf("%s: status %d, left %q, want %q", name, res.Status, reasons(res), c.want)
			}
		})
	}
}

// A message that comes again is not given up in a pass whose failures may pass.
func TestWhatPassesComesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		a, b *endpoint
		with func(*Spec)
		want string
	}{
		"the last attempt":                {always(asks(503, time.Hour)), nil, attempts(1), "a exhausted"},
		"a wait past the deadline":        {always(asks(503, time.Hour)), nil, deadline(time.Minute), "a deadline"},
		"a fallback that refuses it":      {always(status(503)), always(status(400)), attempts(1), "a exhausted, b permanent"},
		"a fallback that is away as well": {always(status(400)), always(status(503)), attempts(1), "a permanent, b exhausted"},
	} {
		inBubble(t, func(r *rig) {
			specs := []Spec{spec("a", c.a, c.with, slowly)}
			if c.b != nil {
				specs = []Spec{spec("a", c.a, c.with, slowly, fallback("b")), spec("b", c.b, attempts(1))}
			}
			r.configure(specs...)
			res := r.deliverPatiently("a")
			if res.Status != Deferred || res.After != 0 || reasons(res) != c.want {
				t.Errorf("%s: status %d after %v, left %q, want %q", name, res.Status, res.After, reasons(res), c.want)
			}
			if res := r.deliver(r.Context(), "a"); res.Status != Failed {
				t.Errorf("%s: a message that does not come again: status %d", name, res.Status)
			}
		})
	}
}
