// These tests catch a message that a queue loses or changes; a job that is done
// though its message was not settled, worked on twice by one source, charged for
// pawl's own trouble or held back at a stop; a lease that ends under a handler
// that is still at work; and more in hand than was asked for.
package jobqueue_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/connector/jobqueue"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newQueues is newServer's way in for the relay.
func newQueues(t *testing.T) connector.Queues {
	t.Helper()
	return newServer(t).Messages()
}

// newServer is a job server on a store of its own with the queues q, short, whose
// leases last a second, and hasty, whose jobs may take no longer either and are
// tried once.
func newServer(t *testing.T) *jobserver.Server {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	server, err := jobserver.NewServer(jobserver.Options{Store: s, Config: jobserver.Config{Queues: map[string]jobserver.Queue{
		"q":     {Lease: 30 * time.Second, Timeout: time.Minute},
		"short": {Lease: time.Second, Timeout: time.Minute},
		"hasty": {Lease: time.Second, Timeout: time.Second, Retry: job.Overlay{MaxAttempts: new(1)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// scripted is a job server whose Put plays a script.
type scripted struct {
	connector.Queues
	script connectortest.Script

	mu   sync.Mutex
	puts []connectortest.Request
}

// failures are the errors that the script plays, by name.
var failures = map[string]error{
	"conflict": connector.ErrKeyConflict, "no queue": connector.ErrNoQueue, "too large": connector.ErrTooLarge,
	"full": store.ErrFull, "unavailable": store.ErrUnavailable, "unknown": store.ErrUnknown, "closed": store.ErrClosed,
	"other": errors.New("out of order"),
}

func (s *scripted) Put(ctx context.Context, p connector.Put) (connector.Kept, error) {
	s.mu.Lock()
	step := s.script.At(len(s.puts))
	s.puts = append(s.puts, connectortest.Request{Key: strings.TrimPrefix(p.Key, "out/"), Body: p.Message.Body})
	s.mu.Unlock()
	switch step.Do {
	case connectortest.Fail:
		return connector.Kept{}, failures[step.Fail]
	case connectortest.Hang:
		<-ctx.Done()
		return connector.Kept{}, ctx.Err()
	case connectortest.Slow:
		time.Sleep(10 * time.Millisecond)
	}
	return s.Queues.Put(ctx, p)
}

func (s *scripted) Requests() []connectortest.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]connectortest.Request(nil), s.puts...)
}

func TestDestinationSuite(t *testing.T) {
	fails := func(name string, class failure.Class, verdict failure.Verdict, tags ...failure.Tag) connectortest.Failure {
		return connectortest.Failure{
			Name: name, Step: connectortest.Step{Do: connectortest.Fail, Fail: name}, Tags: tags, Class: class, Verdict: verdict,
		}
	}
	connectortest.Destination(t, connectortest.DestinationHarness{
		Open: func(t *testing.T, script connectortest.Script) (connector.Destination, connectortest.FarSide) {
			far := &scripted{Queues: newQueues(t), script: script}
			kind := jobqueue.DestinationKind()
			d, err := kind.Open(&jobqueue.DestinationSettings{Queue: "q", Task: "t", Version: "2", Priority: 7}, connector.Env{Name: "out", Queues: far})
			if err != nil {
				t.Fatal(err)
			}
			return d, far
		},
		Failures: []connectortest.Failure{
			fails("conflict", failure.Permanent, failure.Alive, "queue", "queue:key_conflict"),
			fails("no queue", failure.Permanent, failure.Suspect, "queue", "queue:no_queue"),
			fails("too large", failure.Permanent, failure.Alive, "queue", "queue:too_large"),
			fails("full", failure.Transient, failure.Sick, "queue", "queue:full"),
			fails("unavailable", failure.Transient, failure.Sick, "queue", "queue:unavailable"),
			fails("unknown", failure.Transient, failure.Sick, "queue", "queue:unknown"),
			fails("other", failure.Transient, failure.Sick, "queue", "queue:other"),
			fails("closed", failure.Transient, failure.Neutral, failure.Cancelled),
		},
		Hangs: connectortest.Yes, Keys: connectortest.Yes,
	})
}

// feed puts jobs into the queue and tells how their leases ended.
type feed struct {
	connector.Queues
	mu    sync.Mutex
	jobs  map[string]string                // job by lease
	ended map[string]chan connector.Ending // by job
}

func (f *feed) end(job string) chan connector.Ending {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.ended[job]
	if c == nil {
		c = make(chan connector.Ending, 100)
		f.ended[job] = c
	}
	return c
}

func (f *feed) Take(ctx context.Context, t connector.Take) ([]connector.Taken, error) {
	got, err := f.Queues.Take(ctx, t)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range got {
		f.jobs[t.Lease] = t.Job
	}
	return got, err
}

func (f *feed) Settle(ctx context.Context, lease string, e connector.Ending) error {
	err := f.Queues.Settle(ctx, lease, e)
	if err == nil {
		f.mu.Lock()
		job := f.jobs[lease]
		f.mu.Unlock()
		f.end(job) <- e
	}
	return err
}

func (f *feed) Send(ctx context.Context, s connectortest.Sent) (connectortest.Reply, error) {
	kept, err := f.Put(ctx, connector.Put{Queue: "q", Task: "t", Message: &message.Message{
		ID: s.ID, Source: "web", Time: time.Now(), Headers: map[string][]string{"x-a": {"1"}}, Body: s.Body,
	}})
	if err != nil {
		return "", err
	}
	select {
	case e := <-f.end(kept.Job):
		switch e.How {
		case connector.Done:
			return connectortest.Acked, nil
		case connector.Back, connector.Again:
			return connectortest.Nacked, nil
		}
		return "", errors.New("ended as " + string(e.How))
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func TestSourceSuite(t *testing.T) {
	connectortest.Source(t, connectortest.SourceHarness{
		Open: func(t *testing.T) (connector.Source, connectortest.Feed) {
			f := &feed{Queues: newQueues(t), jobs: map[string]string{}, ended: map[string]chan connector.Ending{}}
			kind := jobqueue.SourceKind()
			s, err := kind.Open(&jobqueue.SourceSettings{Queue: "q", Tasks: []string{"other", "t@1"}}, connector.Env{Name: "in", Queues: f})
			if err != nil {
				t.Fatal(err)
			}
			return s, f
		},
		Keys: connectortest.Yes, Empty: connectortest.Yes,
	})
}
