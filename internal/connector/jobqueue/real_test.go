package jobqueue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/jobqueue"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/jobserver"
)

type handlerFunc func(ctx context.Context, d connector.Delivery) connector.Settlement

func (f handlerFunc) Handle(ctx context.Context, d connector.Delivery) connector.Settlement {
	return f(ctx, d)
}

// work runs a source on a queue until the end of the test.
func work(t *testing.T, q connector.Queues, queue string, h handlerFunc) {
	t.Helper()
	s, err := jobqueue.OpenSource(queue, nil, connector.Env{Name: "in", Queues: q})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = s.Close()
	})
}

// until reads the job until it is as it should be.
func until(t *testing.T, s *jobserver.Server, id string, is func(*job.Job) bool) *job.Job {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		j, err := s.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if is(j) {
			return j
		}
		if time.Now().After(deadline) {
			t.Fatalf("the job stays %+v", j)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func send(t *testing.T, q connector.Queues, queue string, m *message.Message) string {
	t.Helper()
	kind := jobqueue.DestinationKind()
	d, err := kind.Open(&jobqueue.DestinationSettings{Queue: queue, Task: "t", Version: "3", Priority: -5}, connector.Env{Name: "out", Queues: q})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a repeat is the same job
		if _, err := d.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	other := m.With(func(m *message.Message) { m.Body = []byte("another body") })
	if _, err := d.Send(t.Context(), other); !errors.Is(err, connector.ErrKeyConflict) {
		t.Errorf("another body under one id: %v", err)
	}
	kept, err := q.Put(t.Context(), connector.Put{Queue: queue, Task: "t", Version: "3", Key: "out/" + m.ID, Message: m})
	if err != nil || !kept.Found {
		t.Fatalf("%+v, %v", kept, err)
	}
	return kept.Job
}

func aMessage() *message.Message {
	return &message.Message{
		ID: "m1", Source: "web", Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Key: "k",
		Headers: map[string][]string{"x-a": {"1", "2"}}, ContentType: "text/plain", Body: []byte("body\x00\xff"),
	}
}

// A message is the same behind its queue, and the job says how it was.
func TestThroughTheStore(t *testing.T) {
	server := newServer(t)
	q := server.Messages()
	id := send(t, q, "q", aMessage())
	got := make(chan *message.Message, 10)
	work(t, q, "q", func(_ context.Context, d connector.Delivery) connector.Settlement {
		got <- d.Message
		return connector.Settlement{Status: event.SettledDelivered}
	})
	if diff := cmp.Diff(aMessage(), <-got, cmpopts.IgnoreUnexported(message.Message{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	j := until(t, server, id, func(j *job.Job) bool { return j.Status == job.Succeeded })
	if j.Task != "t" || j.Version != "3" || j.Priority != -5 || len(j.Attempts) != 1 {
		t.Errorf("%+v", j)
	}
	if len(got) != 0 {
		t.Error("it came twice")
	}
}

// What was tried and has to wait is charged and due after the wait; what only
// waited is not charged.
func TestPutOffInTheStore(t *testing.T) {
	for _, c := range []struct{ attempts, charged int }{{2, 1}, {0, 0}} {
		server := newServer(t)
		q := server.Messages()
		id := send(t, q, "q", aMessage())
		work(t, q, "q", func(context.Context, connector.Delivery) connector.Settlement {
			return connector.Settlement{Status: event.SettledDeferred, RetryAfter: time.Hour, Attempts: c.attempts, Err: errors.New("HTTP 503")}
		})
		j := until(t, server, id, func(j *job.Job) bool { return j.Status == job.Queued && len(j.Attempts) == 1 })
		if wait := time.Until(j.RunAt); wait < 50*time.Minute || wait > time.Hour || j.Counts.Charged != c.charged {
			t.Errorf("after %d tries: due in %v, %d charged; want an hour and %d", c.attempts, wait, j.Counts.Charged, c.charged)
		}
	}
}

// The attempts that a job's policy leaves are told with it.
func TestAttemptsLeft(t *testing.T) {
	q := newServer(t).Messages()
	send(t, q, "q", aMessage())
	for _, want := range []int{8, 8, 7} { // put back, then failed
		got, err := q.Take(t.Context(), connector.Take{Queue: "q", Worker: "relay:in", Max: 1})
		if err != nil || len(got) != 1 || got[0].Left != want {
			t.Fatalf("%+v, %v; want %d attempts left", got, err, want)
		}
		e := connector.Ending{How: connector.Back}
		if got[0].Attempt == 2 {
			e = connector.Ending{How: connector.Again, After: time.Nanosecond}
		}
		if err := q.Settle(t.Context(), got[0].Lease, e); err != nil {
			t.Fatal(err)
		}
	}
}

// counting counts how often leases were lengthened.
type counting struct {
	connector.Queues
	extended atomic.Int64
	enough   int64
	done     chan struct{} // closed after enough times, or once a lease is lost
	closes   sync.Once
}

func (c *counting) Extend(ctx context.Context, leases []string) ([]string, error) {
	lost, err := c.Queues.Extend(ctx, leases)
	if c.extended.Add(1) >= c.enough || len(lost) > 0 {
		c.closes.Do(func() { close(c.done) })
	}
	return lost, err
}

// A handler that takes longer than the lease keeps its job.
func TestALeaseIsKeptInTheStore(t *testing.T) {
	server := newServer(t)
	q := &counting{Queues: server.Messages(), enough: 4, done: make(chan struct{})} // four thirds of the lease
	id := send(t, q, "short", aMessage())
	work(t, q, "short", func(context.Context, connector.Delivery) connector.Settlement {
		<-q.done
		return connector.Settlement{Status: event.SettledDelivered}
	})
	j := until(t, server, id, func(j *job.Job) bool { return j.Status != job.Queued && j.Status != job.Running })
	if j.Status != job.Succeeded || len(j.Attempts) != 1 {
		t.Errorf("%s after %d attempts", j.Status, len(j.Attempts))
	}
}

// A queue's timeout is for workers that hang. A message has deadlines of its own,
// and may stand behind others first: it is neither taken for timed out while it
// is in hand nor delivered again beside itself.
func TestAMessageInHandOutlastsTheTimeoutInTheStore(t *testing.T) {
	server := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	swept := make(chan error, 1)
	go func() { swept <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-swept; err != nil {
			t.Error(err)
		}
	})
	// Timed out after a second, the job would be found by the next second's sweep
	// and its lease be lost at the next third of a second.
	q := &counting{Queues: server.Messages(), enough: 9, done: make(chan struct{})}
	id := send(t, q, "hasty", aMessage())
	var handled atomic.Int64
	work(t, q, "hasty", func(context.Context, connector.Delivery) connector.Settlement {
		handled.Add(1)
		<-q.done
		return connector.Settlement{Status: event.SettledDelivered}
	})
	j := until(t, server, id, func(j *job.Job) bool { return j.Status != job.Queued && j.Status != job.Running })
	if j.Status != job.Succeeded || len(j.Attempts) != 1 || handled.Load() != 1 {
		t.Errorf("%s %s after %d attempts; handed over %d times", j.Status, j.Reason, len(j.Attempts), handled.Load())
	}
}
