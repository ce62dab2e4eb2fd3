package connectortest

// The batches and health checks of the reference destination, with their flaws;
// see suite_test.go.

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// unfit is the body that the reference takes into no batch.
const unfit = "unfit"

func batchHarness() *BatchHarness {
	return &BatchHarness{
		Items: func(_ testing.TB, r Request) []Request {
			var rs []Request
			keys := strings.Split(r.Key, "\n")
			for i, body := range bytes.Split(r.Body, []byte("\n")) {
				rs = append(rs, Request{Key: keys[min(i, len(keys)-1)], Body: body})
			}
			return rs
		},
		Unfit: newMessage("odd", []byte(unfit)),
	}
}

func (d *memory) SendBatch(ctx context.Context, batch []*message.Message) (connector.BatchAnswer, error) {
	if ctx.Err() != nil && d.flaw != "batch ended ctx" {
		return connector.BatchAnswer{}, d.ended(ctx)
	}
	each, sent := make([]error, len(batch)), []*message.Message{}
	for i, m := range batch {
		if string(m.Body) != unfit {
			sent = append(sent, m)
			continue
		}
		each[i] = &failure.Error{Tags: failure.Tags{"transform"}, Class: failure.Permanent, Verdict: failure.Neutral, Message: "unfit"}
		switch d.flaw {
		case "unfit takes all":
			return connector.BatchAnswer{}, each[i]
		case "unfit is lost":
			each[i] = nil
		case "unfit is retried":
			each[i] = &failure.Error{Message: "unfit"}
		}
	}
	if len(sent) == 0 {
		return connector.BatchAnswer{Each: each}, nil
	}
	if err := d.attempt(ctx, d.joined(sent)); err != nil && d.flaw != "batch failure" {
		return connector.BatchAnswer{}, err
	}
	switch d.flaw {
	case "batch order":
		slices.Reverse(batch)
	case "batch touches":
		batch[0].Headers["x-added"] = []string{"1"}
	case "batch outcomes":
		each = each[1:]
	case "batch plain error":
		each[0] = errors.New("plain")
	}
	if !slices.ContainsFunc(each, func(err error) bool { return err != nil }) && d.flaw == "" {
		each = nil
	}
	return connector.BatchAnswer{Each: each}, nil
}

// joined is a batch as one message, in the form that batchHarness takes apart.
func (d *memory) joined(sent []*message.Message) *message.Message {
	if d.flaw == "batch drops" && len(sent) > 2 {
		sent = sent[1:]
	}
	if d.flaw == "batch mixes" {
		sent = slices.Clone(sent)
		slices.Reverse(sent)
	}
	var keys []string
	var bodies [][]byte
	for _, m := range sent {
		key := m.ID
		if d.flaw == "batch keys" {
			key = sent[0].ID
		}
		keys, bodies = append(keys, key), append(bodies, m.Body)
	}
	return &message.Message{ID: strings.Join(keys, "\n"), Body: bytes.Join(bodies, []byte("\n"))}
}

func (d *memory) Check(ctx context.Context) error {
	if d.flaw == "check sends" {
		return d.attempt(ctx, newMessage("", nil))
	}
	switch step := d.script.At(0); {
	case d.flaw == "check passes":
	case d.flaw == "check fails" && ctx.Err() == nil:
		return errors.New("ill")
	case step.Do == Hang:
		if d.flaw == "check ctx" {
			time.Sleep(time.Hour)
		}
		<-ctx.Done()
		return ctx.Err()
	case step.Do == Fail && d.flaw == "check secret":
		return errors.New(secret)
	case step.Do == Fail:
		return failure.FromStatus(503, 0)
	}
	return nil
}
