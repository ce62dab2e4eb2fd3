package connectortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// destinationCheck is one check and what it opened.
type destinationCheck struct {
	*testing.T
	h    DestinationHarness
	dest connector.Destination
	far  FarSide
}

func (c *destinationCheck) open(script ...Step) {
	c.Helper()
	c.dest, c.far = c.h.Open(c.T, script)
}

func (c *destinationCheck) close() {
	c.Helper()
	within(c.T, "Close", func() {
		if err := c.dest.Close(); err != nil {
			c.Errorf("Close: %v", err)
		}
	})
}

// send makes one attempt with time enough.
func (c *destinationCheck) send(m *message.Message) error {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	return c.sendIn(ctx, m)
}

// sendIn makes one attempt and checks what holds for every one.
func (c *destinationCheck) sendIn(ctx context.Context, m *message.Message) error {
	c.Helper()
	_, err := c.dest.Send(ctx, m)
	if err == nil {
		return nil
	}
	return c.checked(err)
}

// checked checks the error of an attempt and returns it.
func (c *destinationCheck) checked(err error) error {
	c.Helper()
	var f *failure.Error
	if !errors.As(err, &f) {
		c.Errorf("the failure is no *failure.Error: %v", err)
	}
	c.noSecrets(err)
	return err
}

func (c *destinationCheck) noSecrets(err error) {
	c.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		c.noSecret(e.Error())
		c.noSecret(fmt.Sprintf("%+v", e))
		c.noSecret(fmt.Sprintf("%#v", e))
	}
}

func (c *destinationCheck) noSecret(text string) {
	c.Helper()
	for _, s := range c.h.Secrets {
		if s != "" && strings.Contains(text, s) {
			c.Errorf("an error shows a secret: %s", strings.ReplaceAll(text, s, "<the secret>"))
		}
	}
}

// wire is what the far side must see of a message's body.
func (c *destinationCheck) wire(m *message.Message) []byte {
	if c.h.Wire != nil {
		return c.h.Wire(m)
	}
	return m.Body
}

// requests is what arrived, which must be so many.
func (c *destinationCheck) requests(want int) []Request {
	c.Helper()
	rs := c.far.Requests()
	if len(rs) != want {
		c.Fatalf("the far side counts %d requests; %d attempts were made", len(rs), want)
	}
	return rs
}

func (c *destinationCheck) bytesUnchanged() {
	c.open()
	for i, b := range bodies() {
		m := newMessage(fmt.Sprint("m", i), b)
		if err := c.send(m); err != nil {
			c.Fatalf("%s: %v", short(b), err)
		}
		rs := c.requests(i + 1)
		if got, want := rs[i].Body, c.wire(m); !bytes.Equal(got, want) {
			c.Errorf("sent %s, arrived %s", short(want), short(got))
		}
	}
}

func (c *destinationCheck) messageUntouched() {
	c.open()
	m := newMessage("m1", []byte(`{"a":1}`))
	before := newMessage("m1", []byte(`{"a":1}`))
	if err := c.send(m); err != nil {
		c.Fatal(err)
	}
	if was, is := written(c.T, before), written(c.T, m); was != is {
		c.Errorf("Send changed the message\nfrom %s\nto   %s", was, is)
	}
}

func (c *destinationCheck) keyOnEveryAttempt() {
	script := []Step{{Do: Accept}}
	for _, f := range c.h.Failures {
		if f.Step.Do == Fail && !f.Unseen {
			script = []Step{f.Step, f.Step, {Do: Accept}}
			break
		}
	}
	c.open(script...)
	// An id may hold any character but control ones.
	for _, id := range []string{"order-1", `Ü "x"; a=b, c/\~`, strings.Repeat("k", message.MaxID)} {
		seen := len(c.far.Requests())
		for range script {
			_ = c.send(newMessage(id, []byte("x")))
		}
		for _, r := range c.requests(seen + len(script))[seen:] {
			if r.Key != id {
				c.Errorf("the key is %q, want %q", r.Key, id)
			}
		}
	}
}

func (c *destinationCheck) slowAnswer() {
	c.open(Step{Do: Slow})
	if err := c.send(newMessage("m1", []byte("x"))); err != nil {
		c.Fatal(err)
	}
	c.requests(1)
}

func (c *destinationCheck) concurrentSends() {
	const senders, each = 16, 8
	c.open()
	var wg sync.WaitGroup
	want := map[string]bool{}
	for s := range senders {
		for i := range each {
			want[string(c.wire(newMessage(fmt.Sprint("m", s, "-", i), []byte(fmt.Sprint("body ", s, "-", i)))))] = true
		}
		wg.Go(func() {
			for i := range each {
				if err := c.send(newMessage(fmt.Sprint("m", s, "-", i), []byte(fmt.Sprint("body ", s, "-", i)))); err != nil {
					c.Errorf("sender %d: %v", s, err)
				}
			}
		})
	}
	wg.Wait()
	for _, r := range c.requests(senders * each) {
		if !want[string(r.Body)] {
			c.Errorf("arrived twice, or never sent: %s", short(r.Body))
		}
		delete(want, string(r.Body))
		if k, b := strings.TrimPrefix(r.Key, "m"), strings.TrimPrefix(string(r.Body), "body "); c.h.Keys == Yes && c.h.Wire == nil && k != b {
			c.Errorf("the key %q came with the body %q", r.Key, r.Body)
		}
	}
}

func (c *destinationCheck) closeTwice() {
	c.open()
	if err := c.send(newMessage("m1", []byte("x"))); err != nil {
		c.Fatal(err)
	}
	c.close()
	c.close()
	// A Send after Close may fail, and must return.
	within(c.T, "Send after Close", func() { _ = c.send(newMessage("m2", []byte("x"))) })
}

func (c *destinationCheck) endedContext() {
	c.open()
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	within(c.T, "Send", func() {
		c.ended(c.sendIn(ctx, newMessage("m1", []byte("x"))), failure.Cancelled)
	})
}

// ended checks the failure of an attempt whose ctx ended.
func (c *destinationCheck) ended(err error, tag failure.Tag) {
	c.Helper()
	if err == nil {
		c.Errorf("no failure though ctx ended")
		return
	}
	f := failure.From(err)
	if !f.Tags.Has(tag) {
		c.Errorf("the tags are %v, want %s: %v", f.Tags, tag, err)
	}
	if f.Class != failure.Transient {
		c.Errorf("the class is %v: %v", f.Class, err)
	}
	if tag == failure.Cancelled && f.Verdict != failure.Neutral {
		c.Errorf("the verdict on the endpoint is %v though pawl gave up: %v", f.Verdict, err)
	}
}

func (c *destinationCheck) timeout() {
	c.open(Step{Do: Hang})
	ctx, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
	defer cancel()
	within(c.T, "Send past its timeout", func() {
		c.ended(c.sendIn(ctx, newMessage("m1", []byte("x"))), failure.Timeout)
	})
}

func (c *destinationCheck) cancel() {
	c.open(Step{Do: Hang})
	ctx, cancel := context.WithCancel(c.Context())
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	within(c.T, "a cancelled Send", func() {
		c.ended(c.sendIn(ctx, newMessage("m1", []byte("x"))), failure.Cancelled)
	})
}

func (c *destinationCheck) closeDuringSend() {
	c.open(Step{Do: Hang})
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() { done <- c.sendIn(ctx, newMessage("m1", []byte("x"))) }()
	c.close()
	cancel() // an attempt that Close left alone ends with its ctx
	within(c.T, "Send during Close", func() {
		if err := <-done; err == nil {
			c.Error("the far side never answered, and Send succeeded")
		}
	})
}

func (c *destinationCheck) failure(want Failure) {
	c.open(want.Step)
	err := c.send(newMessage("m1", []byte("x")))
	if err == nil {
		c.Fatal("the attempt succeeded")
	}
	c.like(want, failure.From(err))
	if text := err.Error(); text == "" || strings.Contains(text, "\n") || len(text) > 1000 {
		c.Errorf("the failure's text is not one line of at most 1,000 bytes: %q", text)
	}
	seen := 1
	if want.Unseen {
		seen = 0
	}
	c.requests(seen)
}

// like compares a failure with a line of the kind's table.
func (c *destinationCheck) like(want Failure, got *failure.Error) {
	c.Helper()
	sorted := func(ts failure.Tags) failure.Tags { return slices.Sorted(slices.Values(ts)) }
	if !slices.Equal(sorted(want.Tags), sorted(got.Tags)) {
		c.Errorf("tags %v, want %v", got.Tags, want.Tags)
	}
	for _, t := range got.Tags {
		if !t.Valid() {
			c.Errorf("no list can name the tag %q", t)
		}
	}
	if got.Class != want.Class {
		c.Errorf("class %v, want %v", got.Class, want.Class)
	}
	if got.Verdict != want.Verdict {
		c.Errorf("verdict %v, want %v", got.Verdict, want.Verdict)
	}
	if got.RetryAfter != want.RetryAfter || got.Throttled != want.Throttled {
		c.Errorf("asked to wait %v, throttled %v; want %v, %v", got.RetryAfter, got.Throttled, want.RetryAfter, want.Throttled)
	}
}

// oneRequestAnAttempt: a library below must not try again by itself, whatever
// the order of good and bad answers, on new connections and on used ones.
func (c *destinationCheck) oneRequestAnAttempt() {
	var script []Step
	for _, f := range c.h.Failures {
		if !f.Unseen {
			script = append(script, Step{Do: Accept}, f.Step, f.Step)
		}
	}
	script = append(script, Step{Do: Accept})
	c.open(script...)
	for i, step := range script {
		err := c.send(newMessage(fmt.Sprint("m", i), []byte("x")))
		if (step.Do == Accept) != (err == nil) {
			c.Errorf("attempt %d, step %+v: %v", i+1, step, err)
		}
		c.requests(i + 1)
	}
}
