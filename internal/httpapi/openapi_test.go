package httpapi

// What these tests would catch: a call that is not in the document, or not as it
// is; a scope that opens what it should not, or not what the table says; a key
// that is good no more and still opens; an answer that is not as documented.

import (
	"encoding/json/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// described is an OpenAPI document, as a stranger reads it.
type described struct {
	OpenAPI string `json:"openapi"`
	Info    struct{ Title, Version string }
	Paths   map[string]map[string]operation
	Parts   struct {
		Schemas         map[string]any
		SecuritySchemes map[string]any `json:"securitySchemes"`
	} `json:"components"`
}

type operation struct {
	ID         string `json:"operationId"`
	Summary    string
	Parameters []struct {
		Name, In string
		Required bool
	}
	RequestBody struct {
		Required bool
		Content  map[string]any
	} `json:"requestBody"`
	Responses map[string]struct {
		Description string
		Content     map[string]any
	}
	Security []map[string][]string
}

// examples fill in paths and bodies.
var (
	pathExamples = strings.NewReplacer("{id}", "job_01k00000000000000000000000", "{n}", "1", "{queue}", "emails", "{endpoint}", "mailer",
		"{task}", "send", "{version}", "1", "{replay}", "rpl_01k00000000000000000000000", "{subscription}", "ops")
	bodyExamples = map[string]string{
		"createJob": aJob, "createJobs": `{"jobs":[` + aJob + `]}`, "claimJobs": `{"worker":"worker-1","queues":["emails"],"wait":"0s"}`,
		"report": `{"worker":"worker-1","reports":[{"lease":"x","type":"start"}]}`, "putQueue": `{}`, "putTask": `{}`, "putEndpoint": `{}`,
		"previewReplay": `{"filter":{}}`, "createReplay": `{"filter":{}}`, "createSubscription": `{"name":"ops","url":"https://example.com/hook","events":["job.failed"]}`,
	}
)

func readDocument(t *testing.T, r *rig) described {
	t.Helper()
	a := r.call("", "GET", "/v3/openapi.json", "")
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", a.status, a.header)
	}
	var d described
	if err := json.Unmarshal(a.body, &d, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(d.OpenAPI, "3.1.") || d.Info.Version != "1.2.3" || d.Parts.SecuritySchemes["key"] == nil {
		t.Fatalf("%+v", d.Info)
	}
	return d
}

// TestTheDocumentIsWhatRuns drives the running handler from its own document:
// every call with no key, with each scope, and with every method that the
// document does not have.
func TestTheDocumentIsWhatRuns(t *testing.T) {
	r := newRig(t)
	d := readDocument(t, r)
	calls := 0
	for path, operations := range d.Paths {
		at := pathExamples.Replace(path)
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			op, ok := operations[strings.ToLower(method)]
			if !ok {
				r.call("admin", method, at, "").fails(problem.MethodNotAllowed)
				continue
			}
			calls++
			row := slices.IndexFunc(Calls(), func(c Call) bool { return c.Method == method && c.Path == path })
			if row < 0 {
				t.Fatalf("%s %s is in no row of Calls", method, path)
			}
			driveScopes(t, r, method, at, op, Calls()[row])
		}
	}
	for name, closed := range map[string]bool{"NewJob": true, "Retry": true, "Report": true, "Job": false, "Attempt": false, "Problem": false, "Queue": false} {
		if _, has := d.Parts.Schemas[name].(map[string]any)["additionalProperties"]; has != closed {
			t.Errorf("%s is closed: %v", name, has)
		}
	}
	if calls != len(Calls()) {
		t.Errorf("the document has %d calls, the table %d", calls, len(Calls()))
	}
}

func driveScopes(t *testing.T, r *rig, method, at string, op operation, row Call) {
	t.Helper()
	if op.ID == "" || op.Summary != row.Summary {
		t.Errorf("%s %s: %+v", method, at, op)
	}
	body := bodyExamples[op.ID]
	if (body != "") != op.RequestBody.Required {
		t.Errorf("%s: takes a body: %v", op.ID, op.RequestBody)
	}
	var scopes []string
	for _, one := range op.Security { // any of them
		scopes = append(scopes, one["key"]...)
	}
	for _, key := range []string{"", "produce", "work", "operate", "admin"} {
		a := r.call(key, method, at, body)
		switch may := len(scopes) == 0 || slices.Contains(scopes, key) || key == "admin"; {
		case may:
			answered, ok := op.Responses[strconv.Itoa(a.status)]
			if !ok || a.status == 401 || a.status == 403 || a.status >= 500 {
				t.Errorf("%s with the key %q is answered %d: %s", op.ID, key, a.status, a.body)
			} else if a.status == 204 && len(answered.Content) == 0 && len(a.body) == 0 {
				continue
			} else if _, ok := answered.Content[a.header.Get("Content-Type")]; !ok {
				t.Errorf("%s is answered as %s, which the document does not have for %d", op.ID, a.header.Get("Content-Type"), a.status)
			}
		case key == "":
			a.fails(problem.Unauthenticated)
			if _, ok := op.Responses["401"]; !ok {
				t.Errorf("%s does not document 401", op.ID)
			}
		default:
			d := a.fails(problem.Forbidden)
			if !strings.Contains(d.Detail, "needs "+scopeList(row.Scopes, "or")) {
				t.Errorf("%s: %s", op.ID, d.Detail)
			}
		}
	}
	var want []string
	for _, s := range row.Scopes {
		want = append(want, string(s))
	}
	if diff := cmp.Diff(want, scopes); diff != "" {
		t.Errorf("%s (-table +document):\n%s", op.ID, diff)
	}
}

// TestScopes is the table of who may what, written by hand: a change of a scope
// is a change of this table too.
func TestScopes(t *testing.T) {
	want := map[string]string{
		"POST /v3/jobs": "produce", "POST /v3/jobs/batch": "produce", "GET /v3/jobs": "operate", "GET /v3/jobs/{id}": "produce, work or operate",
		"GET /v3/jobs/{id}/attempts/{n}/logs": "produce, work or operate", "GET /v3/jobs/{id}/explain": "produce, work or operate",
		"POST /v3/jobs/{id}/cancel": "produce or operate", "POST /v3/jobs/{id}/retry": "operate", "DELETE /v3/jobs/{id}": "operate",
		"POST /v3/claims": "work", "POST /v3/reports": "work",
		"GET /v3/queues": "operate", "GET /v3/queues/{queue}": "operate", "PUT /v3/queues/{queue}": "admin", "DELETE /v3/queues/{queue}": "admin",
		"POST /v3/queues/{queue}/pause": "operate", "POST /v3/queues/{queue}/resume": "operate",
		"GET /v3/tasks": "work or operate", "GET /v3/tasks/{task}/{version}": "work or operate", "PUT /v3/tasks/{task}/{version}": "work", "DELETE /v3/tasks/{task}/{version}": "admin",
		"GET /v3/endpoints": "operate", "GET /v3/endpoints/{endpoint}": "operate", "PUT /v3/endpoints/{endpoint}": "admin", "DELETE /v3/endpoints/{endpoint}": "admin",
		"POST /v3/endpoints/{endpoint}/pause": "operate", "POST /v3/endpoints/{endpoint}/resume": "operate",
		"GET /v3/endpoints/{endpoint}/circuit": "operate", "POST /v3/endpoints/{endpoint}/circuit/reset": "operate",
		"POST /v3/replays/preview": "operate", "POST /v3/replays": "operate", "GET /v3/replays": "operate", "GET /v3/replays/{replay}": "operate",
		"POST /v3/replays/{replay}/approve": "operate", "POST /v3/replays/{replay}/pause": "operate", "POST /v3/replays/{replay}/resume": "operate", "POST /v3/replays/{replay}/cancel": "operate",
		"POST /v3/subscriptions": "admin", "GET /v3/subscriptions": "operate", "GET /v3/subscriptions/{subscription}": "operate", "DELETE /v3/subscriptions/{subscription}": "admin", "POST /v3/subscriptions/{subscription}/resume": "admin",
		"GET /v3/events": "operate", "GET /v3/stats": "operate", "GET /v3/openapi.json": "",
	}
	got := map[string]string{}
	for _, c := range Calls() {
		got[c.Method+" "+c.Path] = scopeList(c.Scopes, "or")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeysThatAreNotGood(t *testing.T) {
	r := newRig(t)
	secret, k, err := jobserver.NewKey(jobserver.KeyRequest{Name: "short", Scopes: []store.Scope{store.ScopeAdmin}, Expires: r.store.Now().Add(time.Hour)}, r.store.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.AddKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	with := func(header string) answer {
		return r.call("", "GET", "/v3/queues", "", "Authorization", header)
	}
	for _, good := range []string{"Bearer " + secret, "bearer " + secret, "BEARER  " + secret + " "} {
		is[Queues](with(good), 200)
	}
	for _, bad := range []string{
		secret, "Bearer", "Bearer ", "Basic " + secret, "Bearer " + secret + "x", "Bearer " + secret[:len(secret)-1], "Bearer " + strings.ToUpper(secret),
		"Bearer x", "Bearer pawl_", "Bearer pawl_" + strings.Repeat("a", 10_000), "Bearer " + secret + " " + secret, "Bearer " + k.ID, "Bearer short",
	} {
		if d := with(bad).fails(problem.Unauthenticated); strings.Contains(d.Detail, secret[5:]) {
			t.Error("the answer has the secret")
		}
	}
	if err := r.store.RevokeKey(t.Context(), "short"); err != nil {
		t.Fatal(err)
	}
	if d := with("Bearer " + secret).fails(problem.Unauthenticated); !strings.Contains(d.Detail, "revoked") {
		t.Error(d.Detail)
	}
}

// TestAnswersAreAsDocumented checks one answer of each call against its schema.
func TestAnswersAreAsDocumented(t *testing.T) {
	r := newRig(t)
	made := r.call("admin", "POST", "/v3/jobs", aJob)
	id := is[Job](made, 201).ID
	claimed := r.call("admin", "POST", "/v3/claims", `{"worker":"worker-1","queues":["emails"]}`)
	lease := is[Claim](claimed, 200).Jobs[0].Lease
	reported := r.call("admin", "POST", "/v3/reports", `{"worker":"worker-1","reports":[{"lease":"`+lease+`","type":"log","lines":[{"seq":1,"message":"x"}]},
		{"lease":"`+lease+`","type":"fail","retryable":false},{"lease":"x","type":"start"},{}]}`)
	for typ, a := range map[reflect.Type]answer{
		typeOf[Job](): made, typeOf[Claim](): claimed, typeOf[ReportAnswer](): reported,
		typeOf[BatchAnswer](): r.call("admin", "POST", "/v3/jobs/batch", `{"jobs":[`+aJob+`]}`),
		typeOf[Jobs]():        r.call("admin", "GET", "/v3/jobs", ""), typeOf[Logs](): r.call("admin", "GET", "/v3/jobs/"+id+"/attempts/1/logs", ""),
		typeOf[Gate](): r.call("admin", "POST", "/v3/queues/emails/pause", ""), typeOf[Queues](): r.call("admin", "GET", "/v3/queues", ""),
		typeOf[Problem](): r.call("admin", "POST", "/v3/jobs", `{`),
	} {
		if a.status >= 300 && typ != typeOf[Problem]() {
			t.Errorf("%s: %d %s", typ, a.status, a.body)
		}
		fits(t, typ, a.body)
	}
	fits(t, typeOf[Job](), r.call("admin", "GET", "/v3/jobs/"+id, "").body)
}

// TestRequestsAreAsDocumented checks that the schemas take what the handlers
// take, and refuse what they refuse.
func TestRequestsAreAsDocumented(t *testing.T) {
	r := newRig(t)
	registry := huma.NewMapRegistry("#/components/schemas/", namer)
	for typ, bodies := range map[reflect.Type]map[string]bool{
		typeOf[NewJob](): {
			aJob: true, `{"queue":"emails","task":"t"}`: false, `{"queue":"emails","task":"t","payload":null}`: true,
			`{"queue":"emails","task":"t","payload":1,"priority":101}`: false, `{"queue":"emails","task":"t","payload":1,"run_at":"x"}`: false, `{"queue":"emails","task":"","payload":1}`: false,
			`{"queue":"emails","task":"t","payload":[],"retry":{"max_attempts":3,"factor":1.5,"initial":"12h30m","max_delay":"7d","jitter":0},"delay":"90s","timeout":"1m30s","version":"1","endpoint":"e","tags":[]}`: true,
			`{"queue":"emails","task":"t","payload":1,"retry":{"max_attempts":0}}`: false, `{"queue":"emails","task":"t","payload":1,"unique":1}`: false, `{"queue":"emails","task":"t","payload":1,"delay":"5"}`: false,
		},
		typeOf[ClaimRequest](): {`{"worker":"worker-1","queues":["emails"],"max":1000,"wait":"0s","tasks":["a@b"],"claim_id":"x"}`: true, `{"worker":"w","queues":["emails"]}`: false, `{"worker":"worker-1","queues":[]}`: false},
		typeOf[ReportRequest](): {
			`{"worker":"worker-1","reports":[{"lease":"x","type":"fail","error":{"message":"m"},"retryable":true,"retry_in":"1s","retry_after":"1s"}]}`: true,
			`{"worker":"worker-1","reports":[]}`: false, `{"reports":[{"lease":"x","type":"start"}]}`: false,
		},
		typeOf[Batch](): {`{"jobs":[{"queue":"emails","task":"t","payload":1,"idempotency_key":"k"}]}`: true, `{"jobs":[]}`: false},
	} {
		path := map[reflect.Type]string{typeOf[NewJob](): "/v3/jobs", typeOf[ClaimRequest](): "/v3/claims", typeOf[ReportRequest](): "/v3/reports", typeOf[Batch](): "/v3/jobs/batch"}[typ]
		schema := registry.Schema(typ, true, "")
		for body, good := range bodies {
			var v any
			if err := json.Unmarshal([]byte(body), &v); err != nil {
				t.Fatal(err)
			}
			var found huma.ValidateResult
			huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, &found)
			a := r.call("admin", "POST", path, body)
			if (len(found.Errors) == 0) != good || (a.status < 300) != good {
				t.Errorf("%s %s: the schema says %v, the call %d %s", typ, body, found.Errors, a.status, a.body)
			}
		}
	}
}
