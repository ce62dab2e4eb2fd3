package connectortest

// These tests would catch a suite that lets a broken kind pass: a reference
// destination and source in memory pass it, and each way of breaking them is
// run in a process of its own, which must fail in the check that is meant to
// see it.

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

const secret = "s3cret-of-the-suite"

// memory is a destination and its far side at once. flaw is what is wrong
// with it, "" for nothing.
type memory struct {
	flaw   string
	script Script
	mu     sync.Mutex
	seen   []Request
	closed bool
}

func (d *memory) Requests() []Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Request(nil), d.seen...)
}

func (d *memory) arrive(m *message.Message) Step {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := Request{Key: m.ID, Body: m.Body}
	switch {
	case d.flaw == "bytes":
		r.Body = []byte(strings.ToValidUTF8(string(m.Body), "?"))
	case d.flaw == "key":
		r.Key = ""
	case d.flaw == "key of retries" && len(d.seen) > 0:
		r.Key = m.ID + "-2"
	case d.flaw == "mixes":
		if len(d.seen) > 0 {
			r.Body = d.seen[0].Body
		}
	}
	d.seen = append(d.seen, r)
	return d.script.At(len(d.seen) - 1)
}

func (d *memory) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	if ctx.Err() != nil && d.flaw != "ended ctx" {
		return connector.Answer{}, d.ended(ctx)
	}
	if d.flaw == "touches" {
		m.Headers["x-added"] = []string{"1"}
	}
	if d.flaw == "leak" {
		go func() { <-make(chan struct{}) }()
	}
	err := d.attempt(ctx, m)
	if d.flaw == "retries" && err != nil && ctx.Err() == nil {
		err = d.attempt(ctx, m)
	}
	return connector.Answer{}, err
}

func (d *memory) attempt(ctx context.Context, m *message.Message) error {
	switch step := d.arrive(m); step.Do {
	case Slow:
		time.Sleep(100 * time.Millisecond) // virtual time
	case Hang:
		if d.flaw == "ctx" {
			time.Sleep(time.Hour)
		}
		<-ctx.Done()
		return d.ended(ctx)
	case Reset:
		return d.fail(&failure.Error{Tags: failure.Tags{"connect"}, Message: "connection reset"})
	case Fail:
		return d.fail(failure.FromStatus(503, time.Second))
	}
	return nil
}

func (d *memory) fail(f *failure.Error) error {
	switch d.flaw {
	case "tags":
		f.Tags = append(f.Tags, "4xx")
	case "no tag":
		f.Tags = f.Tags[:len(f.Tags)-1]
	case "class":
		f.Class = failure.Permanent
	case "verdict":
		f.Verdict = failure.Alive
	case "retry after":
		f.RetryAfter = 0
	case "plain error":
		return errors.New(f.Message)
	case "secret":
		f.Message += " by " + secret
	case "secret in cause":
		f.Err = errors.New(secret)
	case "lines":
		f.Message += "\nand more"
	}
	return f
}

func (d *memory) ended(ctx context.Context) error {
	deadline := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case d.flaw == "timeout" && deadline, !deadline && d.flaw != "cancelled":
		return &failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral, Message: "given up"}
	}
	return &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: "timeout"}
}

func (d *memory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed && d.flaw == "close" {
		return errors.New("closed already")
	}
	d.closed = true
	return nil
}

func destinationHarness(flaw string) DestinationHarness {
	return DestinationHarness{
		Open: func(_ *testing.T, script Script) (connector.Destination, FarSide) {
			d := &memory{flaw: flaw, script: script}
			return d, d
		},
		Clock: InBubble,
		Failures: []Failure{
			{Name: "status", Step: Step{Do: Fail, Fail: "status"}, Tags: failure.Tags{"503", "5xx"}, Verdict: failure.Neutral, RetryAfter: time.Second},
			{Name: "reset", Step: Step{Do: Reset}, Tags: failure.Tags{"connect"}, Verdict: failure.Sick},
		},
		Hangs:   Yes,
		Keys:    Yes,
		Secrets: []string{secret},
		Batches: batchHarness(),
		Health:  &HealthHarness{Unwell: []Step{{Do: Fail, Fail: "status"}}, Hangs: Yes},
	}
}

// queue is a source and its feed at once.
type queue struct {
	flaw   string
	in     chan item
	mu     sync.Mutex
	closed bool
}

type item struct {
	sent  Sent
	reply chan Reply
}

func (q *queue) Send(ctx context.Context, s Sent) (Reply, error) {
	it := item{s, make(chan Reply, 1)}
	select {
	case q.in <- it:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case r := <-it.reply:
		return r, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (q *queue) Run(ctx context.Context, h connector.Handler) error {
	var wg sync.WaitGroup
	if q.flaw != "no wait" {
		defer wg.Wait()
	}
	for {
		select {
		case it := <-q.in:
			wg.Go(func() { q.handle(h, it) })
		case <-ctx.Done():
			if q.flaw == "error" {
				return ctx.Err()
			}
			return nil
		}
	}
}

func (q *queue) handle(h connector.Handler, it item) {
	m := newMessage(it.sent.ID, it.sent.Body)
	switch q.flaw {
	case "bytes":
		m.Body = append(m.Body, '\n')
	case "key":
		m.ID = "made-up"
	case "headers":
		m.Headers["X-Upper"] = []string{"1"}
	case "no source":
		m.Source = ""
	case "early ack":
		it.reply <- Acked
	case "twice":
		h.Handle(context.Background(), connector.Delivery{Message: m, Keyed: true})
	}
	s := h.Handle(context.Background(), connector.Delivery{Message: m, Keyed: true})
	reply := Nacked
	switch {
	case s.Acked() && !(q.flaw == "filtered" && s.Status == event.SettledFiltered), q.flaw == "nack" && s.Status == event.SettledNacked:
		reply = Acked
	case s.Status == event.SettledRefused && q.flaw != "refused":
		reply = PushedBack
	}
	if q.flaw != "early ack" {
		it.reply <- reply
	}
}

func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed && q.flaw == "close" {
		return errors.New("closed already")
	}
	q.closed = true
	return nil
}

func sourceHarness(flaw string) SourceHarness {
	return SourceHarness{
		Open: func(*testing.T) (connector.Source, Feed) {
			q := &queue{flaw: flaw, in: make(chan item)}
			return q, q
		},
		Clock: InBubble, Keys: Yes, Refuses: Yes, Empty: Yes,
	}
}

func TestReferences(t *testing.T) {
	t.Run("Destination", func(t *testing.T) { Destination(t, destinationHarness("")) })
	t.Run("Source", func(t *testing.T) { Source(t, sourceHarness("")) })
}

// flawVariable tells the process of one flaw which it is.
const flawVariable = "PAWL_SUITE_FLAW"

// TestOneFlaw is what a process of one flaw runs; without the variable it is
// part of TestFlawsAreSeen.
func TestOneFlaw(t *testing.T) {
	kind, flaw, ok := strings.Cut(os.Getenv(flawVariable), ":")
	switch {
	case !ok:
		return
	case kind == "source":
		Source(t, sourceHarness(flaw))
	default:
		Destination(t, destinationHarness(flaw))
	}
}

func TestFlawsAreSeen(t *testing.T) {
	for flaw, check := range map[string]string{
		"destination:bytes":             "BytesUnchanged",
		"destination:key":               "KeyOnEveryAttempt",
		"destination:key of retries":    "KeyOnEveryAttempt",
		"destination:mixes":             "ConcurrentSends",
		"destination:touches":           "MessageUntouched",
		"destination:retries":           "OneRequestAnAttempt",
		"destination:ended ctx":         "EndedContext",
		"destination:ctx":               "Timeout",
		"destination:timeout":           "Timeout",
		"destination:cancelled":         "Cancel",
		"destination:tags":              "Failure/status",
		"destination:no tag":            "Failure/reset",
		"destination:class":             "Failure/status",
		"destination:verdict":           "Failure/reset",
		"destination:retry after":       "Failure/status",
		"destination:plain error":       "Failure/status",
		"destination:secret":            "Failure/status",
		"destination:secret in cause":   "Failure/reset",
		"destination:lines":             "Failure/reset",
		"destination:close":             "CloseTwice",
		"destination:leak":              "BytesUnchanged",
		"destination:batch ended ctx":   "Batch/EndedContext",
		"destination:batch drops":       "Batch/Arrives",
		"destination:batch mixes":       "Batch/Arrives",
		"destination:batch keys":        "Batch/Arrives",
		"destination:batch order":       "Batch/MessagesUntouched",
		"destination:batch touches":     "Batch/MessagesUntouched",
		"destination:batch outcomes":    "Batch/Arrives",
		"destination:batch plain error": "Batch/Arrives",
		"destination:batch failure":     "Batch/Failure/reset",
		"destination:unfit takes all":   "Batch/Unfit",
		"destination:unfit is lost":     "Batch/Unfit",
		"destination:unfit is retried":  "Batch/Unfit",
		"destination:check sends":       "Health/Well",
		"destination:check fails":       "Health/Well",
		"destination:check passes":      "Health/Unwell/status",
		"destination:check secret":      "Health/Unwell/status",
		"destination:check ctx":         "Health/Timeout",
		"source:bytes":                  "BytesUnchanged",
		"source:key":                    "BytesUnchanged",
		"source:headers":                "BytesUnchanged",
		"source:no source":              "BytesUnchanged",
		"source:early ack":              "AckOnlyWhenSettled",
		"source:twice":                  "Concurrent",
		"source:filtered":               "Acked/filtered",
		"source:nack":                   "Nacked",
		"source:refused":                "Refused",
		"source:no wait":                "StopWaitsForInFlight",
		"source:error":                  "CloseTwice",
		"source:close":                  "CloseTwice",
	} {
		t.Run(flaw, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOneFlaw$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), flawVariable+"="+flaw)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("the suite passes")
			}
			if !strings.Contains(string(out), "FAIL: TestOneFlaw/"+check) {
				t.Errorf("%s does not see it:\n%.3000s", check, out)
			}
		})
	}
}
