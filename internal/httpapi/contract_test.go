package httpapi

// What these tests would catch: an answer that the OpenAPI document does not have,
// or that it describes otherwise; a status that it declares and nothing ever gets;
// a body that is taken against its schema. The document is read as a stranger
// reads it: from the running server, by a JSON Schema library that the server does
// not use for it.

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract holds what a server answers against its own document.
type contract struct {
	testing.TB
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
	reached map[string]bool // METHOD path status
}

const documentURL = "mem:///openapi.json"

func newContract(t testing.TB, r *rig) *contract {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.call("", "GET", "/v3/openapi.json", "").body))
	if err != nil {
		t.Fatal(err)
	}
	c := &contract{TB: t, doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}, reached: map[string]bool{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(documentURL, doc); err != nil {
		t.Fatal(err)
	}
	return c
}

// declared are all the document says: METHOD path status.
func (c *contract) declared() (all []string) {
	for path, item := range c.doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			for status := range op.(map[string]any)["responses"].(map[string]any) {
				all = append(all, strings.ToUpper(method)+" "+path+" "+status)
			}
		}
	}
	slices.Sort(all)
	return all
}

// operation finds what the document says of a call.
func (c *contract) operation(method, path string) (pattern string, op map[string]any) {
	parts := strings.Split(path, "/")
	best := -1
	for p, item := range c.doc["paths"].(map[string]any) {
		want := strings.Split(p, "/")
		if len(want) != len(parts) {
			continue
		}
		same := 0
		for i, w := range want {
			if w == parts[i] {
				same++
			} else if !strings.HasPrefix(w, "{") {
				same = -1
				break
			}
		}
		found, ok := item.(map[string]any)[strings.ToLower(method)].(map[string]any)
		if ok && same > best {
			best, pattern, op = same, p, found
		}
	}
	return pattern, op
}

// check holds a value against the schema at a JSON pointer of the document.
func (c *contract) check(pointer string, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.schemas[pointer]
	if s == nil {
		if s, err = c.compiler.Compile(documentURL + "#" + pointer); err != nil {
			return err
		}
		c.schemas[pointer] = s
	}
	return s.Validate(v)
}

func token(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// wrap holds every answer of the handler against the document, and every body that
// it takes.
func (c *contract) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			c.Error(err)
		}
		length := r.ContentLength
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), length
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		c.answered(r.Method, r.URL.Path, body, rec)
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

func (c *contract) answered(method, path string, body []byte, rec *httptest.ResponseRecorder) {
	c.Helper()
	pattern, op := c.operation(method, path)
	if op == nil {
		if rec.Code != http.StatusNotFound && rec.Code != http.StatusMethodNotAllowed {
			c.Errorf("%s %s is in no document and answered %d", method, path, rec.Code)
		}
		return
	}
	what := method + " " + pattern + " " + strconv.Itoa(rec.Code)
	c.mu.Lock()
	c.reached[what] = true
	c.mu.Unlock()
	at := "/paths/" + token(pattern) + "/" + strings.ToLower(method)
	response, ok := op["responses"].(map[string]any)[strconv.Itoa(rec.Code)].(map[string]any)
	if !ok {
		c.Errorf("%s is not in the document: %s", what, rec.Body)
		return
	}
	content, _ := response["content"].(map[string]any)
	media := rec.Header().Get("Content-Type")
	switch _, ok := content[media]; {
	case content == nil && rec.Body.Len() == 0:
	case !ok:
		c.Errorf("%s is answered as %q, which is not in the document", what, media)
	case strings.HasSuffix(media, "json"):
		if err := c.check(at+"/responses/"+strconv.Itoa(rec.Code)+"/content/"+token(media)+"/schema", rec.Body.Bytes()); err != nil {
			c.Errorf("%s is not as documented: %v in %.500s", what, err, rec.Body)
		}
	}
	if rec.Code >= 300 || len(body) == 0 {
		return
	}
	if _, takes := op["requestBody"]; !takes {
		if strings.TrimSpace(string(body)) != "{}" {
			c.Errorf("%s took a body that is not in the document: %s", what, body)
		}
		return
	}
	if !strings.Contains(string(body), "\ufffd") && op["operationId"] != "report" { // whose reports fail each by itself
		if err := c.check(at+"/requestBody/content/application~1json/schema", body); err != nil {
			c.Errorf("%s took what its schema does not: %v in %.500s", what, err, body)
		}
	}
}

// contractRig is a rig whose every answer is held against the document.
func contractRig(t *testing.T) (*rig, *contract) {
	t.Helper()
	r := newRig(t)
	c := newContract(t, r)
	r.serve(c.wrap(r.api))
	return r, c
}

// TestEveryDeclaredStatusIsReached makes every call in every way that the document
// says it can end.
func TestEveryDeclaredStatusIsReached(t *testing.T) {
	r, c := contractRig(t)
	scenario(t, r)
	everyCallGoesWrong(t, r, c)
	var missed []string
	for _, what := range c.declared() {
		if !c.reached[what] {
			missed = append(missed, what)
		}
	}
	if len(missed) > 0 {
		t.Errorf("declared and never reached:\n%s", strings.Join(missed, "\n"))
	}
}

// everyCallGoesWrong makes each call without a key, with the wrong one, with what
// no call takes, and on a store that fails.
func everyCallGoesWrong(t *testing.T, r *rig, c *contract) {
	t.Helper()
	broken, away := *r, *r
	for on, err := range map[*rig]error{&broken: errKeys, &away: fmt.Errorf("%w: away: %w", errKeys, store.ErrUnavailable)} {
		on.serve(c.wrap(handlerIn(Options{Server: serverOn(t, &failing{Store: r.store, err: err}), Store: r.store}, r.memory)))
	}
	for _, call := range Calls() {
		at := pathExamples.Replace(call.Path)
		r.call("admin", call.Method, at+"?bogus=1", "") // 422
		if len(call.Scopes) == 0 {
			continue
		}
		for _, key := range []string{"", "produce", "work", "operate"} {
			r.call(key, call.Method, at+"?bogus=1", "")
		}
		broken.call("admin", call.Method, at, "")
		away.call("admin", call.Method, at, "")
		if _, op := c.operation(call.Method, at); op["requestBody"] != nil {
			r.call("admin", call.Method, at, `{"a":}`)
			r.call("admin", call.Method, at, `{}`, "Content-Type", "text/plain")
			r.callHuge(call.Method, at)
		}
	}
}

// serverOn is a server on a store.
func serverOn(t *testing.T, s store.Store) *jobserver.Server {
	t.Helper()
	server, err := jobserver.NewServer(jobserver.Options{Store: s, Config: someConfig})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// callHuge makes a call that says it has a larger body than any may.
func (r *rig) callHuge(method, path string) {
	req := httptest.NewRequest(method, path, http.NoBody)
	req.ContentLength = MaxRequest + 1
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.secret["admin"])
	r.api.ServeHTTP(httptest.NewRecorder(), req)
}

// scenario makes every call as it should be made, and ends it in every way of its
// own.
func scenario(t *testing.T, r *rig) {
	t.Helper()
	const nobody = "/v3/jobs/job_01k00000000000000000000000"
	post := func(path, body string, headers ...string) answer {
		return r.call("admin", "POST", path, body, headers...)
	}
	get := func(path string) answer { return r.call("admin", "GET", path, "") }
	id := is[Job](post("/v3/jobs", aJob, KeyHeader, "k"), 201).ID
	is[Job](post("/v3/jobs", aJob, KeyHeader, "k"), 200)
	post("/v3/jobs", aReport, KeyHeader, "k")
	keyed := func(body string) string {
		return `{"jobs":[` + strings.TrimSuffix(body, "}") + `,"idempotency_key":"k"}]}`
	}
	post("/v3/jobs/batch", keyed(aJob))
	post("/v3/jobs/batch", keyed(aReport))
	is[BatchAnswer](post("/v3/jobs/batch", `{"jobs":[`+aReport+`,`+aJob+`]}`), 201)
	is[Jobs](get("/v3/jobs?queue=emails&limit=1"), 200)
	lease := is[Claim](post("/v3/claims", `{"worker":"worker-1","queues":["emails"],"max":1}`), 200).Jobs[0].Lease
	is[ReportAnswer](post("/v3/reports", `{"worker":"worker-1","reports":[{"lease":"`+lease+`","type":"log","lines":[{"seq":1,"message":"x"}]},
		{"lease":"`+lease+`","type":"fail","retryable":false,"endpoint":"ok","effect":"unknown"},{"lease":"x","type":"start"},{}]}`), 200)
	is[Logs](get("/v3/jobs/"+id+"/attempts/1/logs"), 200)
	get("/v3/jobs/" + id + "/attempts/2/logs")
	is[Job](get("/v3/jobs/"+id), 200)
	post("/v3/jobs/"+id+"/cancel", "")
	is[Job](post("/v3/jobs/"+id+"/retry", ""), 200)
	post("/v3/jobs/"+id+"/retry", "{}")
	is[Job](post("/v3/jobs/"+id+"/cancel", ""), 200)
	r.call("admin", "DELETE", "/v3/jobs/"+id, "")
	running := is[Claim](post("/v3/claims", `{"worker":"worker-1","queues":["reports"],"max":1}`), 200).Jobs[0].Job.ID
	r.call("admin", "DELETE", "/v3/jobs/"+running, "")
	for _, what := range []string{"/cancel", "/retry"} {
		post(nobody+what, "")
	}
	get(nobody)
	get(nobody + "/attempts/1/logs")
	r.call("admin", "DELETE", nobody, "")
	is[Explanation](get("/v3/jobs/"+running+"/explain"), 200)
	get(nobody + "/explain")
	is[Events](get("/v3/events"), 200)
	is[Stats](get("/v3/stats"), 200)
	get("/v3/openapi.json")
	definitions(r)
	replays(r)
	subscriptions(r)
}

// definitions makes every call about queues, tasks and endpoints.
func definitions(r *rig) {
	call := func(method, path, body string, status int) {
		r.Helper()
		if a := r.call("admin", method, path, body); a.status != status {
			r.Errorf("%s %s is answered %d, not %d: %s", method, path, a.status, status, a.body)
		}
	}
	for _, what := range []string{"/pause", "/resume"} {
		call("POST", "/v3/queues/emails"+what, "", 200)
		call("POST", "/v3/queues/nothing"+what, "", 404)
		call("POST", "/v3/endpoints/mailer"+what, "", 200)
		call("POST", "/v3/endpoints/no%20name"+what, "", 404)
	}
	for _, at := range []struct{ list, mine, files, none string }{
		{"/v3/queues", "/v3/queues/mine", "/v3/queues/emails", "/v3/queues/nothing"},
		{"/v3/tasks", "/v3/tasks/mine/2", "/v3/tasks/filed/1", "/v3/tasks/nothing/1"},
		{"/v3/endpoints", "/v3/endpoints/mine", "/v3/endpoints/filed", "/v3/endpoints/nothing"},
	} {
		call("PUT", at.mine, `{"retry":{"max_attempts":3}}`, 200)
		call("PUT", at.files, `{"retry":{"max_attempts":3}}`, 409)
		call("GET", at.list, "", 200)
		call("GET", at.mine, "", 200)
		call("GET", at.none, "", 404)
		call("DELETE", at.files, "", 409)
		call("DELETE", at.none, "", 404)
	}
	call("PUT", "/v3/tasks/mine/2", `{}`, 409)
	call("PUT", "/v3/endpoints/no%20name", `{}`, 404)
	call("GET", "/v3/endpoints/mine/circuit", "", 200)
	call("GET", "/v3/endpoints/nothing/circuit", "", 404)
	call("POST", "/v3/endpoints/mine/circuit/reset", "", 200)
	call("POST", "/v3/endpoints/nothing/circuit/reset", "", 404)
	id := is[Job](r.call("admin", "POST", "/v3/jobs", `{"queue":"mine","task":"mine","version":"2","endpoint":"mine","payload":1}`), 201).ID
	for _, status := range []int{409, 204} {
		for _, mine := range []string{"/v3/queues/mine", "/v3/tasks/mine/2", "/v3/endpoints/mine"} {
			call("DELETE", mine, "", status)
		}
		r.call("admin", "DELETE", "/v3/jobs/"+id, "")
	}
}

// replays makes every call about replays.
func replays(r *rig) {
	post := func(path, body string) answer { return r.call("admin", "POST", path, body) }
	is[Preview](post("/v3/replays/preview", `{"filter":{}}`), 200)
	made := is[Replay](post("/v3/replays", `{"filter":{"queue":"emails"},"review":true}`), 201)
	is[Replays](r.call("admin", "GET", "/v3/replays", ""), 200)
	is[Replay](r.call("admin", "GET", "/v3/replays/"+made.ID, ""), 200)
	r.call("admin", "GET", "/v3/replays/rpl_1", "")
	for _, what := range []string{"pause", "resume"} {
		post("/v3/replays/"+made.ID+"/"+what, "") // in review: 409
	}
	is[Replay](r.call("operate", "POST", "/v3/replays/"+made.ID+"/approve", ""), 200)
	is[Replay](post("/v3/replays/"+made.ID+"/pause", ""), 200)
	is[Replay](post("/v3/replays/"+made.ID+"/resume", ""), 200)
	is[Replay](post("/v3/replays/"+made.ID+"/cancel", ""), 200)
	for _, what := range []string{"approve", "pause", "resume", "cancel"} {
		post("/v3/replays/"+made.ID+"/"+what, "")
		post("/v3/replays/rpl_1/"+what, "")
	}
}

// subscriptions makes every call about subscriptions.
func subscriptions(r *rig) {
	const ops = `{"name":"ops","url":"https://example.com/hook","events":["job.failed"]}`
	is[Subscription](r.call("admin", "POST", "/v3/subscriptions", ops), 201)
	r.call("admin", "POST", "/v3/subscriptions", ops)
	is[Subscriptions](r.call("admin", "GET", "/v3/subscriptions", ""), 200)
	is[Subscription](r.call("admin", "GET", "/v3/subscriptions/ops", ""), 200)
	r.call("admin", "GET", "/v3/subscriptions/nothing", "")
	is[Subscription](r.call("admin", "POST", "/v3/subscriptions/ops/resume", ""), 200)
	r.call("admin", "POST", "/v3/subscriptions/filed/resume", "")
	r.call("admin", "POST", "/v3/subscriptions/nothing/resume", "")
	r.call("admin", "DELETE", "/v3/subscriptions/filed", "")
	r.call("admin", "DELETE", "/v3/subscriptions/nothing", "")
	r.call("admin", "DELETE", "/v3/subscriptions/ops", "")
}
