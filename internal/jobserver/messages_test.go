package jobserver

// What these tests would catch: a message that is not the same after its queue,
// one that is put twice or dropped as a repeat, a message of the relay that is
// given up early, one that waits for a lease after a restart, one that can't be
// read and goes round for ever.

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// aMessage has something in each of its fields.
func aMessage(body string) *message.Message {
	return &message.Message{
		ID: "m-1", Source: "in", Time: time.Date(2026, 12, 1, 3, 0, 0, 123456789, time.UTC), Key: "k",
		Headers: map[string][]string{"x-a": {"1", "2"}, "traceparent": {trace}}, ContentType: "text/plain",
		Body: []byte(body), Attributes: map[string]jsontext.Value{"dlq": jsontext.Value(`{"a":1}`)},
	}
}

func put(t testing.TB, q connector.Queues, p connector.Put) connector.Kept {
	t.Helper()
	kept, err := q.Put(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func take(t testing.TB, q connector.Queues, queue string, tasks ...lane.Task) connector.Taken {
	t.Helper()
	got, err := q.Take(t.Context(), connector.Take{Queue: queue, Tasks: tasks, Worker: "relay:src", Max: 1})
	if err != nil || len(got) != 1 {
		t.Fatalf("took %d, %v", len(got), err)
	}
	return got[0]
}

var sameMessage = cmpopts.IgnoreUnexported(message.Message{})

func TestAMessageGoesThroughAQueueUnchanged(t *testing.T) {
	s := stored(t, twoQueues)
	for _, body := range []string{"\xff\x00 no text", `{"a":1}`, ""} {
		want := aMessage(body)
		if body == "" {
			want.Body = nil
		}
		kept := put(t, s.Messages(), connector.Put{Queue: "emails", Task: "t", Version: "2", Priority: 7, Message: want})
		got := take(t, s.Messages(), "emails")
		if diff := cmp.Diff(want, got.Message, sameMessage); diff != "" {
			t.Error(diff)
		}
		if got.Job != kept.Job || got.Attempt != 1 || got.LeaseFor != DefaultLease {
			t.Errorf("taken as %+v", got)
		}
		j, err := s.Job(t.Context(), kept.Job)
		if err != nil || j.Task != "t" || j.Version != "2" || j.Priority != 7 || j.Trace != trace || j.Policy.MaxAttempts != 8 {
			t.Errorf("its job is %+v, %v", j, err)
		}
	}
}

func TestTheRelaysOwnQueues(t *testing.T) {
	s := stored(t, Config{Project: job.Overlay{MaxAttempts: new(1), Initial: new(time.Duration(0))}})
	kept := put(t, s.Messages(), connector.Put{Queue: "relay:in", Message: aMessage("b")})
	j, err := s.Job(t.Context(), kept.Job)
	if err != nil {
		t.Fatal(err)
	}
	want := job.Policy{MaxAttempts: 50, Initial: 10 * time.Second, Factor: 2, MaxDelay: time.Hour, Jitter: 0.25}
	if j.Task != "message" || j.Version != "1" || j.Timeout != MaxTimeout || j.Policy.Policy != want || j.Policy.From.MaxAttempts != job.LevelQueue {
		t.Errorf("its job is %+v", j)
	}
	if got := take(t, s.Messages(), "relay:in"); got.Job != kept.Job || got.LeaseFor != DefaultLease {
		t.Errorf("taken as %+v", got)
	}
}

func TestKeysOfMessages(t *testing.T) {
	s := stored(t, twoQueues)
	api := create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1"), Key: "d/m-1"})
	p := connector.Put{Queue: "emails", Task: "t", Key: "d/m-1", Message: aMessage("body")}
	first := put(t, s.Messages(), p)
	if first.Found || first.Job == api.ID {
		t.Errorf("a producer's key stands for a message: %+v", first)
	}
	// Sent again by its sender: same body, other headers and time; and to a
	// destination whose settings changed.
	again := p
	again.Version, again.Queue = "3", "reports"
	again.Message = p.Message.With(func(m *message.Message) { m.Time = time.Now(); m.Headers = nil })
	if got := put(t, s.Messages(), again); !got.Found || got.Job != first.Job {
		t.Errorf("the repeat is %+v", got)
	}
	again.Message = aMessage("another")
	if _, err := s.Messages().Put(t.Context(), again); !errors.Is(err, connector.ErrKeyConflict) || !strings.Contains(err.Error(), first.Job) {
		t.Errorf("another message under the key: %v", err)
	}
	unkeyed := p
	unkeyed.Key = ""
	if a, b := put(t, s.Messages(), unkeyed), put(t, s.Messages(), unkeyed); a.Job == b.Job {
		t.Error("two messages without a key are one job")
	}
}

func TestWhatCannotBePut(t *testing.T) {
	s := stored(t, twoQueues)
	q := s.Messages()
	for name, c := range map[string]struct {
		p    connector.Put
		want error
	}{
		"an unknown queue":    {connector.Put{Queue: "emial", Task: "t"}, connector.ErrNoQueue},
		"a nameless source":   {connector.Put{Queue: "relay:a b"}, connector.ErrNoQueue},
		"a large message":     {connector.Put{Queue: "emails", Task: "t", Message: aMessage(strings.Repeat("x", MaxMessage))}, connector.ErrTooLarge},
		"a bad task":          {connector.Put{Queue: "emails", Task: "a b"}, nil},
		"a bad version":       {connector.Put{Queue: "emails", Task: "t", Version: "a b"}, nil},
		"a priority too high": {connector.Put{Queue: "emails", Task: "t", Priority: 101}, nil},
	} {
		if c.p.Message == nil {
			c.p.Message = aMessage("b")
		}
		kept, err := q.Put(t.Context(), c.p)
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %+v, %v", name, kept, err)
		}
		if _, invalid := errors.AsType[*InvalidError](err); c.want == nil && !invalid {
			t.Errorf("%s: %v is no InvalidError", name, err)
		}
	}
	if _, err := q.Take(t.Context(), connector.Take{Queue: "emial", Worker: "w", Max: 1}); !errors.Is(err, connector.ErrNoQueue) {
		t.Errorf("took from an unknown queue: %v", err)
	}
}

func TestAJobOfTheAPIIsAMessage(t *testing.T) {
	s := stored(t, twoQueues)
	made := create(t, s, New{Queue: "emails", Task: "t", Payload: []byte(`{ "a": 1 }`), Trace: trace})
	create(t, s, New{Queue: "emails", Task: "other", Payload: []byte(`1`)})
	got := take(t, s.Messages(), "emails", lane.Task{Name: "t"})
	want := &message.Message{
		ID: made.ID, Time: got.Message.Time, ContentType: "application/json", Body: []byte(`{ "a": 1 }`),
		Headers: map[string][]string{"traceparent": {trace}},
	}
	if diff := cmp.Diff(want, got.Message, sameMessage); diff != "" {
		t.Error(diff)
	}
	if !got.Message.Time.Equal(made.CreatedAt) {
		t.Errorf("its time is %v, the job was made at %v", got.Message.Time, made.CreatedAt)
	}
}

func TestTakeWaits(t *testing.T) {
	s := stored(t, twoQueues)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Messages().Take(ctx, connector.Take{Queue: "emails", Worker: "w", Max: 1})
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	came := make(chan connector.Taken, 1)
	go func() { came <- take(t, s.Messages(), "emails") }()
	kept := put(t, s.Messages(), connector.Put{Queue: "emails", Task: "t", Message: aMessage("b")})
	if got := <-came; got.Job != kept.Job {
		t.Errorf("%s came, not %s", got.Job, kept.Job)
	}
}

func TestSettle(t *testing.T) {
	s := stored(t, twoQueues)
	q := s.Messages()
	for name, c := range map[string]struct {
		e       connector.Ending
		status  job.Status
		charged int
		waits   time.Duration // at least, and a minute more at most
	}{
		"done":        {connector.Ending{How: connector.Done}, job.Succeeded, 1, 0},
		"letter":      {connector.Ending{How: connector.Done, As: event.SettledDeadLettered}, job.Succeeded, 1, 0},
		"again":       {connector.Ending{How: connector.Again, Error: "503"}, job.Queued, 1, 7500 * time.Millisecond},
		"again later": {connector.Ending{How: connector.Again, After: time.Hour, Error: "503"}, job.Queued, 1, time.Hour},
		"back":        {connector.Ending{How: connector.Back}, job.Queued, 0, 0},
		"back later":  {connector.Ending{How: connector.Back, After: time.Hour}, job.Queued, 0, time.Hour},
	} {
		kept := put(t, q, connector.Put{Queue: "emails", Task: "t", Message: aMessage(name)})
		got := take(t, q, "emails")
		if got.Job != kept.Job {
			t.Fatalf("%s: another job came", name)
		}
		for range 2 { // a repeat, since its answer may have been lost
			if err := q.Settle(t.Context(), got.Lease, c.e); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		j, err := s.Job(t.Context(), kept.Job)
		if err != nil {
			t.Fatal(err)
		}
		a := j.Attempts[0]
		if j.Status != c.status || j.Counts.Charged != c.charged {
			t.Errorf("%s: it is %s, charged %d", name, j.Status, j.Counts.Charged)
		}
		if c.status == job.Queued {
			if wait := j.RunAt.Sub(a.EndedAt); wait < c.waits || wait > c.waits+time.Minute {
				t.Errorf("%s: it waits %v", name, wait)
			}
		}
		if c.e.Error != "" && (a.Error == nil || a.Error.Message != c.e.Error) {
			t.Errorf("%s: the error is kept as %+v", name, a.Error)
		}
		if want := map[string]string{"letter": `{"status":"dead_lettered"}`}[name]; string(j.Result) != want {
			t.Errorf("%s: the result is %s", name, j.Result)
		}
		if name == "back" { // it is there at once; out of the others' way
			if err := q.Settle(t.Context(), take(t, q, "emails").Lease, connector.Ending{How: connector.Done}); err != nil {
				t.Error(err)
			}
		}
		if err := q.Settle(t.Context(), got.Lease, connector.Ending{How: connector.Back, After: time.Second}); !errors.Is(err, connector.ErrLeaseLost) {
			t.Errorf("%s: another ending of its lease: %v", name, err)
		}
	}
	if err := q.Settle(t.Context(), "lse_garbage", connector.Ending{How: connector.Done}); !errors.Is(err, connector.ErrLeaseLost) {
		t.Errorf("garbage: %v", err)
	}
	if err := q.Settle(t.Context(), "lse_garbage", connector.Ending{How: "lost"}); err == nil {
		t.Error("an unknown way to end is taken")
	}
}

func TestExtend(t *testing.T) {
	clock := newClock()
	s, err := NewServer(Options{Store: open(t, sqlite.Options{Wall: clock.wall, Mono: clock.mono}), Config: twoQueues})
	if err != nil {
		t.Fatal(err)
	}
	q := s.Messages()
	const n = MaxBatch + 2 // two calls of the store
	var leases []string
	for i := range n {
		put(t, q, connector.Put{Queue: "emails", Task: "t", Message: aMessage(fmt.Sprint(i))})
	}
	for len(leases) < n {
		got, err := q.Take(t.Context(), connector.Take{Queue: "emails", Worker: "w", Max: n})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range got {
			leases = append(leases, g.Lease)
		}
	}
	gone := []string{leases[0], leases[n-1]}
	for _, lease := range gone {
		if err := q.Settle(t.Context(), lease, connector.Ending{How: connector.Done}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // each lengthens by most of a lease
		clock.step(DefaultLease - time.Second)
		lost, err := q.Extend(t.Context(), leases)
		if err != nil || !slices.Equal(lost, gone) {
			t.Fatalf("lost are %d, %v", len(lost), err)
		}
		if _, err := s.store.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if lost, err := q.Extend(t.Context(), nil); lost != nil || err != nil {
		t.Errorf("nothing to lengthen: %v, %v", lost, err)
	}
}

// A message that a newer pawl wrote, or that is damaged, is kept for a person.
func TestAMessageThatCannotBeRead(t *testing.T) {
	s := stored(t, twoQueues)
	bad, err := s.store.Create(t.Context(), []store.NewJob{{
		Queue: "emails", Task: "t", Version: "1", Content: job.Content{Payload: []byte("body"), Head: []byte{99}},
		Policy: job.Resolve(), Timeout: time.Minute,
	}})
	if err != nil {
		t.Fatal(err)
	}
	good := put(t, s.Messages(), connector.Put{Queue: "emails", Task: "t", Message: aMessage("b")})
	if got := take(t, s.Messages(), "emails"); got.Job != good.Job {
		t.Errorf("%s came", got.Job)
	}
	j, err := s.Job(t.Context(), bad[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if j.Status != job.Failed || j.Reason != job.ReasonNonRetryable || j.LastError == nil || string(j.Content.Payload) != "body" {
		t.Errorf("it is %+v", j)
	}
}

// What is logged of a message that can't be read is what became of its job.
func TestATroubleWithAnUnreadableMessageIsToldAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		answer store.Answer
		err    error
		says   string
	}{
		"taken": {store.Answer{Status: store.ReportTaken, JobStatus: job.Failed}, nil, "its job is a dead letter now"},
		"late":  {store.Answer{Status: store.LeaseLost}, nil, "the lease of its job is over"},
		"not":   {store.Answer{}, store.ErrUnavailable, "could not be made a dead letter"},
	} {
		var log strings.Builder
		s, err := NewServer(Options{Store: answering{answer: c.answer, err: c.err}, Config: twoQueues, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		messages{s}.bury(t.Context(), store.Claimed{Job: &job.Job{ID: "job_1", Queue: "emails"}}, errors.New("of a newer pawl"))
		if got := log.String(); !strings.Contains(got, c.says) || !strings.Contains(got, "of a newer pawl") || strings.Count(got, "\n") != 1 ||
			c.err == nil != !strings.Contains(got, store.ErrUnavailable.Error()) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// answering is a store that answers one report.
type answering struct {
	store.Store
	answer store.Answer
	err    error
}

func (a answering) Report(context.Context, []store.Report) ([]store.Answer, error) {
	return []store.Answer{a.answer}, a.err
}

// A message that is in hand for longer than its job's timeout is still the
// relay's, whose own deadlines end it.
func TestAMessageInHandOutlastsItsJobsTimeout(t *testing.T) {
	clock := newClock()
	s, err := NewServer(Options{
		Store:  open(t, sqlite.Options{Wall: clock.wall, Mono: clock.mono}),
		Config: Config{Queues: map[string]Queue{"emails": {Timeout: time.Second, Retry: job.Overlay{MaxAttempts: new(1)}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := put(t, s.Messages(), connector.Put{Queue: "emails", Task: "t", Message: aMessage("b")})
	got := take(t, s.Messages(), "emails")
	for range 12 { // a minute, and no gap that would lengthen what is open
		clock.step(5 * time.Second)
		if lost, err := s.Messages().Extend(t.Context(), []string{got.Lease}); err != nil || len(lost) > 0 {
			t.Fatalf("lost %v, %v", lost, err)
		}
		if _, err := s.store.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Messages().Settle(t.Context(), got.Lease, connector.Ending{How: connector.Done}); err != nil {
		t.Errorf("it is delivered, and then: %v", err)
	}
	if j, err := s.Job(t.Context(), kept.Job); err != nil || j.Status != job.Succeeded || len(j.Attempts) != 1 {
		t.Errorf("its job is %+v, %v", j, err)
	}
}

// The relay's leases end with its process, whoever else waits out a lease.
func TestARestartGivesTheRelaysLeasesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	before, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(Options{Store: before, Config: twoQueues})
	if err != nil {
		t.Fatal(err)
	}
	kept := put(t, s.Messages(), connector.Put{Queue: "relay:in", Message: aMessage("b")})
	first := take(t, s.Messages(), "relay:in")
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	workers := claim(t, s, Want{Queues: []string{"emails"}})[0]
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}

	s, err = NewServer(Options{Store: open(t, sqlite.Options{Path: path}), Config: twoQueues})
	if err != nil {
		t.Fatal(err)
	}
	got := take(t, s.Messages(), "relay:in")
	if got.Job != kept.Job || got.Attempt != 2 {
		t.Errorf("taken as %+v", got)
	}
	if err := s.Messages().Settle(t.Context(), first.Lease, connector.Ending{How: connector.Done}); !errors.Is(err, connector.ErrLeaseLost) {
		t.Errorf("the lease of before the restart: %v", err)
	}
	j, err := s.Job(t.Context(), kept.Job)
	if err != nil || j.Counts != (job.Counts{}) || j.Attempts[0].Outcome != job.OutcomeReleased {
		t.Errorf("its job is %+v, %v", j, err)
	}
	if got := report(t, s, store.Report{Type: store.Complete, Lease: workers.Lease})[0].Status; got != store.ReportTaken {
		t.Errorf("the report of a worker that outlived the restart is answered %s", got)
	}
}
