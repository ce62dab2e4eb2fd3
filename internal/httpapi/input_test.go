package httpapi

// What these tests would catch: a limit that does not hold, or is told without
// its number; a fault that is told at the wrong place, or by another problem
// than clients rely on; a body that is taken though it does not say that it is
// JSON; a web page that can make a browser call the API.

import (
	"bufio"
	"encoding/json/jsontext"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/problem"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestLimits has each limit of the API once: what just fits, what is too much,
// and what is said then.
func TestLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := func(n int) string { return strings.Repeat("n", n) }
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	job := func(members string) string { return `{"queue":"emails","task":"t","payload":1` + members + `}` }
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tags := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"t%d"`, i))
		}
		return strings.Join(all, ",")
	}
	batch := func(n int) string { return `{"jobs":[` + strings.Repeat(job("")+",", n-1) + job("") + `]}` }
	claim := func(members string) string {
		return `{"worker":"worker-1","queues":["emails"],"wait":"0s"` + members + `}`
	}
	for _, c := range []struct {
		limit, path string
		fits, over  string
		key         string // an idempotency key, for over and fits
		problem     problem.Type
		says        []string
	}{
		{"payload", "/v3/jobs", `{"queue":"emails","task":"t","payload":` + text(1<<20) + `}`, `{"queue":"emails","task":"t","payload":` + text(1<<20+1) + `}`, "",
			problem.TooLarge, []string{"/payload", "has 1048577 bytes; 1048576 are allowed"}},
		{"payload in a batch", "/v3/jobs/batch", `{"jobs":[{"queue":"emails","task":"t","payload":` + text(1<<20) + `}]}`, `{"jobs":[` + job("") + `,{"queue":"emails","task":"t","payload":` + text(1<<20+1) + `}]}`, "",
			problem.TooLarge, []string{"/jobs/1/payload", "has 1048577 bytes; 1048576 are allowed"}},
		{"depth", "/v3/jobs", `{"queue":"emails","task":"t","payload":` + nested(100) + `}`, `{"queue":"emails","task":"t","payload":` + nested(101) + `}`, "",
			problem.BadRequest, []string{"/payload", "the value is nested deeper than 100 levels"}},
		{"depth in a batch", "/v3/jobs/batch", `{"jobs":[{"queue":"emails","task":"t","payload":` + nested(100) + `}]}`, `{"jobs":[{"queue":"emails","task":"t","payload":` + nested(101) + `}]}`, "",
			problem.BadRequest, []string{"/jobs/0/payload", "the value is nested deeper than 100 levels"}},
		{"jobs of a batch", "/v3/jobs/batch", batch(1000), batch(1001), "", problem.Invalid, []string{"/jobs", "1001 jobs are too many; 1000 are allowed"}},
		{"names", "/v3/jobs", job(`,"version":"` + name(128) + `"`), job(`,"version":"` + name(129) + `"`), "", problem.Invalid, []string{"/version", "is longer than 128 characters"}},
		{"tags", "/v3/jobs", job(`,"tags":[` + tags(16) + `]`), job(`,"tags":[` + tags(17) + `]`), "", problem.Invalid, []string{"/tags", "17 tags are too many; 16 are allowed"}},
		{"priority", "/v3/jobs", job(`,"priority":100`), job(`,"priority":101`), "", problem.Invalid, []string{"/priority", "must be from -100 to 100, not 101"}},
		{"priority below", "/v3/jobs", job(`,"priority":-100`), job(`,"priority":-101`), "", problem.Invalid, []string{"/priority", "must be from -100 to 100, not -101"}},
		{"delay", "/v3/jobs", job(`,"delay":"366d"`), job(`,"delay":"366d1s"`), "", problem.Invalid, []string{"/delay", "must be from 0s to 366d, not 366d1s"}},
		{"spaces of a duration", "/v3/jobs", job(`,"delay":"1s"`), job(`,"delay":" 1s"`), "", problem.Invalid, []string{"/delay", `must be a duration such as 250ms, 30s, 5m, 2h or 7d, not " 1s"`}},
		{"timeout", "/v3/jobs", job(`,"timeout":"24h"`), job(`,"timeout":"24h1ms"`), "", problem.Invalid, []string{"/timeout", "must be from 1s to 1d, not 1d1ms"}},
		{"timeout below", "/v3/jobs", job(`,"timeout":"1s"`), job(`,"timeout":"999ms"`), "", problem.Invalid, []string{"/timeout", "must be from 1s to 1d, not 999ms"}},
		{"max_attempts", "/v3/jobs", job(`,"retry":{"max_attempts":50}`), job(`,"retry":{"max_attempts":51}`), "", problem.Invalid, []string{"/retry/max_attempts", "must be from 1 to 50, not 51"}},
		{"initial", "/v3/jobs", job(`,"retry":{"initial":"24h","max_delay":"30d"}`), job(`,"retry":{"initial":"25h","max_delay":"31d","factor":0.5,"jitter":1.1}`), "", problem.Invalid,
			[]string{"/retry/initial", "must be from 0s to 24h, not 1d1h", "/retry/factor", "must be from 1 to 100, not 0.5", "/retry/max_delay", "must be from 0s to 30d, not 31d", "/retry/jitter", "must be from 0 to 1, not 1.1"}},
		{"key", "/v3/jobs", job(""), job(""), strings.Repeat("k", 256), problem.Invalid, []string{KeyHeader, "is longer than 256 bytes"}},
		{"claim's jobs", "/v3/claims", claim(`,"max":1000`), claim(`,"max":1001`), "", problem.Invalid, []string{"/max", "must be from 1 to 1000, not 1001"}},
		{"claim's queues", "/v3/claims", claim(``), `{"worker":"worker-1","queues":[` + strings.Repeat(`"emails",`, 100) + `"emails"]}`, "", problem.Invalid, []string{"/queues", "101 queues are too many; 100 are allowed"}},
		{"claim's tasks", "/v3/claims", claim(`,"tasks":[` + strings.Repeat(`"t",`, 999) + `"t"]`), claim(`,"tasks":[` + strings.Repeat(`"t",`, 1000) + `"t"]`), "", problem.Invalid, []string{"/tasks", "1001 tasks are too many; 1000 are allowed"}},
		{"claim id", "/v3/claims", claim(`,"claim_id":"` + name(256) + `"`), claim(`,"claim_id":"` + name(257) + `"`), "", problem.Invalid, []string{"/claim_id", "is longer than 256 bytes"}},
	} {
		var fits, over []string
		if c.key != "" {
			fits, over = []string{KeyHeader, c.key}, []string{KeyHeader, c.key + "k"}
		}
		if a := r.call("admin", "POST", c.path, c.fits, fits...); a.status > 201 {
			t.Errorf("%s: what fits is answered %d: %.300s", c.limit, a.status, a.body)
		}
		a := r.call("admin", "POST", c.path, c.over, over...)
		t.Log(c.limit)
		a.fails(c.problem).faults(t, c.says...)
	}
}

func TestARequestIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := `{"queue":"emails","task":"t","payload":` + strings.Repeat(" ", MaxRequest) + `1}`
	for _, headers := range [][]string{nil, {"Content-Length", ""}} {
		d := r.call("produce", "POST", "/v3/jobs", body, headers...).fails(problem.TooLarge)
		if !strings.Contains(d.Detail, "16777216") {
			t.Error(d.Detail)
		}
	}
	// A body without a length, as long as may be and one byte longer.
	for extra, status := range []int{201, 413} {
		space := strings.Repeat(" ", MaxRequest-len(aJob)+extra)
		req, _ := http.NewRequestWithContext(t.Context(), "POST", r.url+"/v3/jobs", onlyReader{strings.NewReader(aJob + space)})
		req.Header.Set("Authorization", "Bearer "+r.secret["produce"])
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%d bytes too many: %d", extra, resp.StatusCode)
		}
	}
}

// A caller that reads only once it has sent everything is told as well.
func TestTooLargeIsToldToWhoDoesNotReadWhileSending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const size = MaxRequest + 4<<20
	for name, lines := range map[string]string{"with its length": fmt.Sprintf("Content-Length: %d\r\n", size), "in chunks": "Transfer-Encoding: chunked\r\n"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		body := strings.Repeat(" ", size)
		if name == "in chunks" {
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
		}
		if _, err := io.WriteString(c, "POST /v3/jobs HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nAuthorization: Bearer "+r.secret["produce"]+"\r\n"+lines+"\r\n"+body); err != nil {
			t.Fatalf("%s: it can't be sent: %v", name, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if resp.StatusCode != 413 || !resp.Close {
			t.Errorf("%s: answered %s, close %t", name, resp.Status, resp.Close)
		}
	}
}

// onlyReader hides a reader's length.
type onlyReader struct{ *strings.Reader }

func (onlyReader) Len() {}

func TestABodySaysThatItIsJSON(t *testing.T) {
	r := newRig(t)
	for given, want := range map[string]int{
		"application/json": 201, "application/json; charset=utf-8": 201, "Application/JSON;charset=UTF-8": 201,
		"application/json; charset=latin1": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "": 415, "application/json;": 201, "application/jsonp": 415, ";": 415,
	} {
		if a := r.call("produce", "POST", "/v3/jobs", aJob, "Content-Type", given); a.status != want {
			t.Errorf("%q is answered %d: %s", given, a.status, a.body)
		}
	}
	a := r.call("produce", "POST", "/v3/jobs", aJob, "Content-Encoding", "gzip")
	a.fails(problem.UnsupportedMedia)
	if a.header.Get("Accept-Encoding") != "identity" {
		t.Error(a.header)
	}
	if a := r.call("produce", "POST", "/v3/jobs", aJob, "Content-Encoding", "identity"); a.status != 201 {
		t.Errorf("%s", a.body)
	}
}

func TestEverythingThatIsWrongIsToldAtOnce(t *testing.T) {
	r := newRig(t)
	r.call("produce", "POST", "/v3/jobs", `{"quue":"emails","task":7,"version":"","payload":{},"priority":"high","run_at":"soon","delay":5,"timeout":"5","retry":{"max":1,"factor":"2"},
		"tags":"a","uniqe":1,"unique":{},"synthetic":"yes","endpoint":null}`).fails(problem.Invalid).faults(t,
		"/quue", `unknown member; did you mean "queue"?`,
		"/task", "must be a text, not a number",
		"/version", "is empty; leave it out instead",
		"/priority", "must be a whole number, not a text",
		"/run_at", `must be a time in RFC 3339 such as 2026-12-01T03:00:00Z, not "soon"`,
		"/delay", `must be a duration written as text, such as "30s", not a number`,
		"/timeout", `must be a duration such as 250ms, 30s, 5m, 2h or 7d, not "5"`,
		"/retry/max", "unknown member; known are max_attempts, initial, factor, max_delay, jitter",
		"/retry/factor", "must be a number, not a text",
		"/tags", "must be an array, not a text",
		"/uniqe", "unknown member; known are queue, task, version, endpoint, payload, priority, run_at, delay, timeout, retry, tags, unique, synthetic",
		"/unique", "must be a text, not an object",
		"/synthetic", "must be true or false, not a text",
		"/endpoint", "must be a text, not null (leave it out instead)",
		// What was read is looked at all the same.
		"/queue", "is missing")
	r.call("produce", "POST", "/v3/jobs/batch", `{"jobs":[{"queue":"emials","task":7,"payload":1,"tags":["a b",3]},7,{"queue":"emails","task":"t","payload":1,"timeout":"1ms","prio":1}]}`).
		fails(problem.Invalid).faults(t,
		"/jobs/0/task", "must be a text, not a number",
		"/jobs/0/tags/1", "must be a text, not a number",
		"/jobs/1", "must be an object, not a number",
		"/jobs/2/prio", `unknown member; did you mean "priority"?`,
		"/jobs/0/queue", `unknown queue "emials"; did you mean "emails"?`,
		"/jobs/0/tags/0", "may hold A-Z, a-z, 0-9 and . _ : - only",
		"/jobs/2/timeout", "must be from 1s to 1d, not 1ms")
	r.call("produce", "POST", "/v3/jobs", `{"queue":"emials","version":"a b","run_at":"2027-01-01T00:00:00Z","delay":"1s","tags":["a","a"],"endpoint":"é"}`).fails(problem.Invalid).faults(t,
		"/queue", `unknown queue "emials"; did you mean "emails"?`,
		"/task", "is missing",
		"/version", "may hold A-Z, a-z, 0-9 and . _ : - only",
		"/endpoint", "may hold A-Z, a-z, 0-9 and . _ : - only",
		"/payload", "is missing; a job that carries nothing says null",
		"/tags/1", "is there twice",
		"/delay", "can't be said beside run_at")
	// A time that a program did not set is no filter that lets everything pass.
	const unset = "0001-01-01T00:00:00Z"
	r.call("produce", "POST", "/v3/jobs", `{"queue":"emails","task":"t","payload":1,"run_at":"`+unset+`"}`).fails(problem.Invalid).faults(t, "/run_at", wirejson.ZeroTime)
	for _, member := range []string{"created_after", "created_before", "failed_after", "failed_before"} {
		r.call("operate", "POST", "/v3/replays", `{"action":"delete","filter":{"`+member+`":"`+unset+`"}}`).fails(problem.Invalid).faults(t, "/filter/"+member, wirejson.ZeroTime)
	}
	r.call("operate", "GET", "/v3/jobs?created_after="+unset+"&created_before="+unset, "").fails(problem.Invalid).faults(t,
		"created_after", wirejson.ZeroTime, "created_before", wirejson.ZeroTime)
	r.call("produce", "POST", "/v3/jobs", `[]`).fails(problem.Invalid).faults(t, "", "must be an object, not an array")
	r.call("produce", "POST", "/v3/jobs", aJob, KeyHeader, "a\tb").fails(problem.Invalid).faults(t, KeyHeader, "must be UTF-8 without control characters")
	for _, path := range []string{"/v3/jobs/job_1?x=1", "/v3/jobs/job_1/attempts/1/logs?x=1", "/v3/queues?x=1"} {
		r.call("admin", "GET", path, "").fails(problem.Invalid)
	}
	r.call("operate", "GET", "/v3/queues?a=%zz", "").fails(problem.Invalid)
	r.call("produce", "POST", "/v3/jobs?queue=emails", aJob).fails(problem.Invalid).faults(t, "queue", "unknown; this call has no parameters")
	r.call("", "GET", "/v3/openapi.json?x", "").fails(problem.Invalid)
}

// TestProblemsAreWhatClientsRelyOn holds whole problem documents against golden
// files: one of each kind.
func TestProblemsAreWhatClientsRelyOn(t *testing.T) {
	r := newRig(t)
	r.make(aJob, KeyHeader, "k-1")
	for name, a := range map[string]answer{
		"no-json":         r.call("produce", "POST", "/v3/jobs", `{"queue":"emails",,}`),
		"no-body":         r.call("produce", "POST", "/v3/jobs", "", "Content-Type", "application/json"),
		"duplicate":       r.call("produce", "POST", "/v3/jobs", `{"queue":"emails","payload":{"a":[{"b":1,"b":2}]}}`),
		"nul":             r.call("produce", "POST", "/v3/jobs", `{"queue":"emails","payload":{"a":"x\u0000"}}`),
		"not-utf8":        r.call("produce", "POST", "/v3/jobs", "{\"queue\":\"emails\",\"payload\":{\"a\":\"x\xff\"}}"),
		"too-deep":        r.call("produce", "POST", "/v3/jobs", `{"payload":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`),
		"too-large":       r.call("produce", "POST", "/v3/jobs", `{"payload":"`+strings.Repeat("x", 1<<20)+`"}`),
		"invalid":         r.call("produce", "POST", "/v3/jobs", `{"queue":"emials","payload":1}`),
		"parameter":       r.call("operate", "GET", "/v3/jobs?limit=0", ""),
		"key-conflict":    r.call("produce", "POST", "/v3/jobs", `{"queue":"emails","task":"send","payload":0}`, KeyHeader, "k-1"),
		"no-key":          r.call("", "GET", "/v3/jobs", ""),
		"wrong-key":       r.call("", "GET", "/v3/jobs", "", "Authorization", "Bearer pawl_"+strings.Repeat("x", 43)),
		"no-scope":        r.call("produce", "GET", "/v3/jobs", ""),
		"other-queue":     r.call("mail", "POST", "/v3/claims", `{"worker":"worker-1","queues":["reports"]}`),
		"not-found":       r.call("produce", "GET", "/v3/jobs/job_01k00000000000000000000000", ""),
		"no-path":         r.call("", "GET", "/v3/nothing", ""),
		"no-name":         r.call("operate", "PUT", "/v3/endpoints//pause", `{}`),
		"no-method":       r.call("", "PUT", "/v3/jobs", aJob),
		"no-content-type": r.call("produce", "POST", "/v3/jobs", aJob, "Content-Type", "text/plain"),
	} {
		if a.header.Get("Content-Type") != problem.MediaType || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", name, a.header)
		}
		got := jsontext.Value(slices.Clone(a.body))
		if err := got.Indent(); err != nil {
			t.Fatal(err)
		}
		golden(t, "problem-"+name+".json", strings.ReplaceAll(string(got), r.known(), "job_…")+"\n")
	}
	if allow := r.call("", "PUT", "/v3/jobs", aJob).header.Get("Allow"); allow != "GET, HEAD, POST" {
		t.Error(allow)
	}
	if how := r.call("", "GET", "/v3/jobs", "").header.Get("WWW-Authenticate"); how != `Bearer realm="pawl"` {
		t.Error(how)
	}
}

// known is the id of the newest job.
func (r *rig) known() string {
	r.Helper()
	return is[Jobs](r.call("operate", "GET", "/v3/jobs?limit=1", ""), 200).Jobs[0].ID
}

// goldenProblem holds a problem document against a file, in which the id of the job
// is left out.
func goldenProblem(t *testing.T, name string, a answer, id string) {
	t.Helper()
	if a.header.Get("Content-Type") != problem.MediaType || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: %v", name, a.header)
	}
	got := jsontext.Value(slices.Clone(a.body))
	if err := got.Indent(); err != nil {
		t.Fatal(err)
	}
	golden(t, "problem-"+name+".json", named(string(got), id)+"\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is not\n%s\nbut\n%s", file, want, got)
	}
}

// named leaves the id of a job out; "" is none.
func named(text, id string) string {
	if id == "" {
		return text
	}
	return strings.ReplaceAll(text, id, "job_…")
}
