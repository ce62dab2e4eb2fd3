package connectortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Reply is what a sender was told about its message.
type Reply string

// The replies.
const (
	Acked      Reply = "acked"       // it need not send the message again
	Nacked     Reply = "nacked"      // it must send the message again
	PushedBack Reply = "pushed back" // there is no place now; it must send the message again, later
)

// Sent is a message as a sender gives it to a source.
type Sent struct {
	// ID is the sender's own key. A source that takes none ignores it.
	ID   string
	Body []byte
}

// Feed plays the sender. Safe for concurrent use.
type Feed interface {
	// Send hands a message to the source and returns what the sender is told,
	// once it is told. It returns an error when ctx ends first, or when the
	// source is not to be reached.
	Send(ctx context.Context, s Sent) (Reply, error)
}

// SourceHarness opens sources for the suite.
type SourceHarness struct {
	// Open makes a source that is not yet running, and its feed. Give
	// everything but the source back with t.Cleanup.
	Open func(t *testing.T) (connector.Source, Feed)
	// Clock is the time that Open's connections live in.
	Clock Clock
	// Keys says that the sender's key becomes the message's id.
	Keys Ability
	// Refuses says that the source can't pause: it asks for a place and pushes
	// back when there is none. DestinationKind.Pauses is the opposite.
	Refuses Ability
	// Empty says that a message without a body can be sent.
	Empty Ability
	// Wire is the body that the relay must see of what a sender sent; nil is
	// the same bytes.
	Wire func(sent []byte) []byte
	// NoLeaks fails the test where something stays behind; it is called after
	// Close. nil outside a bubble checks nothing.
	NoLeaks func(t testing.TB)
}

// Source runs the suite.
func Source(t *testing.T, h SourceHarness) {
	h.run(t, "BytesUnchanged", (*sourceCheck).bytesUnchanged)
	h.run(t, "AckOnlyWhenSettled", (*sourceCheck).ackOnlyWhenSettled)
	for _, s := range []event.Settlement{
		event.SettledDelivered, event.SettledDeadLettered, event.SettledFiltered, event.SettledUnrouted, event.SettledStored,
	} {
		h.run(t, "Acked/"+string(s), func(c *sourceCheck) { c.reply(connector.Settlement{Status: s}, Acked) })
	}
	nack := connector.Settlement{Status: event.SettledNacked, Err: errors.New("the disk is full")}
	h.run(t, "Nacked", func(c *sourceCheck) { c.reply(nack, Nacked, PushedBack) })
	if h.Refuses == Yes {
		refuse := connector.Settlement{Status: event.SettledRefused, RetryAfter: time.Second, Err: errors.New("no place")}
		h.run(t, "Refused", func(c *sourceCheck) { c.reply(refuse, PushedBack) })
	}
	h.run(t, "Concurrent", (*sourceCheck).concurrent)
	h.run(t, "StopWaitsForInFlight", (*sourceCheck).stopWaits)
	h.run(t, "CloseTwice", (*sourceCheck).closeTwice)
	h.run(t, "CloseBeforeRun", (*sourceCheck).closeBeforeRun)
}

func (h SourceHarness) run(t *testing.T, name string, check func(*sourceCheck)) {
	run(t, h.Clock, name, func(t *testing.T) {
		c := &sourceCheck{T: t, h: h}
		c.source, c.feed = h.Open(t)
		check(c)
		c.stop()
		c.close()
		if h.NoLeaks != nil {
			h.NoLeaks(t)
		}
	})
}

// sourceCheck is one check and what it opened.
type sourceCheck struct {
	*testing.T
	h      SourceHarness
	source connector.Source
	feed   Feed
	end    context.CancelFunc // nil while not running
	ended  chan error
}

// handler settles messages by a function.
type handler func(d connector.Delivery) connector.Settlement

// Handle settles d.
func (f handler) Handle(_ context.Context, d connector.Delivery) connector.Settlement {
	s := f(d)
	s.ID = d.Message.ID
	return s
}

// start runs the source with a handler.
func (c *sourceCheck) start(h handler) {
	ctx, cancel := context.WithCancel(c.Context())
	c.end, c.ended = cancel, make(chan error, 1)
	go func() { c.ended <- c.source.Run(ctx, h) }()
}

// stop ends Run, if it runs, and waits for it.
func (c *sourceCheck) stop() {
	c.Helper()
	if c.end == nil {
		return
	}
	c.end()
	within(c.T, "Run", func() {
		if err := <-c.ended; err != nil {
			c.Errorf("Run: %v", err)
		}
	})
	c.end = nil
}

func (c *sourceCheck) close() {
	c.Helper()
	within(c.T, "Close", func() {
		if err := c.source.Close(); err != nil {
			c.Errorf("Close: %v", err)
		}
	})
}

// send is the sender's side of one message; "" is an error that was reported.
func (c *sourceCheck) send(s Sent) Reply {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	r, err := c.feed.Send(ctx, s)
	if err != nil {
		c.Errorf("the sender of %q: %v", s.ID, err)
	}
	return r
}

func (c *sourceCheck) wire(b []byte) []byte {
	if c.h.Wire != nil {
		return c.h.Wire(b)
	}
	return b
}

// delivered settles everything as delivered.
func delivered(connector.Delivery) connector.Settlement {
	return connector.Settlement{Status: event.SettledDelivered}
}

func (c *sourceCheck) bytesUnchanged() {
	var mu sync.Mutex
	var got []*message.Message
	c.start(func(d connector.Delivery) connector.Settlement {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, d.Message)
		return delivered(d)
	})
	sent := 0
	for i, b := range bodies() {
		if len(b) == 0 && c.h.Empty == No {
			continue
		}
		id := fmt.Sprint("order-", i)
		if r := c.send(Sent{ID: id, Body: b}); r != Acked {
			c.Errorf("%s is %s", short(b), r)
			continue
		}
		sent++
		mu.Lock()
		now := slices.Clone(got)
		mu.Unlock() // before a failure ends the check: the source must not wait for it
		if len(now) != sent {
			c.Fatalf("%d messages were handed over of %d", len(now), sent)
		}
		m := now[sent-1]
		c.wellMade(m)
		if want := c.wire(b); !bytes.Equal(m.Body, want) {
			c.Errorf("sent %s, handed over %s", short(want), short(m.Body))
		}
		if c.h.Keys == Yes && m.ID != id {
			c.Errorf("the id is %q, the sender's key %q", m.ID, id)
		}
	}
}

// wellMade checks what the relay relies on in every message.
func (c *sourceCheck) wellMade(m *message.Message) {
	c.Helper()
	if m.ID == "" || len(m.ID) > message.MaxID {
		c.Errorf("the id has %d bytes; 1 to %d are allowed", len(m.ID), message.MaxID)
	}
	if m.Source == "" || m.Time.IsZero() {
		c.Errorf("source %q, time %v: both must be set", m.Source, m.Time)
	}
	for name := range m.Headers {
		if name != string(bytes.ToLower([]byte(name))) {
			c.Errorf("the header %q is not in lower case", name)
		}
	}
}

// ackOnlyWhenSettled: the sender hears nothing good before Handle returned.
func (c *sourceCheck) ackOnlyWhenSettled() {
	var mu sync.Mutex
	settled := false
	c.start(func(d connector.Delivery) connector.Settlement {
		// Long enough that a reply sent too early is before this ends.
		timer := time.NewTimer(50 * time.Millisecond)
		<-timer.C
		mu.Lock()
		defer mu.Unlock()
		settled = true
		return delivered(d)
	})
	r := c.send(Sent{ID: "m1", Body: []byte("x")})
	mu.Lock()
	defer mu.Unlock()
	if r != Acked || !settled {
		c.Errorf("the sender heard %q; settled before: %v", r, settled)
	}
}

// reply checks what the sender hears of a settlement: one of want.
func (c *sourceCheck) reply(s connector.Settlement, want ...Reply) {
	c.start(func(connector.Delivery) connector.Settlement { return s })
	got := c.send(Sent{ID: "m1", Body: []byte("x")})
	for _, w := range want {
		if got == w {
			return
		}
	}
	c.Errorf("the sender of a message that is %s hears %q, want %v", s.Status, got, want)
}

func (c *sourceCheck) concurrent() {
	const senders, each = 8, 8
	var mu sync.Mutex
	seen := map[string]int{}
	c.start(func(d connector.Delivery) connector.Settlement {
		mu.Lock()
		defer mu.Unlock()
		seen[string(d.Message.Body)]++
		return delivered(d)
	})
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				text := fmt.Sprint("m", s, "-", i)
				if r := c.send(Sent{ID: text, Body: []byte(text)}); r != Acked {
					c.Errorf("%s is %s", text, r)
				}
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	for s := range senders {
		for i := range each {
			text := string(c.wire([]byte(fmt.Sprint("m", s, "-", i))))
			if seen[text] != 1 {
				c.Errorf("%s was handed over %d times", text, seen[text])
			}
		}
	}
}

// stopWaits: after its ctx ended, Run waits for what it handed over, and the
// sender hears how that ended.
func (c *sourceCheck) stopWaits() {
	begun, release := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var once sync.Once
	settled := false
	c.start(func(d connector.Delivery) connector.Settlement {
		once.Do(func() { close(begun) })
		<-release
		mu.Lock()
		defer mu.Unlock()
		settled = true
		return delivered(d)
	})
	heard := make(chan Reply, 1)
	go func() { heard <- c.send(Sent{ID: "m1", Body: []byte("x")}) }()
	within(c.T, "the source with a message", func() { <-begun })
	c.end()
	// A Run that does not wait returns within this; one that does takes it all.
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case err := <-c.ended:
		c.Errorf("Run returned %v with a message in flight", err)
		c.ended <- err
	case <-timer.C:
	}
	close(release)
	c.stop()
	mu.Lock()
	if !settled {
		c.Error("Run returned before the message was settled")
	}
	mu.Unlock()
	within(c.T, "the sender", func() {
		if r := <-heard; r != Acked {
			c.Errorf("the sender hears %q", r)
		}
	})
}

func (c *sourceCheck) closeTwice() {
	c.start(delivered)
	if r := c.send(Sent{ID: "m1", Body: []byte("x")}); r != Acked {
		c.Errorf("the message is %s", r)
	}
	c.stop()
	c.close() // and again by the suite
}

// closeBeforeRun: a start that fails elsewhere closes what never ran.
func (c *sourceCheck) closeBeforeRun() { c.close() }
