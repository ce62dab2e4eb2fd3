package httpapi

// What these tests would catch: a member of a request that does not reach the
// job; a repeat that makes a second job, or is answered as if it had; a job that
// can't be found again, or by whom it should not; a filter that is ignored; a
// wait that does not end when the job does.

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

func TestAJobIsWhatWasAskedFor(t *testing.T) {
	r := newRig(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	a := r.call("produce", "POST", "/v3/jobs", `{"queue":"emails","task":"send","version":"2","endpoint":"mailer","payload": {"b": 1.0, "a":[]} ,
		"priority":-5,"delay":"1h","timeout":"2m","tags":["x","y"],"retry":{"max_attempts":3,"initial":"1s","max_delay":"5s","jitter":0}}`, "Traceparent", trace)
	made := is[Job](a, 201)
	if at := "/v3/jobs/" + made.ID; a.header.Get("Location") != at {
		t.Errorf("Location is %q, not %q", a.header.Get("Location"), at)
	}
	created, _ := time.Parse(time.RFC3339, string(made.CreatedAt))
	if wantRun := wireTime(created.Add(time.Hour)); made.RunAt != wantRun {
		t.Errorf("due at %s, not %s", made.RunAt, wantRun)
	}
	want := Job{
		ID: made.ID, CreatedAt: made.CreatedAt, RunAt: made.RunAt, Queue: "emails", Task: "send", Version: "2", Endpoint: new("mailer"),
		Status: job.Queued, Priority: -5, Payload: Value(`{"b": 1.0, "a":[]}`), Tags: []string{"x", "y"}, Traceparent: new(trace), Timeout: "2m",
		Retry:     Policy{MaxAttempts: 3, Initial: "1s", Factor: 3, MaxDelay: "5s", Jitter: 0},
		RetryFrom: PolicyFrom{job.LevelJob, job.LevelJob, job.LevelQueue, job.LevelJob, job.LevelJob},
		Repeat:    job.RepeatSafe, Result: Value("null"),
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want.Attempts = []Attempt{}
	if diff := cmp.Diff(want, r.fetch(made.ID)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if at := r.make(`{"queue":"reports","task":"t","payload":null,"run_at":"2027-01-01T00:00:00.5+02:00"}`).RunAt; at != "2026-12-31T22:00:00.500Z" {
		t.Errorf("due at %s", at)
	}
}

func TestARepeatFindsTheJob(t *testing.T) {
	r := newRig(t)
	first := r.make(aJob, KeyHeader, "k-1")
	// The same, written otherwise.
	same := `{"task":"send","payload" : { "user_id":7 },"queue":"emails"}`
	again := r.call("produce", "POST", "/v3/jobs", same, KeyHeader, "k-1")
	if got := is[Job](again, 200); got.ID != first.ID || again.header.Get("Location") != "/v3/jobs/"+first.ID {
		t.Errorf("%+v", got)
	}
	r.take()
	if got := is[Job](r.call("produce", "POST", "/v3/jobs", aJob, KeyHeader, "k-1"), 200); got.Status != job.Running {
		t.Errorf("the job is told as %s, not as it is", got.Status)
	}
	other := strings.Replace(aJob, "7", "8", 1)
	d := r.call("produce", "POST", "/v3/jobs", other, KeyHeader, "k-1").fails(problem.Conflict)
	if d.Job != first.ID || !strings.Contains(d.Detail, `"k-1"`) {
		t.Errorf("%+v", d)
	}
	if r.make(aJob).ID == r.make(aJob).ID {
		t.Error("two jobs without a key are one")
	}
}

func TestABatchIsAllOrNone(t *testing.T) {
	r := newRig(t)
	item := func(key string, user int) string {
		return fmt.Sprintf(`{"queue":"emails","task":"send","payload":%d,"idempotency_key":%q}`, user, key)
	}
	batch := func(items ...string) answer {
		return r.call("produce", "POST", "/v3/jobs/batch", `{"jobs":[`+strings.Join(items, ",")+`]}`)
	}
	first := is[BatchAnswer](batch(item("a", 1), item("b", 2), aJob, item("a", 1)), 201).Jobs
	if first[0].Found || first[1].Found || first[2].Found || !first[3].Found || first[3].ID != first[0].ID {
		t.Errorf("%+v", first)
	}
	again := is[BatchAnswer](batch(item("b", 2), item("a", 1)), 200).Jobs
	if diff := cmp.Diff([]BatchJob{{first[1].ID, true}, {first[0].ID, true}}, again); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d := batch(item("new", 5), item("b", 3)).fails(problem.Conflict)
	if d.faults(t, "/jobs/1/idempotency_key", "was used for another request"); d.Job != first[1].ID {
		t.Errorf("%+v", d)
	}
	d = batch(item("new", 5), aJob, item("new", 6)).fails(problem.Conflict)
	d.faults(t, "/jobs/2/idempotency_key", "is that of /jobs/0 too, which is another request")
	if want := `two jobs of the batch, /jobs/0 and /jobs/2, have the idempotency key "new" and differ; each job needs its own key`; d.Detail != want || d.Job != "" {
		t.Errorf("%+v, want %q", d, want)
	}
	batch(item("new", 5), strings.Replace(aJob, "emails", "emials", 1), `{"queue":"emails","payload":1}`).fails(problem.Invalid).faults(t,
		"/jobs/1/queue", `unknown queue "emials"; did you mean "emails"?`, "/jobs/2/task", "is missing")
	if left := is[Jobs](r.call("operate", "GET", "/v3/jobs", ""), 200); len(left.Jobs) != 3 {
		t.Errorf("%d jobs are there, not the three of the first batch", len(left.Jobs))
	}
	r.call("produce", "POST", "/v3/jobs/batch", `{"jobs":[]}`).fails(problem.Invalid).faults(t, "/jobs", "must hold from 1 to 1000 jobs, not 0")
	r.call("produce", "POST", "/v3/jobs/batch", `{}`).fails(problem.Invalid).faults(t, "/jobs", "must hold from 1 to 1000 jobs, not 0")
	r.call("produce", "POST", "/v3/jobs/batch", `{"jobs":[`+aJob+`]}`, KeyHeader, "k").fails(problem.Invalid).faults(t,
		KeyHeader, "is for single jobs; the jobs of a batch may each have an idempotency_key")
}

func TestAListIsWhatTheFilterSays(t *testing.T) {
	r := newRig(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, r.make(fmt.Sprintf(`{"queue":"emails","task":"send","endpoint":"mailer","payload":%d,"tags":["n%d"]}`, i, i)).ID)
	}
	other := r.make(`{"queue":"reports","task":"build","payload":5}`)
	list := func(query string) (found []string, next *string) {
		t.Helper()
		page := is[Jobs](r.call("operate", "GET", "/v3/jobs?"+query, ""), 200)
		for _, j := range page.Jobs {
			found = append(found, j.ID)
			if j.Attempts != nil {
				t.Errorf("a list tells attempts")
			}
		}
		return found, page.NextCursor
	}
	for query, want := range map[string][]string{
		"": {other.ID, ids[4], ids[3], ids[2], ids[1], ids[0]}, "queue=reports": {other.ID}, "task=build&queue=emails": nil,
		"endpoint=mailer&tag=n3": {ids[3]}, "status=running": nil, "dead_letter=true": nil, "reason=lost": nil, "status=queued&task=build": {other.ID},
		"created_after=2100-01-01T00:00:00Z": nil, "created_before=2100-01-01T00:00:00Z&tag=n0": {ids[0]},
	} {
		got, next := list(query)
		if diff := cmp.Diff(want, got); diff != "" || next != nil {
			t.Errorf("%s, next %v (-want +got):\n%s", query, next, diff)
		}
	}
	var walked []string
	query := "limit=2&queue=emails"
	for {
		found, next := list(query)
		walked = append(walked, found...)
		if next == nil {
			break
		}
		query = "limit=2&queue=emails&cursor=" + url.QueryEscape(*next)
	}
	if diff := cmp.Diff([]string{ids[4], ids[3], ids[2], ids[1], ids[0]}, walked); diff != "" {
		t.Errorf("page by page (-want +got):\n%s", diff)
	}
	for _, path := range []string{"/v3/jobs?cursor=junk", "/v3/queues?cursor=a%20b", "/v3/tasks?cursor=a@", "/v3/endpoints?cursor=%2F", "/v3/replays?cursor=rpl_none"} {
		r.call("operate", "GET", path, "").fails(problem.Invalid).faults(t, "cursor", "is none that this list gave out; begin without one")
	}
	r.call("operate", "GET", "/v3/jobs?status=faild", "").fails(problem.Invalid).faults(t, "status", `is the unknown "faild"; did you mean failed?`)
	r.call("operate", "GET", "/v3/jobs?status=done&statsu=queued&limit=501&limit=2&queue=a/b&task=&created_after=now&reason=x&dead_letter=no&zzzzzzzz=1", "").
		fails(problem.Invalid).faults(t,
		"limit", "is there 2 times; say it once",
		"statsu", "unknown; did you mean status?",
		"zzzzzzzz", "unknown; known are queue, task, endpoint, status, dead_letter, reason, tag, created_after, created_before, limit, cursor",
		"queue", "is no name: up to 128 of A-Z, a-z, 0-9 and . _ : -",
		"task", "is empty; leave it out",
		"status", "must be one of queued, running, succeeded, failed, cancelled",
		"reason", "must be one of exhausted, non_retryable, output_schema, lost, uncertain",
		"created_after", "must be a time in RFC 3339 such as 2026-12-01T03:00:00Z (a + in a query is %2B)",
		"limit", "must be a number from 1 to 500",
		"dead_letter", "must be true or false; leave it out for every job")
	r.call("operate", "GET", "/v3/jobs?dead_letter=false&reason=lost", "").fails(problem.Invalid).faults(t, "dead_letter", "a job with a reason is a dead letter")
	r.call("operate", "GET", "/v3/jobs?dead_letter=true&status=queued", "").fails(problem.Invalid).faults(t, "dead_letter", "a job that is queued is no dead letter")
}

func TestAGetWaitsForTheEnd(t *testing.T) {
	r := newRig(t)
	made := r.make(aJob)
	lease := r.take().Lease
	begun := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		close(begun)
		got := is[Job](r.call("produce", "GET", "/v3/jobs/"+made.ID+"?wait=60s", ""), 200)
		if got.Status != job.Succeeded || compact(t, got.Result) != `{"n":1}` || len(got.Attempts) != 1 {
			t.Errorf("%+v", got)
		}
	})
	<-begun
	if got := is[Job](r.call("produce", "GET", "/v3/jobs/"+made.ID+"?wait=1ms", ""), 200); got.Status != job.Running {
		t.Errorf("%+v", got)
	}
	r.report(`{"lease":"` + lease + `","type":"complete","result":{"n":1}}`)
	wg.Wait()
	if got := is[Job](r.call("produce", "GET", "/v3/jobs/"+made.ID+"?wait=60s", ""), 200); got.Status != job.Succeeded {
		t.Error("a wait for a finished job does not return")
	}
	r.call("produce", "GET", "/v3/jobs/"+made.ID+"?wait=61s", "").fails(problem.Invalid).faults(t, "wait", "must be a duration from 0s to 1m, such as 30s")
	for _, id := range []string{"job_0", made.ID + "0", strings.ToUpper(made.ID), strings.Repeat("j", 5000)} {
		if d := r.call("produce", "GET", "/v3/jobs/"+id+"?wait=60s", "").fails(problem.NotFound); len(d.Detail) > 200 {
			t.Error("a long id is told in full")
		}
	}
}

// TestAStopEndsTheWaits stops the server: what waits is answered with what there
// is, and a wait that would begin then is told when to come back, so that nobody
// asks again and again.
func TestAStopEndsTheWaits(t *testing.T) {
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	watched := make(chan struct{}, 1)
	r := rigOn(t, s, &watching{s, watched})
	made := r.make(`{"queue":"reports","task":"t","payload":"` + strings.Repeat("x", 2*small) + `","delay":"1h"}`)
	const (
		claim = `{"worker":"worker-1","queues":["reports"],"wait":"60s"}`
		brief = `{"worker":"worker-1","queues":["reports"],"wait":"0s"}`
	)
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := is[Job](r.call("produce", "GET", "/v3/jobs/"+made.ID+"?wait=60s", ""), 200); got.Status != job.Queued {
			t.Errorf("%+v", got)
		}
	})
	wg.Go(func() {
		if got := r.claim(claim); len(got.Jobs) != 0 || got.Now == "" {
			t.Errorf("%+v", got)
		}
	})
	<-watched
	r.until("who waits holds no room", func() bool { return r.memory.all.Held() == 0 })
	r.until("the claim waits", func() bool { return s.Vitals().Parked == 1 })
	r.stop()
	wg.Wait()
	for name, a := range map[string]answer{
		"a claim":                r.call("work", "POST", "/v3/claims", claim),
		"a claim without a wait": r.call("work", "POST", "/v3/claims", brief),
		"a wait for a job":       r.call("produce", "GET", "/v3/jobs/"+made.ID+"?wait=60s", ""),
	} {
		if d := a.fails(problem.Unavailable); a.header.Get("Retry-After") != "2" || !strings.Contains(d.Detail, "stopping") {
			t.Errorf("%s: Retry-After %q, %s", name, a.header.Get("Retry-After"), d.Detail)
		}
	}
	if got := r.fetch(made.ID); got.Status != job.Queued {
		t.Errorf("%+v", got)
	}
}

// watching is a store that tells when somebody waits for a job's end.
type watching struct {
	*sqlite.Store
	watched chan struct{}
}

func (w *watching) AwaitEnd(ctx context.Context, id string) error {
	w.watched <- struct{}{}
	return w.Store.AwaitEnd(ctx, id)
}

func TestAKeyOfAQueueSeesNoOther(t *testing.T) {
	r := newRig(t)
	mail, report := r.make(aJob), r.make(`{"queue":"reports","task":"build","payload":5}`)
	for _, key := range []string{"mail", "mail-two"} {
		if d := r.call(key, "POST", "/v3/jobs", `{"queue":"reports","task":"build","payload":5}`).fails(problem.Forbidden); !strings.Contains(d.Detail, `"reports" is not among them`) {
			t.Error(d.Detail)
		}
		r.call(key, "POST", "/v3/jobs/batch", `{"jobs":[`+aJob+`,{"queue":"reports","task":"build","payload":5}]}`).fails(problem.Forbidden)
		r.call(key, "POST", "/v3/claims", `{"worker":"worker-1","queues":["emails","reports"]}`).fails(problem.Forbidden)
		r.call(key, "GET", "/v3/jobs?queue=reports", "").fails(problem.Forbidden)
		r.call(key, "GET", "/v3/jobs/"+report.ID, "").fails(problem.NotFound)
		r.call(key, "GET", "/v3/jobs/"+report.ID+"/attempts/1/logs", "").fails(problem.NotFound)
		r.call(key, "POST", "/v3/queues/reports/pause", "").fails(problem.Forbidden)
		r.call(key, "POST", "/v3/endpoints/mailer/pause", "").fails(problem.Forbidden)
		is[Job](r.call(key, "GET", "/v3/jobs/"+mail.ID, ""), 200)
		is[Gate](r.call(key, "POST", "/v3/queues/emails/resume", ""), 200)
		if page := is[Jobs](r.call(key, "GET", "/v3/jobs", ""), 200); len(page.Jobs) != 1 || page.Jobs[0].ID != mail.ID {
			t.Errorf("%s lists %+v", key, page)
		}
		if all := is[Queues](r.call(key, "GET", "/v3/queues", ""), 200); len(all.Queues) != 1 || all.Queues[0].Name != "emails" {
			t.Errorf("%s lists %+v", key, all)
		}
	}
	if page := is[Jobs](r.call("admin", "GET", "/v3/jobs", ""), 200); len(page.Jobs) != 2 {
		t.Errorf("%+v", page)
	}
	if got := is[Claim](r.call("mail", "POST", "/v3/claims", `{"worker":"worker-1","queues":["emails"],"max":5}`), 200); len(got.Jobs) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestQueuesAreListedAndPaused(t *testing.T) {
	r := newRig(t)
	r.make(aJob)
	r.make(aJob)
	r.take()
	want := []Queue{
		{Name: "emails", Managed: Managed{ManagedBy: new("file")}, Lease: new(Duration("10s")), Timeout: new(Duration("1m")), Retry: Retry{Factor: new(3.0)}, Counts: Counts{Queued: 1, Running: 1}},
		{Name: "reports", Managed: Managed{ManagedBy: new("file")}, Lease: new(Duration("30s")), Timeout: new(Duration("5m"))},
	}
	a := r.call("operate", "GET", "/v3/queues", "")
	if diff := cmp.Diff(want, is[Queues](a, 200).Queues); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	paused := is[Gate](r.call("operate", "POST", "/v3/queues/emails/pause", ""), 200)
	if paused.Name != "emails" || paused.Paused == nil || paused.Paused.By != "operate" {
		t.Errorf("%+v", paused)
	}
	if again := is[Gate](r.call("admin", "POST", "/v3/queues/emails/pause", "{}"), 200); *again.Paused != *paused.Paused {
		t.Errorf("%+v, not as it was before", again)
	}
	if got := r.claim(`{"worker":"worker-1","queues":["emails"],"wait":"0s"}`); len(got.Jobs) != 0 {
		t.Error("a paused queue gives jobs")
	}
	if all := is[Queues](r.call("operate", "GET", "/v3/queues", ""), 200).Queues; all[0].Paused == nil || *all[0].Paused != *paused.Paused || all[1].Paused != nil {
		t.Errorf("%+v", all)
	}
	if resumed := is[Gate](r.call("operate", "POST", "/v3/queues/emails/resume", ""), 200); resumed.Paused != nil {
		t.Errorf("%+v", resumed)
	}
	r.take()
	if d := r.call("operate", "POST", "/v3/queues/emials/pause", "").fails(problem.NotFound); !strings.Contains(d.Detail, `did you mean "emails"?`) {
		t.Error(d.Detail)
	}
	r.call("operate", "POST", "/v3/queues/emails/pause", `{"by":"me"}`).fails(problem.Invalid).faults(t, "/by", "unknown member; none is known here")
	r.make(`{"queue":"emails","task":"send","endpoint":"mailer","payload":1}`)
	if gate := is[Gate](r.call("operate", "POST", "/v3/endpoints/mailer/pause", ""), 200); gate.Name != "mailer" || gate.Paused == nil {
		t.Errorf("%+v", gate)
	}
	if got := r.claim(`{"worker":"worker-1","queues":["emails"],"wait":"0s"}`); len(got.Jobs) != 0 {
		t.Error("a paused endpoint gives jobs")
	}
	is[Gate](r.call("operate", "POST", "/v3/endpoints/mailer/resume", ""), 200)
	r.take()
	r.call("operate", "POST", "/v3/endpoints/a%20b/pause", "").fails(problem.NotFound)
}

func TestAQueueThatTheConfigurationForgotIsListed(t *testing.T) {
	r := newRig(t)
	r.make(aJob)
	if err := r.server.Configure(jobserverConfig("reports")); err != nil {
		t.Fatal(err)
	}
	all := is[Queues](r.call("operate", "GET", "/v3/queues", ""), 200).Queues
	if len(all) != 2 || all[0].Name != "emails" || all[0].ManagedBy != nil || all[0].Lease != nil || all[0].Counts.Queued != 1 {
		t.Errorf("%+v", all)
	}
	is[Gate](r.call("operate", "POST", "/v3/queues/emails/pause", ""), 200)
}

func TestACallerThatIsGoneTakesNothing(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.tryClaim(ctx)
	}()
	for r.store.Vitals().Parked == 0 {
		time.Sleep(time.Millisecond) // the claim is not waiting yet
	}
	cancel()
	<-gone
	for r.store.Vitals().Parked > 0 {
		time.Sleep(time.Millisecond) // the server has not seen it yet
	}
	made := r.make(aJob)
	if got := r.take(); got.Job.ID != made.ID || got.Attempt != 1 {
		t.Errorf("%+v", got)
	}
}

// TestAFailedCheckIsNoDeadLetter has a store that lists a check of an endpoint among
// the failed jobs.
func TestAFailedCheckIsNoDeadLetter(t *testing.T) {
	check := barelyJob()
	check.Status, check.Kind = job.Failed, job.Synthetic
	for of, has := range map[letters]bool{everyJob: true, deadLetters: false, noLetters: true} {
		if of.passes(check) != has {
			t.Errorf("a list of %d has it: %v", of, !has)
		}
	}
	check.Reason = job.ReasonExhausted
	if !deadLetters.passes(check) || noLetters.passes(check) {
		t.Error("a dead letter is left out, or among those that are none")
	}
}

// Would catch: a trace context that is lost between a producer and its worker, or
// one that is none and is passed on.
func TestATraceGoesToTheWorker(t *testing.T) {
	r := newRig(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct {
		what                  string
		headers               http.Header
		wantParent, wantState string
	}{
		{"both", http.Header{"Traceparent": {trace}, "Tracestate": {"a=1", "b=2"}}, trace, "a=1,b=2"},
		{"no state", http.Header{"Traceparent": {trace}}, trace, ""},
		{"two", http.Header{"Traceparent": {trace, trace}}, "", ""},
		{"none of the kind", http.Header{"Traceparent": {"01-x"}, "Tracestate": {"a=1"}}, "", ""},
		{"a state alone", http.Header{"Tracestate": {"a=1"}}, "", ""},
	} {
		for path, body := range map[string]string{"/v3/jobs": aJob, "/v3/jobs/batch": `{"jobs":[` + aJob + `]}`} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = c.headers.Clone()
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+r.secret["produce"])
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			got := r.take()
			for _, at := range []struct {
				parent *string
				state  string
			}{{got.Traceparent, got.Tracestate}, {got.Job.Traceparent, got.Job.Tracestate}} {
				if c.wantParent == "" && at.parent != nil || c.wantParent != "" && (at.parent == nil || *at.parent != c.wantParent) || at.state != c.wantState {
					t.Errorf("%s, %s: %v %q", path, c.what, at.parent, at.state)
				}
			}
		}
	}
}
