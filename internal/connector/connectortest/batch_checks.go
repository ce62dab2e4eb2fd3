package connectortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// BatchHarness is what the suite needs to know of a kind that takes batches: what
// Open makes is then a connector.Batcher.
type BatchHarness struct {
	// Items takes what arrived of one batch apart, into one request for each
	// message. nil: each message is a request of its own already.
	Items func(t testing.TB, r Request) []Request
	// Unfit can't stand in a batch, which must be its own failure and nobody
	// else's; nil: every message can.
	Unfit *message.Message
}

// runBatches runs the checks of a Batcher.
func (h DestinationHarness) runBatches(t *testing.T) {
	h.run(t, "Batch/Arrives", (*destinationCheck).batchArrives)
	h.run(t, "Batch/MessagesUntouched", (*destinationCheck).batchUntouched)
	h.run(t, "Batch/EndedContext", (*destinationCheck).batchEndedContext)
	if h.Hangs == Yes {
		h.run(t, "Batch/Timeout", (*destinationCheck).batchTimeout)
	}
	if h.Batches.Unfit != nil {
		h.run(t, "Batch/Unfit", (*destinationCheck).batchUnfit)
	}
	for _, f := range h.Failures {
		h.run(t, "Batch/Failure/"+f.Name, func(c *destinationCheck) { c.batchFailure(f) })
	}
}

// batchOf is a batch of JSON bodies on one line, which every kind can carry.
func batchOf(n int) []*message.Message {
	var batch []*message.Message
	for i := range n {
		batch = append(batch, newMessage(fmt.Sprintf("order-%d, \"ü\" +%%2C", i), fmt.Appendf(nil, `{"n":%d,"s":"a, b"}`, i)))
	}
	return batch
}

// sendBatch makes one attempt and checks what holds for every one. Each is as
// long as the batch where there was no error.
func (c *destinationCheck) sendBatch(ctx context.Context, batch []*message.Message) ([]error, error) {
	c.Helper()
	b, ok := c.dest.(connector.Batcher)
	if !ok {
		c.Fatal("the destination is no connector.Batcher")
	}
	answer, err := b.SendBatch(ctx, batch)
	if err != nil {
		return nil, c.checked(err)
	}
	if answer.Each == nil {
		return make([]error, len(batch)), nil
	}
	if len(answer.Each) != len(batch) {
		c.Fatalf("%d outcomes of %d messages", len(answer.Each), len(batch))
	}
	for _, e := range answer.Each {
		if e != nil {
			_ = c.checked(e) // it fails the test
		}
	}
	return answer.Each, nil
}

func (c *destinationCheck) sendBatchPatiently(batch []*message.Message) ([]error, error) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	return c.sendBatch(ctx, batch)
}

// items is what arrived, a request for each message.
func (c *destinationCheck) items() []Request {
	c.Helper()
	rs := c.far.Requests()
	if c.h.Batches.Items == nil {
		return rs
	}
	var all []Request
	for _, r := range rs {
		all = append(all, c.h.Batches.Items(c.T, r)...)
	}
	return all
}

// arrived checks that the messages arrived, in their order and with their keys.
func (c *destinationCheck) arrived(got []Request, want []*message.Message) {
	c.Helper()
	if len(got) != len(want) {
		c.Fatalf("%d messages arrived of %d", len(got), len(want))
	}
	for i, m := range want {
		if w := c.wire(m); !bytes.Equal(got[i].Body, w) {
			c.Errorf("message %d: sent %s, arrived %s", i, short(w), short(got[i].Body))
		}
		if c.h.Keys == Yes && got[i].Key != m.ID {
			c.Errorf("message %d: the key is %q, want %q", i, got[i].Key, m.ID)
		}
	}
}

func (c *destinationCheck) batchArrives() {
	c.open()
	seen := 0
	for _, n := range []int{1, 2, 100} {
		batch := batchOf(n)
		each, err := c.sendBatchPatiently(batch)
		if err := errors.Join(append(each, err)...); err != nil {
			c.Fatalf("a batch of %d: %v", n, err)
		}
		all := c.items()
		c.arrived(all[min(seen, len(all)):], batch)
		seen += n
	}
	if c.h.Batches.Items != nil {
		c.requests(3)
	}
}

func (c *destinationCheck) batchUntouched() {
	c.open()
	batch := batchOf(3)
	order := slices.Clone(batch)
	if _, err := c.sendBatchPatiently(batch); err != nil {
		c.Fatal(err)
	}
	for i, before := range batchOf(3) {
		if batch[i] != order[i] {
			c.Error("SendBatch changed the batch")
		}
		if was, is := written(c.T, before), written(c.T, order[i]); was != is {
			c.Errorf("SendBatch changed a message\nfrom %s\nto   %s", was, is)
		}
	}
}

func (c *destinationCheck) batchEndedContext() {
	c.open()
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	within(c.T, "SendBatch", func() {
		_, err := c.sendBatch(ctx, batchOf(2))
		c.ended(err, failure.Cancelled)
	})
}

func (c *destinationCheck) batchTimeout() {
	c.open(Step{Do: Hang})
	ctx, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
	defer cancel()
	within(c.T, "SendBatch past its timeout", func() {
		_, err := c.sendBatch(ctx, batchOf(2))
		c.ended(err, failure.Timeout)
	})
}

// batchUnfit: a message that can't be sent takes none along.
func (c *destinationCheck) batchUnfit() {
	c.open()
	batch := batchOf(3)
	batch[1] = c.h.Batches.Unfit
	each, err := c.sendBatchPatiently(batch)
	if err != nil {
		c.Fatalf("one message that can't be sent fails all: %v", err)
	}
	if each[0] != nil || each[2] != nil {
		c.Errorf("its peers fail: %v", each)
	}
	if f := failure.From(each[1]); f == nil || f.Class != failure.Permanent || f.Verdict == failure.Sick {
		c.Errorf("it is no permanent failure of the message: %v", each[1])
	}
	c.arrived(c.items(), []*message.Message{batch[0], batch[2]})

	each, err = c.sendBatchPatiently(batch[1:2])
	if err == nil && each[0] == nil {
		c.Error("alone it is no failure")
	}
}

// batchFailure: what fails one message fails a batch alike.
func (c *destinationCheck) batchFailure(want Failure) {
	c.open(want.Step)
	_, err := c.sendBatchPatiently(batchOf(2))
	if err == nil {
		c.Fatal("the attempt succeeded")
	}
	c.like(want, failure.From(err))
	if want.Unseen {
		c.requests(0)
	} else if c.h.Batches.Items != nil {
		c.requests(1)
	}
}
