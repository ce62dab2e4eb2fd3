package jobserver

// What these tests would catch: a setting that a queue, a project or a job says
// and that does not reach the store, a repeat that makes a second job, keys of
// producers and of the relay that clash, an answer at another report's place.

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// open opens a store of its own.
func open(t testing.TB, o sqlite.Options) *sqlite.Store {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "pawl.db")
	}
	s, err := sqlite.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// stored is a server on a store of its own.
func stored(t testing.TB, c Config) *Server {
	t.Helper()
	s, err := NewServer(Options{Store: open(t, sqlite.Options{}), Config: c})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t testing.TB, s *Server, n New) Created {
	t.Helper()
	made, err := s.Create(t.Context(), Principal{}, []New{n})
	if err != nil {
		t.Fatal(err)
	}
	return made[0]
}

func claim(t testing.TB, s *Server, w Want) []store.Claimed {
	t.Helper()
	if w.Worker == "" {
		w.Worker = "worker-1"
	}
	if w.Max == 0 {
		w.Max = MaxBatch
	}
	got, err := s.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return got.Jobs
}

func report(t testing.TB, s *Server, reports ...store.Report) []Answer {
	t.Helper()
	answers, err := s.Report(t.Context(), "worker-1", reports)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func TestWhatIsCreatedIsStored(t *testing.T) {
	s := stored(t, Config{
		Project: job.Overlay{Factor: new(3.0), Jitter: new(0.5)},
		Queues:  map[string]Queue{"q": {Lease: time.Minute, Timeout: time.Hour, Retry: job.Overlay{Initial: new(time.Second), Jitter: new(0.1)}}},
	})
	full := create(t, s, New{
		Queue: "q", Task: "t", Version: "7", Endpoint: "e", Priority: -100, Payload: []byte(`{ "a":1 }`), Tags: []string{"x", "y"}, Trace: trace,
		Retry: job.Overlay{MaxAttempts: new(50)}, Timeout: new(24 * time.Hour), Delay: new(MaxDelay), Key: strings.Repeat("k", MaxKey),
	})
	plain := create(t, s, New{Queue: "q", Task: "t", Payload: []byte("null")})
	for _, c := range []struct {
		made Created
		want job.Job
	}{
		{full, job.Job{
			Queue: "q", Task: "t", Version: "7", Endpoint: "e", Priority: -100, Content: job.Content{Payload: []byte(`{ "a":1 }`)},
			Tags: []string{"x", "y"}, Trace: trace, Timeout: 24 * time.Hour, Status: job.Queued,
			Policy: job.Snapshot{
				Policy: job.Policy{MaxAttempts: 50, Initial: time.Second, Factor: 3, MaxDelay: time.Hour, Jitter: 0.1},
				From:   job.Levels{MaxAttempts: job.LevelJob, Initial: job.LevelQueue, Factor: job.LevelProject, MaxDelay: job.LevelBuiltIn, Jitter: job.LevelQueue},
			},
		}},
		{plain, job.Job{
			Queue: "q", Task: "t", Version: "1", Content: job.Content{Payload: []byte("null")}, Timeout: time.Hour, Status: job.Queued,
			Policy: job.Snapshot{
				Policy: job.Policy{MaxAttempts: 8, Initial: time.Second, Factor: 3, MaxDelay: time.Hour, Jitter: 0.1},
				From:   job.Levels{MaxAttempts: job.LevelBuiltIn, Initial: job.LevelQueue, Factor: job.LevelProject, MaxDelay: job.LevelBuiltIn, Jitter: job.LevelQueue},
			},
		}},
	} {
		kept, err := s.Job(t.Context(), c.made.ID)
		if err != nil {
			t.Fatal(err)
		}
		c.want.ID, c.want.CreatedAt, c.want.RunAt = c.made.ID, kept.CreatedAt, kept.RunAt
		if diff := cmp.Diff(&c.want, c.made.Job, alike); diff != "" {
			t.Errorf("what was answered: %s", diff)
		}
		if diff := cmp.Diff(&c.want, kept, alike); diff != "" {
			t.Errorf("what is kept: %s", diff)
		}
	}
	if got := full.Job.RunAt.Sub(full.Job.CreatedAt); got != MaxDelay {
		t.Errorf("it may run %v after it was made", got)
	}
}

// alike takes nil and empty for one.
var alike = cmp.Transformer("none", func(s []string) string { return strings.Join(s, ",") })

func TestAConfigurationHoldsFromThenOn(t *testing.T) {
	s := stored(t, Config{Queues: map[string]Queue{"q": {Lease: time.Minute}}})
	before := create(t, s, New{Queue: "q", Task: "t", Payload: []byte("1")})
	if err := s.Configure(Config{Queues: map[string]Queue{"q": {Lease: time.Hour, Retry: job.Overlay{MaxAttempts: new(1)}}, "r": {}}}); err != nil {
		t.Fatal(err)
	}
	create(t, s, New{Queue: "r", Task: "t", Payload: []byte("2")})
	got := claim(t, s, Want{Queues: []string{"q", "q"}})
	if len(got) != 1 || got[0].Job.ID != before.ID || got[0].LeaseFor != time.Hour || got[0].Job.Policy.MaxAttempts != 8 {
		t.Errorf("claimed %+v", got)
	}
	if err := s.Configure(Config{Queues: map[string]Queue{"q": {}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), Principal{}, []New{{Queue: "r", Task: "t", Payload: []byte("2")}}); err == nil {
		t.Error("a queue that is gone takes jobs")
	}
}

func TestRepeats(t *testing.T) {
	s := stored(t, twoQueues)
	first := New{Queue: "emails", Task: "t", Payload: []byte(`{"a":1,"b":2}`), Key: "k"}
	made := create(t, s, first)
	// A default that changed meanwhile does not make it another request.
	if err := s.Configure(Config{Queues: map[string]Queue{"emails": {Timeout: time.Hour}}}); err != nil {
		t.Fatal(err)
	}
	again := first
	again.Payload = []byte(`{"b":2, "a":1}`)
	if got := create(t, s, again); !got.Found || got.ID != made.ID || got.Job != nil {
		t.Errorf("the repeat is %+v", got)
	}
	other := first
	other.Priority = 1
	_, err := s.Create(t.Context(), Principal{}, []New{{Queue: "emails", Task: "t", Payload: []byte("1"), Key: "new"}, other})
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if !ok || *conflict != (store.ConflictError{Index: 1, Key: "k", ID: made.ID}) {
		t.Errorf("another request under the key: %v", err)
	}
	batch, err := s.Create(t.Context(), Principal{}, []New{{Queue: "emails", Task: "t", Payload: []byte("1"), Key: "new"}, first})
	if err != nil || batch[0].Found || !batch[1].Found || batch[0].Job.Content.Payload[0] != '1' {
		t.Errorf("a batch after the one that conflicted: %+v, %v", batch, err)
	}
	if got := s.Totals(); got.Created != 2 || got.Found != 2 {
		t.Errorf("it counted %+v", got)
	}
}

func TestClaimsTakeWhatTheyAskFor(t *testing.T) {
	s := stored(t, twoQueues)
	for _, n := range []New{
		{Queue: "emails", Task: "a", Version: "1"}, {Queue: "emails", Task: "a", Version: "2"}, {Queue: "emails", Task: "b"}, {Queue: "reports", Task: "a"},
	} {
		n.Payload = []byte("null")
		create(t, s, n)
	}
	got := claim(t, s, Want{Queues: []string{"emails"}, Tasks: []lane.Task{{Name: "a", Version: "2"}, {Name: "b"}}})
	var seen []string
	for _, c := range got {
		seen = append(seen, c.Job.Queue+" "+c.Job.Task+"@"+c.Job.Version)
	}
	if diff := cmp.Diff([]string{"emails a@2", "emails b@1"}, seen); diff != "" {
		t.Error(diff)
	}
	if got := s.Totals().Claimed; got != 2 {
		t.Errorf("%d claimed jobs were counted", got)
	}
}

func TestClaimsAreBoundedInBytes(t *testing.T) {
	s := stored(t, twoQueues)
	payload := []byte(`"` + strings.Repeat("x", MaxPayload-2) + `"`)
	for range MaxAnswer/MaxPayload + 1 {
		create(t, s, New{Queue: "emails", Task: "t", Payload: payload})
	}
	if got := claim(t, s, Want{Queues: []string{"emails"}}); len(got) != MaxAnswer/MaxPayload {
		t.Errorf("%d jobs of 1 MiB came in one answer", len(got))
	}
	if got := claim(t, s, Want{Queues: []string{"emails"}}); len(got) != 1 {
		t.Errorf("%d jobs are left for the next", len(got))
	}
}

func TestAnswersStandWhereTheirReportsDo(t *testing.T) {
	s := stored(t, twoQueues)
	for range 4 {
		create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("null")})
	}
	got := claim(t, s, Want{Queues: []string{"emails"}})
	reports := []store.Report{
		{Type: store.Complete, Lease: got[0].Lease, Result: []byte("{")},
		{Type: store.Start, Lease: got[0].Lease},
		{Type: "stop", Lease: got[1].Lease},
		{Type: store.Complete, Lease: got[1].Lease, Result: []byte(`{"a":1,"b":2}`)},
		{Type: store.Heartbeat, Lease: "lse_garbage"},
		{Type: store.Fail, Lease: got[2].Lease, Error: &job.Error{Type: "E", Message: "m\x00"}, Failure: job.Failure{RetryIn: new(time.Minute)}},
		{Type: store.Release, Lease: got[3].Lease},
	}
	want := []Answer{
		{Answer: store.Answer{Status: Invalid}},
		{Answer: store.Answer{Status: store.ReportTaken, JobStatus: job.Running}},
		{Answer: store.Answer{Status: Invalid}},
		{Answer: store.Answer{Status: store.ReportTaken, JobStatus: job.Succeeded}},
		{Answer: store.Answer{Status: store.LeaseLost}},
		{Answer: store.Answer{Status: store.ReportTaken, JobStatus: job.Queued}},
		{Answer: store.Answer{Status: store.ReportTaken, JobStatus: job.Queued}},
	}
	check := func(answers []Answer) {
		t.Helper()
		for i, a := range answers {
			if a.Status != want[i].Status || a.JobStatus != want[i].JobStatus || (a.Status == Invalid) != (a.Detail != "") {
				t.Errorf("report %d is answered %+v, not %+v", i, a, want[i])
			}
		}
	}
	first := report(t, s, reports...)
	check(first)
	// Asked again, in another form of the same: the endings get their answers.
	reports[3].Result = []byte(`{"b":2, "a":1}`)
	second := report(t, s, reports...)
	check(second)
	if !first[5].RunAt.Equal(second[5].RunAt) {
		t.Errorf("the repeat says it runs at %v, not at %v", second[5].RunAt, first[5].RunAt)
	}
	reports[3].Result = []byte(`{"a":2,"b":1}`)
	if got := report(t, s, reports[3])[0].Status; got != store.LeaseLost {
		t.Errorf("another ending of an ended lease is answered %s", got)
	}

	failed, err := s.Job(t.Context(), got[2].Job.ID)
	if err != nil {
		t.Fatal(err)
	}
	a := failed.Attempts[0]
	if a.Error == nil || a.Error.Message != "m\uFFFD" || !strings.Contains(a.Note, "no text") {
		t.Errorf("the error was kept as %+v with the note %q", a.Error, a.Note)
	}
}

func TestLogLinesAreCleaned(t *testing.T) {
	s := stored(t, twoQueues)
	made := create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("null")})
	lease := claim(t, s, Want{Queues: []string{"emails"}})[0].Lease
	lines := []job.LogLine{{Seq: 1, Message: "fine"}, {Seq: 2, Message: "a\x00b"}, {Seq: 3, Message: strings.Repeat("x", job.MaxLogMessage+1)}}
	before := append([]job.LogLine(nil), lines...)
	if got := report(t, s, store.Report{Type: store.AddLog, Lease: lease, Lines: lines})[0]; got.Status != store.ReportTaken {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff(before, lines); diff != "" {
		t.Errorf("the caller's lines were changed: %s", diff)
	}
	log, err := s.Logs(t.Context(), made.ID, 1)
	if err != nil || len(log.Lines) != 3 {
		t.Fatalf("%+v, %v", log, err)
	}
	if log.Lines[1].Message != "a\uFFFDb" || len(log.Lines[2].Message) > job.MaxLogMessage {
		t.Errorf("kept %q and %d bytes", log.Lines[1].Message, len(log.Lines[2].Message))
	}
}

func TestRunRecoversALostWorker(t *testing.T) {
	s := stored(t, Config{Queues: map[string]Queue{"q": {Lease: MinLease}}})
	create(t, s, New{Queue: "q", Task: "t", Payload: []byte("null")})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	first := claim(t, s, Want{Queues: []string{"q"}})[0]
	report(t, s, store.Report{Type: store.Start, Lease: first.Lease})
	// Nobody reports any more. The next claim waits until the sweep gives it the
	// job of the lost worker.
	second := claim(t, s, Want{Worker: "worker-2", Queues: []string{"q"}, Wait: MaxClaimWait})
	if len(second) != 1 || second[0].Job.Attempt != 2 || second[0].Job.Counts.Lost != 1 {
		t.Fatalf("claimed %+v", second)
	}
	if got := report(t, s, store.Report{Type: store.Complete, Lease: first.Lease})[0].Status; got != store.LeaseLost {
		t.Errorf("the lost worker's report is answered %s", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := s.Totals().Lost; got != 1 {
		t.Errorf("%d lost attempts were counted", got)
	}
}

func TestAwaitEndAndList(t *testing.T) {
	s := stored(t, twoQueues)
	made := create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("null")})
	lease := claim(t, s, Want{Queues: []string{"emails"}})[0].Lease
	ended := make(chan error, 1)
	go func() { ended <- s.AwaitEnd(t.Context(), made.ID) }()
	report(t, s, store.Report{Type: store.Complete, Lease: lease})
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	page, err := s.List(t.Context(), store.Filter{Status: job.Succeeded, Limit: 10})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != made.ID {
		t.Errorf("listed %+v, %v", page, err)
	}
}
