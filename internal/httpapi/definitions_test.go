package httpapi

// What these tests would catch: settings of a queue, a task or an endpoint that are
// not those that were sent, or not in force; what the configuration says and the API
// changes; a contract that is replaced unasked; a key that is limited to queues and
// sees or moves what is everybody's; a hold that is told after its end.

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

func (r *rig) put(path, body string) answer { r.Helper(); return r.call("admin", "PUT", path, body) }

// notWhen leaves out when a definition was made.
var notWhen = cmpopts.IgnoreFields(Managed{}, "UpdatedAt")

func TestAQueueIsDefinedAndForgotten(t *testing.T) {
	r := newRig(t)
	const body = `{"lease":"10s","timeout":"2m","concurrency":1,"retry":{"max_attempts":3,"initial":"1s","jitter":0}}`
	want := Queue{
		Name: "mine", Managed: Managed{ManagedBy: new("api"), UpdatedBy: new("admin")}, Lease: new(Duration("10s")), Timeout: new(Duration("2m")), Concurrency: new(1),
		Retry: Retry{MaxAttempts: new(3), Initial: new(Duration("1s")), Jitter: new(0.0)},
	}
	if diff := cmp.Diff(want, is[Queue](r.put("/v3/queues/mine", body), 200), notWhen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// It is in force: jobs take its values, and its concurrency holds.
	for range 2 {
		j := is[Job](r.call("produce", "POST", "/v3/jobs", `{"queue":"mine","task":"t","payload":1}`), 201)
		if j.Timeout != "2m" || j.Retry.MaxAttempts != 3 || j.RetryFrom.MaxAttempts != job.LevelQueue || j.RetryFrom.Factor != job.LevelBuiltIn {
			t.Errorf("%+v", j)
		}
	}
	if got := r.claim(`{"worker":"worker-1","queues":["mine"],"max":5,"wait":"0s"}`); len(got.Jobs) != 1 || got.Jobs[0].LeaseMS != 10_000 {
		t.Errorf("%+v", got)
	}
	want.Counts = Counts{Queued: 1, Running: 1}
	if diff := cmp.Diff(want, is[Queue](r.call("operate", "GET", "/v3/queues/mine", ""), 200), notWhen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What a PUT does not say is the default again.
	if q := is[Queue](r.put("/v3/queues/mine", `{}`), 200); *q.Lease != "30s" || *q.Timeout != "5m" || q.Concurrency != nil || q.Retry != (Retry{}) {
		t.Errorf("%+v", q)
	}
	goldenProblem(t, "in-use", r.call("admin", "DELETE", "/v3/queues/mine", ""), "")
	if a := r.put("/v3/queues/other", `{}`); a.status != 200 {
		t.Errorf("%s", a.body)
	}
	if a := r.call("admin", "DELETE", "/v3/queues/other", ""); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.call("operate", "GET", "/v3/queues/other", "").fails(problem.NotFound)
	goldenProblem(t, "no-queue", r.call("operate", "GET", "/v3/queues/emials", ""), "")
}

func TestAnEndpointIsDefined(t *testing.T) {
	r := newRig(t)
	want := Endpoint{
		Name: "mailer", Managed: Managed{ManagedBy: new("api"), UpdatedBy: new("admin")}, Concurrency: new(7), Rate: &Rate{PerSecond: 0.5, Burst: 1},
		CircuitSettings: CircuitSettings{Failures: 1, Cooldown: new(Duration("1h"))}, Retry: Retry{Factor: new(3.0)}, Circuit: Circuit{Endpoint: "mailer", State: "closed"},
	}
	got := is[Endpoint](r.put("/v3/endpoints/mailer", `{"concurrency":7,"rate":{"per_second":0.5},"circuit":{"failures":1,"cooldown":"1h"},"retry":{"factor":3}}`), 200)
	if diff := cmp.Diff(want, got, notWhen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A failure opens its circuit, and a person closes it.
	r.make(`{"queue":"emails","task":"send","endpoint":"mailer","payload":1,"retry":{"initial":"0s"}}`)
	r.report(`{"lease":"` + r.take().Lease + `","type":"fail"}`)
	at := "/v3/endpoints/mailer/circuit"
	if c := is[Circuit](r.call("operate", "GET", at, ""), 200); c.State != "open" || c.OpenedAt == nil || c.RetryAt == nil || c.Generation == 0 {
		t.Errorf("%+v", c)
	}
	if got := r.claim(`{"worker":"worker-1","queues":["emails"],"wait":"0s"}`); len(got.Jobs) != 0 {
		t.Error("an open circuit gives jobs")
	}
	if c := is[Circuit](r.call("operate", "POST", at+"/reset", ""), 200); c.State != "closed" || c.Failures != 0 || c.OpenedAt != nil {
		t.Errorf("%+v", c)
	}
	r.put("/v3/endpoints/mailer", `{"rate":{}}`).fails(problem.Invalid).faults(t, "/rate/per_second", "is missing")
	d := r.put("/v3/endpoints/mailer", `{"rate":{"per_second":-1},"circuit":{"cooldown":"25h","failures":0},"retry":{"circuit":{}},"concurrency":0}`).fails(problem.Invalid)
	d.faults(t, "/circuit/failures", "must be from 1 to 1000, not 0",
		"/retry/circuit", "unknown member; known are max_attempts, initial, factor, max_delay, jitter",
		"/concurrency", "must be from 1 to 100000, not 0")
	r.put("/v3/endpoints/mailer", `{"rate":{"per_second":-1},"circuit":{"cooldown":"25h"}}`).fails(problem.Invalid).faults(t,
		"/rate/per_second", "must be from 0.01 to 100000, not -1", "/circuit/cooldown", "must be from 1s to 1d, not 1d1h")
	r.put("/v3/endpoints/mailer", `{"circuit":{"cooldown":"0s"}}`).fails(problem.Invalid).faults(t, "/circuit/cooldown", "must not be 0s; leave it out for the default")
}

// ahead is a store whose clock can be put forward.
type ahead struct {
	store.Store
	by atomic.Int64
}

func (s *ahead) Now() time.Time { return s.Store.Now().Add(time.Duration(s.by.Load())) }

// TestAHoldThatIsPastIsNotTold: what an endpoint asked for once holds nothing
// after its time, and whoever reads it must not think so.
func TestAHoldThatIsPastIsNotTold(t *testing.T) {
	inner, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	clock := &ahead{Store: inner}
	r := rigOn(t, inner, clock)
	r.make(`{"queue":"emails","task":"send","endpoint":"mailer","payload":1}`)
	r.report(`{"lease":"` + r.take().Lease + `","type":"fail","retry_after":"30m"}`)
	held := func() []bool {
		list := is[Endpoints](r.call("operate", "GET", "/v3/endpoints", ""), 200)
		at := slices.IndexFunc(list.Endpoints, func(e Endpoint) bool { return e.Name == "mailer" })
		if at < 0 {
			t.Fatalf("%+v", list)
		}
		one := is[Endpoint](r.call("operate", "GET", "/v3/endpoints/mailer", ""), 200)
		c := is[Circuit](r.call("operate", "GET", "/v3/endpoints/mailer/circuit", ""), 200)
		return []bool{list.Endpoints[at].Circuit.HeldUntil != nil, one.Circuit.HeldUntil != nil, c.HeldUntil != nil}
	}
	if got := held(); !slices.Equal(got, []bool{true, true, true}) {
		t.Errorf("while it holds: %v are told by the list, the endpoint, the circuit", got)
	}
	clock.by.Store(int64(time.Hour))
	if got := held(); !slices.Equal(got, []bool{false, false, false}) {
		t.Errorf("after it: %v are told by the list, the endpoint, the circuit", got)
	}
}

const aContract = `{"endpoint":"mailer","timeout":"90s","repeat":"unsafe","retry":{"max_attempts":2},
	"input_schema":{"type":"object","required":["user_id"],"properties":{"user_id":{"type":"integer"}}},"output_schema":{"type":"string"}}`

// TestAContractIsRegistered does what a worker does when it starts.
func TestAContractIsRegistered(t *testing.T) {
	r := newRig(t)
	put := func(version, body string) answer { return r.call("work", "PUT", "/v3/tasks/send/"+version, body) }
	got := is[Task](put("2", aContract), 200)
	if got.Name != "send" || got.Version != "2" || *got.Endpoint != "mailer" || *got.Timeout != "1m30s" || got.Repeat != "unsafe" || *got.Retry.MaxAttempts != 2 ||
		!strings.Contains(string(got.InputSchema), `"required"`) || string(got.OutputSchema) != `{"type":"string"}` || *got.ManagedBy != "api" {
		t.Errorf("%+v", got)
	}
	is[Task](put("2", aContract), 200) // each replica says it
	goldenProblem(t, "differs", put("2", `{"timeout":"90s"}`), "")
	if got := is[Task](put("2", strings.Replace(aContract, "90s", "80s", 1)[:len(aContract)-1]+`,"update":true}`), 200); *got.Timeout != "1m20s" {
		t.Errorf("%+v", got)
	}
	// It is in force: the version registered last, its endpoint and its policy.
	j := is[Job](r.call("produce", "POST", "/v3/jobs", `{"queue":"emails","task":"send","payload":{"user_id":7}}`), 201)
	if j.Version != "2" || *j.Endpoint != "mailer" || j.Timeout != "1m20s" || j.Repeat != job.RepeatUnsafe || j.RetryFrom.MaxAttempts != job.LevelTask ||
		len(j.InputSchema) != 64 || len(j.OutputSchema) != 64 {
		t.Errorf("%+v", j)
	}
	goldenProblem(t, "input-schema", r.call("produce", "POST", "/v3/jobs", `{"queue":"emails","task":"send","payload":{"user_id":"7"}}`), "")
	// A result that does not fit makes a dead letter.
	if a := r.report(`{"lease":"` + r.take().Lease + `","type":"complete","result":7}`)[0]; a.JobStatus != job.Failed {
		t.Errorf("%+v", a)
	}
	if j := r.fetch(j.ID); !j.DeadLetter || *j.Reason != "output_schema" {
		t.Errorf("%+v", j)
	}
	put("3", `{"input_schema":{"type":"objekt"}}`).fails(problem.Invalid)
	put("3", `{"repeat":"never"}`).fails(problem.Invalid).faults(t, "/repeat", "unknown; known are safe, unsafe")
	list := is[Tasks](r.call("operate", "GET", "/v3/tasks", ""), 200).Tasks
	at := slices.IndexFunc(list, func(t Task) bool { return t.Name == "send" })
	if at < 0 || string(list[at].InputSchema) != "null" || list[at].Counts.Failed != 1 {
		t.Errorf("%+v", list)
	}
}

func TestWhatTheFileSaysIsReadOnly(t *testing.T) {
	r := newRig(t)
	goldenProblem(t, "managed", r.put("/v3/queues/emails", `{"lease":"1s"}`), "")
	for at, body := range map[string]string{"/v3/queues/emails": `{}`, "/v3/endpoints/filed": `{}`, "/v3/tasks/filed/1": `{"timeout":"1m","update":true}`} {
		r.put(at, body).fails(problem.ManagedByFile)
		r.call("admin", "DELETE", at, "").fails(problem.ManagedByFile)
	}
	r.call("admin", "DELETE", "/v3/subscriptions/filed", "").fails(problem.ManagedByFile)
	if q := is[Queue](r.call("operate", "GET", "/v3/queues/emails", ""), 200); *q.ManagedBy != "file" || q.UpdatedAt != nil || *q.Lease != "10s" {
		t.Errorf("%+v", q)
	}
}

// TestListsByNameGoOn reads a list in parts.
func TestListsByNameGoOn(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"c", "a", "b"} {
		is[Queue](r.put("/v3/queues/"+name, `{}`), 200)
	}
	var names []string
	for cursor := ""; ; {
		page := is[Queues](r.call("operate", "GET", "/v3/queues?limit=2"+cursor, ""), 200)
		for _, q := range page.Queues {
			names = append(names, q.Name)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if want := []string{"a", "b", "c", "emails", "reports"}; !slices.Equal(names, want) {
		t.Errorf("%q, not %q", names, want)
	}
}

// TestALimitedKeyMovesNothingOfAll has a key for one queue, with every scope.
func TestALimitedKeyMovesNothingOfAll(t *testing.T) {
	r := newRig(t)
	r.make(`{"queue":"reports","task":"hidden","endpoint":"hidden","payload":1}`)
	r.make(`{"queue":"emails","task":"seen","endpoint":"seen","payload":1}`)
	as := func(method, path, body string) answer { return r.call("mail", method, path, body) }
	// What its own workers register is its own to say, and to say again.
	is[Task](r.put("/v3/tasks/both/1", `{"timeout":"1m"}`), 200)
	for _, path := range []string{"/v3/tasks/mine/1", "/v3/tasks/mine/1", "/v3/tasks/mine/2", "/v3/tasks/seen/1", "/v3/tasks/both/1"} {
		is[Task](as("PUT", path, `{"timeout":"1m"}`), 200)
	}
	for _, c := range [][3]string{
		{"PUT", "/v3/queues/reports", `{}`}, {"DELETE", "/v3/queues/reports", ""}, {"GET", "/v3/queues/reports", ""}, {"PUT", "/v3/queues/new", `{}`},
		{"PUT", "/v3/endpoints/seen", `{}`}, {"DELETE", "/v3/endpoints/seen", ""}, {"POST", "/v3/endpoints/seen/pause", ""}, {"POST", "/v3/endpoints/seen/circuit/reset", ""},
		{"DELETE", "/v3/tasks/seen/1", ""}, {"PUT", "/v3/tasks/hidden/1", `{}`}, {"PUT", "/v3/tasks/hidden/2", `{"repeat":"unsafe"}`},
		{"PUT", "/v3/tasks/both/1", `{"update":true,"timeout":"2m"}`},
	} {
		as(c[0], c[1], c[2]).fails(problem.Forbidden)
	}
	for _, path := range []string{"/v3/endpoints/hidden", "/v3/endpoints/hiden", "/v3/endpoints/hidden/circuit", "/v3/tasks/hidden/1", "/v3/tasks/hiden/1"} {
		if a := as("GET", path, ""); strings.Contains(a.fails(problem.NotFound).Detail, "did you mean") {
			t.Errorf("%s", a.body)
		}
	}
	queues := is[Queues](as("GET", "/v3/queues", ""), 200).Queues
	endpoints := is[Endpoints](as("GET", "/v3/endpoints", ""), 200).Endpoints
	if len(queues) != 1 || queues[0].Name != "emails" || len(endpoints) != 1 || endpoints[0].Name != "seen" || endpoints[0].Counts.Queued != 1 {
		t.Errorf("%+v %+v", queues, endpoints)
	}
	for _, task := range is[Tasks](as("GET", "/v3/tasks", ""), 200).Tasks {
		if task.Name == "hidden" {
			t.Errorf("%+v", task)
		}
	}
	stats := is[Stats](as("GET", "/v3/stats", ""), 200)
	if len(stats.Queues) != 1 || stats.Counts.Queued != 1 || stats.All != nil {
		t.Errorf("%+v", stats)
	}
	if all := is[Stats](r.call("operate", "GET", "/v3/stats", ""), 200); all.Counts.Queued != 2 || all.All == nil || all.All.Totals.Created != 2 || all.All.Store.Commits == 0 {
		t.Errorf("%+v", all)
	}
}

// TestWhyAJobDoesNotRun holds the causes that can be had at once.
func TestWhyAJobDoesNotRun(t *testing.T) {
	r := newRig(t)
	id := r.make(`{"queue":"emails","task":"send","endpoint":"mailer","payload":1,"delay":"1h"}`).ID
	is[Gate](r.call("operate", "POST", "/v3/queues/emails/pause", ""), 200)
	is[Gate](r.call("operate", "POST", "/v3/endpoints/mailer/pause", ""), 200)
	e := is[Explanation](r.call("produce", "GET", "/v3/jobs/"+id+"/explain", ""), 200)
	var kinds []string
	for _, c := range e.Causes {
		kinds = append(kinds, c.Kind)
		if c.Text == "" || c.Next == "" || c.Kind == "paused" && c.Since == nil || c.Kind == "not_due" && c.Until == nil {
			t.Errorf("%+v", c)
		}
	}
	if want := []string{"not_due", "paused", "paused", "no_worker"}; e.ID != id || e.Status != job.Queued || !slices.Equal(kinds, want) {
		t.Errorf("%+v", e)
	}
	if len(e.Causes) > 2 && (e.Causes[1].Queue == nil || *e.Causes[1].Queue != "emails" || e.Causes[2].Endpoint == nil || *e.Causes[2].Endpoint != "mailer") {
		t.Errorf("%+v", e.Causes)
	}
	r.call("mail", "GET", "/v3/jobs/"+r.make(aReport).ID+"/explain", "").fails(problem.NotFound)
}

// TestASyntheticJobNeedsAnOperator has producers that may not look through an open
// circuit, and one that may.
func TestASyntheticJobNeedsAnOperator(t *testing.T) {
	r := newRig(t)
	const check = `{"queue":"emails","task":"ping","endpoint":"mailer","payload":null,"synthetic":true}`
	r.call("produce", "POST", "/v3/jobs", check).fails(problem.Forbidden)
	r.call("produce", "POST", "/v3/jobs/batch", `{"jobs":[`+aJob+`,`+check+`]}`).fails(problem.Forbidden)
	if j := is[Job](r.call("admin", "POST", "/v3/jobs", check), 201); !j.Synthetic {
		t.Errorf("%+v", j)
	}
	r.report(`{"lease":"` + r.take().Lease + `","type":"fail"}`)
	if page := is[Jobs](r.call("operate", "GET", "/v3/jobs?dead_letter=true", ""), 200); len(page.Jobs) != 0 {
		t.Errorf("a check is a dead letter: %+v", page.Jobs)
	}
	if page := is[Jobs](r.call("operate", "GET", "/v3/jobs", ""), 200); len(page.Jobs) != 1 || page.Jobs[0].Status != job.Failed || page.Jobs[0].DeadLetter {
		t.Errorf("%+v", page.Jobs)
	}
	r.call("admin", "POST", "/v3/jobs", `{"queue":"emails","task":"ping","payload":null,"synthetic":true}`).fails(problem.Invalid)
}

// TestAUniqueJobIsFound makes the same thing twice.
func TestAUniqueJobIsFound(t *testing.T) {
	r := newRig(t)
	const body = `{"queue":"emails","task":"send","payload":1,"unique":"invoice 7"}`
	made := r.make(body)
	if made.Unique == nil || *made.Unique != "invoice 7" {
		t.Errorf("%+v", made)
	}
	again := is[Job](r.call("produce", "POST", "/v3/jobs", strings.Replace(body, ":1,", ":2,", 1)), 200)
	if again.ID != made.ID || string(again.Payload) != "1" {
		t.Errorf("%+v", again)
	}
	is[Job](r.hand("cancel", made.ID), 200)
	if next := r.make(body); next.ID == made.ID {
		t.Error("a cancelled job stands in the way")
	}
}
