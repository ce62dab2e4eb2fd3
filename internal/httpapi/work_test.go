package httpapi

// What these tests would catch: a claim that is not what the worker asked for; a
// payload that comes out otherwise than it went in; a report that changes another
// job, that is lost with a bad one beside it, or whose text is refused because it
// is not clean; a wait that the listener's deadlines cut.

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

func TestAClaimIsWhatTheWorkerAskedFor(t *testing.T) {
	r := newRig(t)
	const payload = `{ "b" : 1.0e0, "a":"\u00e9\/" }`
	one := r.make(`{"queue":"emails","task":"send","version":"2","payload":` + payload + `}`)
	other := r.make(`{"queue":"emails","task":"other","payload":1}`)
	got := r.claim(`{"worker":"worker-1","queues":["reports","emails"],"tasks":["send@2","none"],"max":10}`)
	if len(got.Jobs) != 1 {
		t.Fatalf("%+v", got)
	}
	c := got.Jobs[0]
	if c.Job.ID != one.ID || string(c.Job.Payload) != payload || c.Job.Status != job.Running || c.Job.Attempt != 1 || c.Attempt != 1 || c.Job.Attempts != nil ||
		c.IdempotencyKey != one.ID || c.LeaseMS != 10_000 || !strings.HasPrefix(c.Lease, "lse_") {
		t.Errorf("%+v", c)
	}
	now, _ := time.Parse(time.RFC3339, string(got.Now))
	if c.LeaseExpiresAt != wireTime(now.Add(10*time.Second)) || c.Deadline != wireTime(now.Add(time.Minute)) {
		t.Errorf("claimed at %s, lease until %s, deadline %s", got.Now, c.LeaseExpiresAt, c.Deadline)
	}
	for _, body := range []string{
		`{"worker":"worker-1","queues":["emails"],"tasks":["other@2"],"wait":"0s"}`, `{"worker":"worker-1","queues":["reports"],"wait":"0s"}`,
		`{"worker":"worker-1","queues":["emails"],"tasks":["send"],"wait":"1ms"}`,
	} {
		if got := r.claim(body); len(got.Jobs) != 0 {
			t.Errorf("%s gets %+v", body, got)
		}
	}
	first := r.claim(`{"worker":"worker-1","queues":["emails"],"claim_id":"c-1"}`)
	again := r.claim(`{"worker":"worker-1","queues":["emails"],"claim_id":"c-1","wait":"0s"}`)
	if len(first.Jobs) != 1 || len(again.Jobs) != 1 || first.Jobs[0].Job.ID != other.ID || again.Jobs[0].Lease != first.Jobs[0].Lease {
		t.Errorf("%+v, then %+v", first, again)
	}
}

func TestOneJobIsClaimedWhereNoMaxIsSaid(t *testing.T) {
	r := newRig(t)
	r.make(aJob)
	r.make(aJob)
	if got := r.claim(`{"worker":"worker-1","queues":["emails"]}`); len(got.Jobs) != 1 {
		t.Errorf("%d jobs", len(got.Jobs))
	}
}

func TestAClaimThatSaysLittle(t *testing.T) {
	var w jobserver.Want
	found, err := wirejson.Read([]byte(`{"worker":"worker-1","queues":["emails"]}`), wirejson.Refuse, func(r *wirejson.Reader) { w = readClaim(r) })
	if err != nil || len(found.Problems) > 0 || w.Wait != 20*time.Second || w.Max != 1 || w.ClaimID != "" || w.Tasks != nil {
		t.Errorf("%+v, %v, %v", w, found, err)
	}
}

func TestAClaimTellsEverythingThatIsWrong(t *testing.T) {
	r := newRig(t)
	claim := func(body string) failure {
		t.Helper()
		return r.call("work", "POST", "/v3/claims", body).fails(problem.Invalid)
	}
	claim(`{"worker":"w","queues":["emials"],"tasks":["a b","c@d e"],"max":1,"wait":"61s","claim_id":"é\u0007"}`).faults(t,
		"/worker", "is shorter than 8 characters; it names one worker, over restarts too",
		"/claim_id", "must be UTF-8 without control characters",
		"/queues/0", `unknown queue "emials"; did you mean "emails"?`,
		"/tasks/0", "the name may hold A-Z, a-z, 0-9 and . _ : - only",
		"/tasks/1", "the version may hold A-Z, a-z, 0-9 and . _ : - only",
		"/wait", "must be from 0s to 1m, not 1m1s")
	claim(`{"queue":["emails"],"tasks":["a@"],"max":1001,"wait":20,"claim_id":""}`).faults(t,
		"/queue", `unknown member; did you mean "queues"?`,
		"/tasks/0", "has no version after @; the name alone is every version",
		"/max", "must be from 1 to 1000, not 1001",
		"/wait", `must be a duration written as text, such as "30s", not a number`,
		"/claim_id", "is empty; leave it out instead")
	claim(`{}`).faults(t, "/worker", "is missing", "/queues", "must hold from 1 to 100 queues, not 0")
}

// TestAWaitOutlastsTheListenersDeadlines has a listener whose deadlines are
// shorter than the waits.
func TestAWaitOutlastsTheListenersDeadlines(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	web := httptest.NewUnstartedServer(r.api)
	web.Config.ReadTimeout, web.Config.WriteTimeout = time.Second, time.Second
	web.Start()
	t.Cleanup(web.Close)
	r.url = web.URL
	made := r.make(`{"queue":"emails","task":"send","payload":1,"delay":"1600ms"}`)
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := is[Job](r.call("work", "GET", "/v3/jobs/"+made.ID+"?wait=1500ms", ""), 200); got.ID != made.ID {
			t.Errorf("%+v", got)
		}
	})
	if got := r.take(); got.Job.ID != made.ID {
		t.Errorf("%+v", got)
	}
	wg.Wait()
}

func TestReportsMoveTheirJobs(t *testing.T) {
	r := newRig(t)
	ids := map[string]string{}
	leases := map[string]string{}
	for _, name := range []string{"done", "fail", "fatal", "back", "beat"} {
		ids[name] = r.make(`{"queue":"emails","task":"` + name + `","payload":1}`).ID
	}
	for _, c := range r.claim(`{"worker":"worker-1","queues":["emails"],"max":10}`).Jobs {
		leases[c.Job.Task] = c.Lease
	}
	if len(leases) != 5 {
		t.Fatal(leases)
	}
	report := func(name, rest string) string { return `{"lease":"` + leases[name] + `","type":` + rest + `}` }
	got := r.report(
		report("beat", `"start"`), report("beat", `"heartbeat"`),
		report("beat", `"log","lines":[{"seq":1,"at":"2026-12-01T03:00:00Z","level":"info","message":"hello"},{"seq":2,"message":"again"}]`),
		report("done", `"complete","result": {"x" : 1.0}`),
		report("fail", `"fail","error":{"type":"HttpError","message":"503","stack":"at f"},"retry_in":"30s","retry_after":"120s"`),
		report("fatal", `"fail","error":{"message":"no"},"retryable":false`), report("back", `"release"`),
		report("beat", `"complete"`), `{"lease":"lse_garbage","type":"heartbeat"}`, `{"lease":"","type":"start"}`)
	for i, want := range []struct {
		status    string
		jobStatus job.Status
		lease     bool
		runAt     bool
	}{
		{"ok", job.Running, true, false}, {"ok", job.Running, true, false}, {"ok", job.Running, true, false}, {"ok", job.Succeeded, false, false},
		{"ok", job.Queued, false, true}, {"ok", job.Failed, false, false}, {"ok", job.Queued, false, true}, {"ok", job.Succeeded, false, false},
		{"lease_lost", "", false, false}, {"lease_lost", "", false, false},
	} {
		g := got[i]
		if g.Status != want.status || g.JobStatus != want.jobStatus || (g.LeaseExpiresAt != nil) != want.lease || (g.LeaseMS != nil) != want.lease ||
			(g.Cancel != nil) != want.lease || (g.RunAt != nil) != want.runAt || g.Detail != "" {
			t.Errorf("report %d: %+v", i, g)
		}
		if want.lease && (*g.LeaseMS < 9_000 || *g.LeaseMS > 10_000 || *g.Cancel) {
			t.Errorf("report %d: %d ms", i, *g.LeaseMS)
		}
	}
	if done := r.fetch(ids["done"]); string(done.Result) != `{"x" : 1.0}` || done.Status != job.Succeeded || done.FinishedAt == nil {
		t.Errorf("%+v", done)
	}
	failed := r.fetch(ids["fail"])
	if a := failed.Attempts[0]; failed.Status != job.Queued || *a.Outcome != "failed" || !a.Charged || *a.NextRunAt != failed.RunAt || a.DurationMS == nil {
		t.Errorf("%+v", failed)
	}
	if diff := cmp.Diff(&Error{"HttpError", "503", "at f"}, failed.LastError); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if fatal := r.fetch(ids["fatal"]); !fatal.DeadLetter || *fatal.Reason != "non_retryable" {
		t.Errorf("%+v", fatal)
	}
	if dead := is[Jobs](r.call("operate", "GET", "/v3/jobs?dead_letter=true", ""), 200); len(dead.Jobs) != 1 || dead.Jobs[0].ID != ids["fatal"] {
		t.Errorf("%+v", dead)
	}
	logs := is[Logs](r.call("produce", "GET", "/v3/jobs/"+ids["beat"]+"/attempts/1/logs", ""), 200)
	if len(logs.Lines) != 2 || logs.Cut || logs.Lines[1].At == nil {
		t.Fatalf("%+v", logs)
	}
	if diff := cmp.Diff(LogLine{1, new(Time("2026-12-01T03:00:00.000Z")), "info", "hello"}, logs.Lines[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, n := range []string{"2", "0", "-1", "x", "99999999999999999999"} {
		r.call("produce", "GET", "/v3/jobs/"+ids["beat"]+"/attempts/"+n+"/logs", "").fails(problem.NotFound)
	}
	// A settled lease: the same report gets the same answer, another does not.
	again := r.report(report("done", `"complete","result":{"x":1.0}`), report("done", `"complete","result":{"x":2}`))
	if again[0].Status != "ok" || again[0].JobStatus != job.Succeeded || again[1].Status != "lease_lost" {
		t.Errorf("%+v", again)
	}
}

func TestABadReportFailsAlone(t *testing.T) {
	r := newRig(t)
	r.make(aJob)
	lease := r.take().Lease
	with := func(rest string) string { return `{"lease":"` + lease + `",` + rest + `}` }
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	deep := strings.Repeat("[", 101) + strings.Repeat("]", 101)
	cases := []struct{ report, detail string }{
		{`7`, "must be an object, not a number"},
		{`{}`, "/lease is missing; /type is missing"},
		{`{"type":"start"}`, "/lease is missing"},
		{`{"lease":7,"type":"start"}`, "/lease must be a text, not a number"},
		{with(`"type":"begin"`), "/type unknown type; known are start, heartbeat, log, complete, fail, release"},
		{with(`"type":"hartbeat"`), `/type unknown type; did you mean "heartbeat"?`},
		{with(`"type":"start","result":1`), "/result is nothing that a report of type start has"},
		{with(`"type":"complete","retryable":true`), "/retryable is nothing that a report of type complete has"},
		{with(`"type":"fail","endpoint":"bad"`), `/endpoint must be "ok"; leave it out otherwise`},
		{with(`"type":"fail","effect":"none"`), `/effect must be "unknown"; leave it out otherwise`},
		{with(`"type":"fail","effect":""`), `/effect must be "unknown"; leave it out otherwise`},
		{with(`"type":"complete","endpoint":"ok"`), "/endpoint is nothing that a report of type complete has"},
		{with(`"type":"release","after":"1s"`), "/after unknown member; known are lease, type, lines, result, error, retryable, retry_in, retry_after, endpoint, effect"},
		{with(`"type":"fail","error":"boom"`), "/error must be an object, not a text"},
		{with(`"type":"fail","error":{"message":1,"code":2}`), "/error/message must be a text, not a number; /error/code unknown member; known are type, message, stack"},
		{with(`"type":"fail","retry_in":30`), `/retry_in must be a duration written as text, such as "30s", not a number`},
		{with(`"type":"fail","retry_in":"-1s"`), `/retry_in must be a duration such as 250ms, 30s, 5m, 2h or 7d, not "-1s"`},
		{with(`"type":"fail","retryable":"no"`), "/retryable must be true or false, not a text"},
		{with(`"type":"log"`), "the report has no lines"},
		{with(`"type":"log","lines":[{"message":"x"}]`), "/lines/0/seq is missing: it keeps a repeated line from being kept twice"},
		{with(`"type":"log","lines":[{"seq":-1,"at":"now"}]`), `/lines/0/seq must be from 0 to 9007199254740992, not -1; /lines/0/at must be a time in RFC 3339 such as 2026-12-01T03:00:00Z, not "now"`},
		{with(`"type":"log","lines":[` + strings.Repeat(`{"seq":1},`, 1000) + `{"seq":1}]`), "/lines 1001 lines are too many; 1000 are allowed"},
		{with(`"type":"complete","result":` + long), "/result has 1048578 bytes; 1048576 are allowed"},
		{with(`"type":"complete","result":{"a":1,"a":2}`), `/result the member "a" is there twice, at byte 7 of it`},
		{with(`"type":"complete","result":"\u0000"`), `/result a text holds NUL (\u0000), at byte 1 of it`},
		{with("\"type\":\"complete\",\"result\":\"\xff\""), "/result it is no JSON: invalid UTF-8, at byte 1 of it"},
		{with(`"type":"complete","result":` + deep), "/result the value is nested deeper than 100 levels, at byte 100 of it"},
		{with(`"type":"start","type":"complete"`), "/type is there twice"},
		{with(`"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7`), ""},
	}
	reports := []string{with(`"type":"heartbeat"`)}
	for _, c := range cases {
		reports = append(reports, c.report, with(`"type":"heartbeat"`))
	}
	got := r.report(reports...)
	if len(got) != len(reports) {
		t.Fatalf("%d results of %d reports", len(got), len(reports))
	}
	for i, c := range cases {
		bad, good := got[2*i+1], got[2*i+2]
		if bad.Status != "invalid" || c.detail != "" && bad.Detail != c.detail {
			t.Errorf("%.100s is answered %s\n%s\nnot\n%s", c.report, bad.Status, bad.Detail, c.detail)
		}
		if good.Status != "ok" || good.JobStatus != job.Running {
			t.Errorf("the one after %.100s: %+v", c.report, good)
		}
	}
	if last := got[len(got)-2].Detail; !strings.HasSuffix(last, "; and 2 more") {
		t.Error(last)
	}
	only := r.report(`1`, `2`)
	if only[0].Status != "invalid" || only[1].Status != "invalid" {
		t.Errorf("%+v", only)
	}
	invalid := 0
	for _, a := range append(got, only...) {
		if a.Status == "invalid" {
			invalid++
		}
	}
	if n := is[Stats](r.call("operate", "GET", "/v3/stats", ""), 200).All.Totals.Invalid; n != int64(invalid) {
		t.Errorf("%d reports are counted as invalid, %d were", n, invalid)
	}
}

func TestTextThatIsNotCleanIsKept(t *testing.T) {
	r := newRig(t)
	made := r.make(aJob)
	lease := r.take().Lease
	got := r.report(
		"{\"lease\":\""+lease+"\",\"type\":\"log\",\"lines\":[{\"seq\":1,\"level\":\"\\u0000\",\"message\":\"a\xffb\\u0000c\\ud800\"}]}",
		"{\"lease\":\""+lease+"\",\"type\":\"fail\",\"error\":{\"message\":\"a\xff\\\"b\\u0000\",\"message\":\"twice\"}}",
		"{\"lease\":\""+lease+"\",\"type\":\"fail\",\"error\":{\"message\":\"a\xff\\\"b\\u0000\",\"stack\":\""+strings.Repeat("x", 100_000)+"\"}}")
	if got[0].Status != "ok" || got[1].Status != "invalid" || got[2].Status != "ok" {
		t.Fatalf("%+v", got)
	}
	logs := is[Logs](r.call("work", "GET", "/v3/jobs/"+made.ID+"/attempts/1/logs", ""), 200)
	if logs.Lines[0].Message != "a\ufffdb\ufffdc\ufffd" {
		t.Errorf("%q", logs.Lines[0].Message)
	}
	failed := r.fetch(made.ID)
	if e := failed.LastError; e.Message != "a\ufffd\"b\ufffd" || len(e.Stack) != 32<<10 {
		t.Errorf("%q, a stack of %d bytes", e.Message, len(e.Stack))
	}
	if note := failed.Attempts[0].Note; note == nil || !strings.Contains(*note, "was cut") || !strings.Contains(*note, "no text") {
		t.Errorf("noted %v", note)
	}
}

func TestReportsThatAreNoneFailWhole(t *testing.T) {
	r := newRig(t)
	r.make(aJob)
	lease := r.take().Lease
	report := func(body string) answer { return r.call("work", "POST", "/v3/reports", body) }
	good := `{"lease":"` + lease + `","type":"complete"}`
	report(`{"worker":"worker-1","reports":[` + good + `,]}`).fails(problem.BadRequest)
	report(`{"worker":"worker-1","reports":[` + good).fails(problem.BadRequest)
	report(`{"worker":"worker-1","reports":[` + good + `]} x`).fails(problem.BadRequest)
	report(`{"worker":5,"reports":[`+good+`],"x":1}`).fails(problem.Invalid).faults(t,
		"/worker", "must be a text, not a number", "/x", "unknown member; known are worker, reports")
	report(`{"worker":"worker-1","reports":[`+strings.Repeat(good+",", 1000)+good+`]}`).fails(problem.Invalid).faults(t, "/reports", "1001 reports are too many; 1000 are allowed")
	report(`{"worker":"w","reports":[`+good+`]}`).fails(problem.Invalid).faults(t, "/worker", "is shorter than 8 characters; it names one worker, over restarts too")
	report(`{"worker":"worker-1"}`).fails(problem.Invalid).faults(t, "/reports", "must hold from 1 to 1000 reports, not 0")
	report(`{"reports":{}}`).fails(problem.Invalid).faults(t, "/reports", "must be an array, not an object")
	if got := r.report(good); got[0].Status != "ok" {
		t.Errorf("%+v: a request that failed whole had an effect", got[0])
	}
}

// TestManyAtOnce is the whole life of many jobs through many connections: each
// is done once.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const callers, each = 8, 25
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				r.make(aJob)
			}
		})
	}
	var mu sync.Mutex
	done := map[string]int{}
	for range callers {
		wg.Go(func() {
			for {
				mu.Lock()
				n := len(done)
				mu.Unlock()
				if n == callers*each {
					return
				}
				got := r.claim(`{"worker":"worker-1","queues":["emails"],"max":7,"wait":"50ms"}`)
				var reports []string
				for _, c := range got.Jobs {
					reports = append(reports, `{"lease":"`+c.Lease+`","type":"complete","result":{}}`)
				}
				if len(reports) == 0 {
					continue
				}
				results := r.report(reports...)
				mu.Lock()
				for i, c := range got.Jobs {
					if results[i].Status == "ok" {
						done[c.Job.ID]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", id, n)
		}
	}
	all := is[Queues](r.call("operate", "GET", "/v3/queues", ""), 200).Queues[0].Counts
	if diff := cmp.Diff(Counts{Succeeded: callers * each}, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// waited says when somebody waits.
type waited struct {
	store.Store
	waits chan struct{}
}

func (s *waited) AwaitEnd(ctx context.Context, id string) error {
	s.waits <- struct{}{}
	return s.Store.AwaitEnd(ctx, id)
}

func (s *waited) AwaitEvents(ctx context.Context, after int64) error {
	s.waits <- struct{}{}
	return s.Store.AwaitEvents(ctx, after)
}

// What a call waited for is told to no key that was revoked meanwhile.
func TestAKeyThatEndsWhileItsCallWaits(t *testing.T) {
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := &waited{file, make(chan struct{}, 10)}
	r := rigOn(t, file, seen)
	made := r.make(aJob)
	read := is[Events](r.call("operate", "GET", "/v3/events", ""), 200)
	paths := []string{"/v3/jobs/" + made.ID + "?wait=60s", "/v3/events?wait=60s&cursor=" + read.NextCursor}
	done := make(chan answer, len(paths))
	for _, path := range paths {
		go func() { done <- r.call("operate", "GET", path, "") }()
		<-seen.waits
	}
	if err := r.store.RevokeKey(t.Context(), "operate"); err != nil {
		t.Fatal(err)
	}
	is[Job](r.call("admin", "POST", "/v3/jobs/"+made.ID+"/cancel", ""), 200)
	for range paths {
		(<-done).fails(problem.Unauthenticated)
	}
}

// A key that was revoked or has expired while its claim waits gets no job, and
// the job goes to the next who asks.
func TestAKeyThatEndsWhileItsClaimWaits(t *testing.T) {
	var expires time.Time
	for name, end := range map[string]func(r *rig){
		"it was revoked": func(r *rig) {
			if err := r.store.RevokeKey(r.Context(), "work"); err != nil {
				r.Fatal(err)
			}
		},
		"it has expired": func(r *rig) {
			for !r.store.Now().After(expires) {
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if name == "it has expired" {
				expires = r.store.Now().Add(2 * time.Second)
				secret, k, err := jobserver.NewKey(jobserver.KeyRequest{Name: "brief", Scopes: []store.Scope{store.ScopeWork}, Expires: expires}, r.store.Now())
				if err == nil {
					err = r.store.AddKey(t.Context(), k)
				}
				if err != nil {
					t.Fatal(err)
				}
				r.secret["work"] = secret
			}
			done := make(chan answer, 1)
			go func() {
				done <- r.call("work", "POST", "/v3/claims", `{"worker":"worker-1","queues":["emails"],"wait":"60s"}`)
			}()
			for r.store.Vitals().Parked == 0 {
				time.Sleep(time.Millisecond) // the claim is not waiting yet
			}
			end(r)
			made := r.make(aJob)
			a := <-done
			if d := a.fails(problem.Unauthenticated); !strings.Contains(d.Detail, name) {
				t.Error(d.Detail)
			}
			got := is[Claim](r.call("admin", "POST", "/v3/claims", `{"worker":"worker-2","queues":["emails"],"wait":"0s"}`), 200)
			if len(got.Jobs) != 1 || got.Jobs[0].Job.ID != made.ID || got.Jobs[0].Attempt != 2 || got.Jobs[0].Job.AttemptsCharged != 0 {
				t.Errorf("the next worker got %+v", got.Jobs)
			}
		})
	}
}
