// These tests would catch a job that reads otherwise than it is (a status of one
// moment with the attempts of another), a reader that stays broken, and waits
// for an end that are not woken.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

const testWorker = "worker-1"

func newJob(queue string) store.NewJob {
	return store.NewJob{
		Queue: queue, Task: "mail", Version: "1", Policy: job.Resolve(), Timeout: 5 * time.Minute,
		Content: job.Content{Payload: []byte(`{"n":1}`)},
	}
}

// put creates jobs and returns their ids.
func put(t *testing.T, s *Store, jobs ...store.NewJob) []string {
	t.Helper()
	made, err := s.Create(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(made))
	for i, m := range made {
		ids[i] = m.ID
	}
	return ids
}

// take claims up to n jobs of a queue.
func take(t *testing.T, s *Store, queue string, n int) []store.Claimed {
	t.Helper()
	c, err := s.Claim(t.Context(), store.Want{
		Worker: testWorker, Queues: []store.QueueLease{{Queue: queue, Lease: 30 * time.Second}}, Max: n, MaxBytes: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.Jobs
}

// say reports, and fails the test where a report is not taken.
func say(t *testing.T, s *Store, reports ...store.Report) {
	t.Helper()
	answers, err := s.Report(t.Context(), reports)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Status != store.ReportTaken {
			t.Fatalf("report %d (%s): %s", i, reports[i].Type, a.Status)
		}
	}
}

// finish creates a job, claims it and ends it.
func finish(t *testing.T, s *Store, j store.NewJob, r store.Report) string {
	t.Helper()
	id := put(t, s, j)[0]
	got := take(t, s, j.Queue, 1)
	if len(got) != 1 || got[0].Job.ID != id {
		t.Fatalf("claimed %v, want %s", got, id)
	}
	r.Lease = got[0].Lease
	say(t, s, r)
	return id
}

var (
	succeed = store.Report{Type: store.Complete, Result: []byte(`"done"`), Hash: [32]byte{1}}
	giveUp  = store.Report{Type: store.Fail, Error: &job.Error{Type: "E", Message: "bad"}, Failure: job.Failure{Permanent: true}, Hash: [32]byte{2}}
	again   = store.Report{Type: store.Fail, Error: &job.Error{Type: "E", Message: "try"}, Failure: job.Failure{RetryIn: new(time.Duration(0))}, Hash: [32]byte{3}}
)

func TestJobOverItsLife(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	n := newJob("emails")
	n.Endpoint, n.Priority, n.Tags, n.Trace = "mailer", 7, []string{"a", "b"}, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	n.Content.Head = []byte{1, 2, 3}
	n.Policy = job.Resolve(job.Said{Level: job.LevelJob, Overlay: job.Overlay{MaxAttempts: new(3), Jitter: new(0.5)}})
	n.Delay = time.Second
	id := put(t, s, n)[0]
	born := s.Now()

	get := func() *job.Job {
		t.Helper()
		j, err := s.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := get()
	if j.ID != id || j.Queue != "emails" || j.Task != "mail" || j.Version != "1" || j.Endpoint != "mailer" || j.Priority != 7 ||
		string(j.Content.Payload) != `{"n":1}` || string(j.Content.Head) != "\x01\x02\x03" || !slices.Equal(j.Tags, n.Tags) || j.Trace != n.Trace ||
		j.Policy != n.Policy || j.Timeout != n.Timeout || !j.CreatedAt.Equal(born) || !j.RunAt.Equal(born.Add(time.Second)) {
		t.Errorf("what was created reads as %+v", j)
	}
	if j.Status != job.Queued || j.Attempt != 0 || len(j.Attempts) != 0 || !j.FinishedAt.IsZero() || j.LastError != nil {
		t.Errorf("a new job reads as %+v", j)
	}

	h.step(2 * time.Second)
	got := take(t, s, "emails", 1)[0]
	j = get()
	if j.Status != job.Running || j.Attempt != 1 || len(j.Attempts) != 1 || j.Attempts[0].Worker != testWorker || j.Attempts[0].Outcome != "" ||
		!j.Attempts[0].StartedAt.Equal(s.Now()) || !j.RunAt.Equal(born.Add(time.Second)) {
		t.Errorf("a running job reads as %+v", j)
	}
	h.step(time.Second)
	started := s.Now()
	fail := again
	fail.Lease, fail.Failure.RetryIn, fail.Note = got.Lease, new(time.Minute), "cleaned"
	say(t, s, store.Report{Type: store.Start, Lease: got.Lease}, fail)
	j = get()
	due := s.Now().Add(time.Minute)
	if j.Status != job.Queued || j.Attempt != 1 || j.Counts.Charged != 1 || !j.RunAt.Equal(due) || j.LastError == nil || j.LastError.Message != "try" {
		t.Errorf("a job to be retried reads as %+v, last error %+v", j, j.LastError)
	}
	if a := j.Attempts[0]; !a.StartedAt.Equal(started) || !a.EndedAt.Equal(s.Now()) || a.Outcome != job.OutcomeFailed || !a.Charged ||
		!a.NextRunAt.Equal(due) || a.Error.Message != "try" || !strings.Contains(a.Note, "cleaned") {
		t.Errorf("its attempt reads as %+v", a)
	}

	h.step(time.Minute)
	got = take(t, s, "emails", 1)[0]
	if e := got.Job.LastError; e == nil || e.Message != "try" {
		t.Errorf("claimed again its last error is %+v", e)
	}
	if j = get(); j.Status != job.Running || j.Attempt != 2 || !j.RunAt.Equal(due) || j.LastError == nil {
		t.Errorf("running again it reads as %+v", j)
	}
	done := succeed
	done.Lease = got.Lease
	say(t, s, done)
	j = get()
	if j.Status != job.Succeeded || j.Attempt != 2 || j.Counts.Charged != 2 || string(j.Result) != `"done"` || !j.FinishedAt.Equal(s.Now()) ||
		j.Reason != "" || !j.RunAt.Equal(due) || len(j.Attempts) != 2 || j.LastError == nil || j.LastError.Message != "try" {
		t.Errorf("a succeeded job reads as %+v", j)
	}
	page, err := s.List(t.Context(), store.Filter{Limit: 1})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatal(page, err)
	}
	want := *j
	want.Attempts = nil
	if listed := page.Jobs[0]; fmt.Sprintf("%+v", *listed) != fmt.Sprintf("%+v", want) && listed.LastError.Message != want.LastError.Message {
		t.Errorf("listed as %+v\nwant      %+v", listed, want)
	}

	dead := finish(t, s, newJob("emails"), giveUp)
	if j, err := s.Job(t.Context(), dead); err != nil || j.Status != job.Failed || j.Reason != job.ReasonNonRetryable || j.LastError.Message != "bad" || !j.Attempts[0].NextRunAt.IsZero() {
		t.Errorf("a dead letter reads as %+v, %v", j, err)
	}
}

func TestNotFound(t *testing.T) {
	s := testStore(t, Options{})
	for _, id := range []string{"", "job_", "nonsense", s.ids.Make(at(1), 77)} {
		if _, err := s.Job(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Job(%q): %v", id, err)
		}
		if _, err := s.Logs(t.Context(), id, 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Logs(%q): %v", id, err)
		}
		if err := s.AwaitEnd(t.Context(), id); err != nil {
			t.Errorf("AwaitEnd(%q) of a job that is gone: %v", id, err)
		}
	}
	id := put(t, s, newJob("q"))[0]
	if _, err := s.Logs(t.Context(), id, 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("logs of an attempt that was not: %v", err)
	}
}

func TestLogs(t *testing.T) {
	s := testStore(t, Options{})
	id := put(t, s, newJob("q"))[0]
	lease := take(t, s, "q", 1)[0].Lease
	line := func(n int64, text string) job.LogLine {
		return job.LogLine{Seq: n, At: time.UnixMilli(n).UTC(), Level: "info", Message: text}
	}
	say(t, s, store.Report{Type: store.AddLog, Lease: lease, Lines: []job.LogLine{line(2, "two"), line(1, "one")}})
	check := func(when string) {
		t.Helper()
		log, err := s.Logs(t.Context(), id, 1)
		if err != nil || log.Cut || !slices.Equal(log.Lines, []job.LogLine{line(1, "one"), line(2, "two")}) {
			t.Errorf("%s: %+v, %v", when, log, err)
		}
	}
	check("while it runs")
	done := succeed
	done.Lease = lease
	say(t, s, done)
	check("after its end")
}

func TestContents(t *testing.T) {
	s := testStore(t, Options{})
	var ids []string
	for i := range 2*contentChunk + 1 {
		n := newJob("q")
		n.Content.Payload = fmt.Appendf(nil, "%d", i)
		ids = append(ids, put(t, s, n)...)
	}
	var jobs []*readJob
	for _, id := range ids {
		seq, _, _ := s.ids.Parse(id)
		jobs = append(jobs, &readJob{seq: seq, job: new(job.Job)})
	}
	for _, text := range []string{sqlContents, sqlContentsErrors} {
		if err := s.readContents(t.Context(), text, jobs); err != nil {
			t.Fatal(err)
		}
		for i, j := range jobs {
			if j.job.ID != ids[i] || string(j.job.Content.Payload) != fmt.Sprint(i) {
				t.Errorf("job %d reads as %+v", i, j)
			}
			j.job, j.read = new(job.Job), false
		}
	}
	if err := s.readContents(t.Context(), sqlContents, append(jobs, &readJob{seq: 1 << 40, job: new(job.Job)})); !errors.Is(err, ErrDamaged) {
		t.Errorf("a job without a row: %v", err)
	}
}

func TestCounts(t *testing.T) {
	s := testStore(t, Options{})
	finish(t, s, newJob("q"), succeed)
	finish(t, s, newJob("q"), giveUp)
	put(t, s, newJob("q"), newJob("q"), newJob("r"))
	take(t, s, "q", 1)
	counts, err := s.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []store.LaneCount{
		{Lane: lane.Key{Queue: "q", Task: "mail", Version: "1"}, Ready: 1, Running: 1, Succeeded: 1, Failed: 1},
		{Lane: lane.Key{Queue: "r", Task: "mail", Version: "1"}, Ready: 1},
	}
	if !slices.Equal(counts, want) {
		t.Errorf("%+v, want %+v", counts, want)
	}
}

func TestCountsInChunks(t *testing.T) {
	s := testStore(t, Options{})
	const n = countsChunk + 1
	if err := s.writer.submit(t.Context(), 0, func(x *tx) error {
		if _, err := x.exec(`WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
			INSERT INTO lane (lane, queue, task, version, endpoint, priority, kind) SELECT n, 'q', 't', '1', 'e' || n, 0, '' FROM n`, n); err != nil {
			return err
		}
		_, err := x.exec("INSERT INTO tally (lane, ready, running, succeeded, failed, cancelled) SELECT lane, lane, 0, 0, 0, 0 FROM lane")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	counts, err := s.Counts(t.Context())
	if err != nil || len(counts) != n || counts[n-1].Ready != n {
		t.Errorf("%d lanes, %v; want %d", len(counts), err, n)
	}
}

func TestAwaitEnd(t *testing.T) {
	s := testStore(t, Options{})
	id := put(t, s, newJob("q"))[0]
	lease := take(t, s, "q", 1)[0].Lease

	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { gaveUp <- s.AwaitEnd(ctx, id) }()
	waiting := make(chan error, 2)
	for range 2 {
		go func() { waiting <- s.AwaitEnd(t.Context(), id) }()
	}
	until(t, func() bool { return s.watch.waiting.Load() == 3 })
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("with its context ended: %v", err)
	}
	select {
	case err := <-waiting:
		t.Fatalf("it ended before the job: %v", err)
	default:
	}
	done := succeed
	done.Lease = lease
	say(t, s, done)
	for range 2 {
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	}
	if err := s.AwaitEnd(t.Context(), id); err != nil {
		t.Errorf("of a finished job: %v", err)
	}

	id = put(t, s, newJob("q"))[0]
	go func() { waiting <- s.AwaitEnd(t.Context(), id) }()
	until(t, func() bool { return s.watch.waiting.Load() == 1 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, store.ErrClosed) {
		t.Errorf("at the store's end: %v", err)
	}
	if len(s.watch.jobs) != 0 {
		t.Errorf("%d jobs are still watched", len(s.watch.jobs))
	}
}

// until waits for something that another goroutine does.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		if t.Context().Err() != nil {
			t.Fatal("it never came")
		}
		time.Sleep(time.Millisecond)
	}
}

// A reader that fails is replaced by a new one.
func TestReaderIsReplaced(t *testing.T) {
	s := testStore(t, Options{})
	for range 2 * readerCount {
		err := s.readers.use(t.Context(), func(c *conn) error {
			_, err := c.one("SELECT nothing FROM nowhere", func(*row) error { return nil })
			return err
		})
		if err == nil {
			t.Fatal("no error")
		}
	}
	put(t, s, newJob("q"))
	for range readerCount {
		if got, _ := all(t, s, store.Filter{Limit: 1}); len(got) != 1 {
			t.Fatal(got)
		}
	}
}
