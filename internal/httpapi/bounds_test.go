package httpapi

// What these tests would catch: a bound that the document says and the server does
// not hold, or holds elsewhere; a member that is taken though nobody knows it; a
// kind of value that is taken for another.

import (
	"encoding/json/v2"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wrongBody is a body with one thing wrong at a pointer.
type wrongBody struct {
	what, pointer string
	body          any
}

// TestTheBoundsOfTheDocumentHold walks the schema of every body. To an example
// that is good it does each thing that the schema forbids, one at a time, and wants
// it refused where it is.
func TestTheBoundsOfTheDocumentHold(t *testing.T) {
	r := newRig(t)
	c := newContract(t, r)
	tried := 0
	for path, item := range c.doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			op := op.(map[string]any)
			takes, ok := op["requestBody"].(map[string]any)
			if !ok {
				continue
			}
			id := op["operationId"].(string)
			schema := takes["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
			var wrong []wrongBody
			c.forbid(schema, example(t, id), "", func(v any) any { return v }, &wrong)
			if len(wrong) < 2 {
				t.Errorf("%s: the schema forbids nothing: %v", id, wrong)
			}
			for _, w := range wrong {
				tried++
				text, err := json.Marshal(w.body)
				if err != nil {
					t.Fatal(err)
				}
				a := r.call("admin", strings.ToUpper(method), pathExamples.Replace(path), string(text))
				if why := refusedAt(a, w.pointer); why != "" {
					t.Errorf("%s with %s: %s\n%.300s", id, w.what, why, text)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d bodies were tried", tried)
	}
}

// example is a good body of a call with everything in it that has bounds.
func example(t *testing.T, id string) (v any) {
	t.Helper()
	text, ok := wholeExamples[id]
	if !ok {
		text = bodyExamples[id]
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s has no example: %v", id, err)
	}
	return v
}

// refusedAt says in how far an answer does not refuse what is at the pointer.
func refusedAt(a answer, pointer string) string {
	if a.status == 200 { // reports are answered each by itself
		var got ReportAnswer
		if err := json.Unmarshal(a.body, &got); err == nil && len(got.Results) > 0 && got.Results[0].Status == "invalid" {
			return ""
		}
	}
	if a.status != 422 {
		return fmt.Sprintf("answered %d %.300s", a.status, a.body)
	}
	var p Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		return err.Error()
	}
	for _, f := range p.Errors {
		if f.Pointer == pointer {
			return ""
		}
	}
	return fmt.Sprintf("refused elsewhere than at %s: %+v", pointer, p.Errors)
}

// forbid adds what a schema forbids of a value that is at the pointer; set makes the
// whole body with another value there.
func (c *contract) forbid(schema map[string]any, v any, at string, set func(any) any, all *[]wrongBody) {
	c.Helper()
	schema = c.resolve(schema)
	add := func(what string, v any) { *all = append(*all, wrongBody{at + ": " + what, at, set(v)}) }
	number := func(name string) (float64, bool) {
		n, ok := schema[name]
		if !ok {
			return 0, false
		}
		f, err := strconv.ParseFloat(fmt.Sprint(n), 64)
		return f, err == nil
	}
	if n, ok := number("minimum"); ok {
		add("less than its minimum", n-1)
	}
	if n, ok := number("maximum"); ok {
		add("more than its maximum", n+1)
	}
	if n, ok := number("maxLength"); ok {
		add("longer than its maxLength", strings.Repeat("a", int(n)+1))
	}
	if n, ok := number("minLength"); ok {
		add("shorter than its minLength", strings.Repeat("a", int(n)-1))
	}
	if n, ok := number("maxItems"); ok {
		add("more than its maxItems", slices.Repeat(v.([]any)[:1], int(n)+1))
	}
	if n, ok := number("minItems"); ok && n > 0 {
		add("fewer than its minItems", []any{})
	}
	if schema["enum"] != nil {
		add("none of its enum", "bogus")
	}
	if schema["pattern"] != nil {
		add("not of its pattern", "no such thing!")
	}
	switch schema["type"] {
	case "object":
		add("no object", 7.0)
		c.forbidMembers(schema, v.(map[string]any), at, set, all)
	case "array":
		add("no array", "x")
		items := v.([]any)
		c.forbid(schema["items"].(map[string]any), items[0], at+"/0", func(v any) any {
			return set(append([]any{v}, items[1:]...))
		}, all)
	case "string":
		add("no text", 7.0)
	case "integer", "number":
		add("no number", "x")
	case "boolean":
		add("no boolean", "x")
	}
}

func (c *contract) forbidMembers(schema, v map[string]any, at string, set func(any) any, all *[]wrongBody) {
	c.Helper()
	with := func(name string, value any) any {
		other := maps.Clone(v)
		other[name] = value
		return set(other)
	}
	properties, _ := schema["properties"].(map[string]any)
	if schema["additionalProperties"] != false {
		c.Errorf("%s: unknown members are not forbidden", at)
	}
	*all = append(*all, wrongBody{at + ": a member that nobody knows", at + "/bogus", with("bogus", 1.0)})
	for name, property := range properties {
		value, there := v[name]
		if !there {
			c.Errorf("%s/%s is not in the example", at, name)
			continue
		}
		c.forbid(property.(map[string]any), value, at+"/"+name, func(value any) any { return with(name, value) }, all)
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		other := maps.Clone(v)
		delete(other, name.(string))
		*all = append(*all, wrongBody{at + " without " + name.(string), at + "/" + name.(string), set(other)})
	}
}

// resolve follows a reference.
func (c *contract) resolve(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	return c.doc["components"].(map[string]any)["schemas"].(map[string]any)[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any)
}

// wholeExamples are good bodies with every member.
var wholeExamples = map[string]string{
	"createJob": wholeJob, "createJobs": `{"jobs":[` + strings.TrimSuffix(wholeJob, "}") + `,"idempotency_key":"k"}]}`,
	"retryJob":      `{"accept_uncertain":true}`,
	"putQueue":      `{"lease":"30s","timeout":"1m","concurrency":1,"retry":` + wholeRetry + `}`,
	"putTask":       `{"endpoint":"mailer","timeout":"1m","repeat":"safe","retry":` + wholeRetry + `,"input_schema":{},"output_schema":true,"update":true}`,
	"putEndpoint":   `{"concurrency":1,"rate":{"per_second":1,"burst":1},"circuit":{"failures":1,"cooldown":"1m"},"retry":` + wholeRetry + `}`,
	"previewReplay": wholeReplay, "createReplay": wholeReplay,
	"createSubscription": `{"name":"ops","url":"https://example.com/hook","events":["job.failed"],"queues":["emails"],"secret":"whsec_` + strings.Repeat("AAAA", 8) + `"}`,
	"claimJobs":          `{"worker":"worker-1","queues":["emails"],"tasks":["a@b"],"max":1,"wait":"0s","claim_id":"c"}`,
	"report": `{"worker":"worker-1","reports":[{"lease":"x","type":"fail","error":{"type":"T","message":"m","stack":"s"},"retryable":true,"retry_in":"1s","retry_after":"1s",
		"endpoint":"ok","effect":"unknown","lines":[{"seq":1,"at":"2026-12-01T03:00:00Z","level":"info","message":"m"}],"result":1}]}`,
}

const wholeJob = `{"queue":"emails","task":"send","version":"1","endpoint":"mailer","payload":1,"priority":1,"run_at":"2026-12-01T03:00:00Z","delay":"1s","timeout":"1m",
	"retry":` + wholeRetry + `,"tags":["a"],"unique":"u","synthetic":true}`

const (
	wholeRetry  = `{"max_attempts":3,"initial":"1s","factor":2,"max_delay":"1m","jitter":0.5}`
	wholeReplay = `{"action":"retry","accept_uncertain":true,"per_second":1,"stop_share":0.5,"review":true,"filter":{"queue":"emails","task":"t","endpoint":"e","status":"failed",
		"reason":"uncertain","tag":"a","created_after":"2026-12-01T03:00:00Z","created_before":"2026-12-01T03:00:00Z","failed_after":"2026-12-01T03:00:00Z","failed_before":"2026-12-01T03:00:00Z"}}`
)

func TestAWaitOfAnyLengthIsCut(t *testing.T) {
	r := newRig(t)
	made := r.make(aJob)
	got := r.report(`{"lease":"` + r.take().Lease + `","type":"fail","retry_in":"300000d","retry_after":"99999999999s"}`)
	job := r.fetch(made.ID)
	if got[0].Status != "ok" || len(job.Attempts) != 1 || job.Attempts[0].Note == nil || !strings.Contains(*job.Attempts[0].Note, "retry_after of ") ||
		!strings.Contains(*job.Attempts[0].Note, "was cut to 30d") {
		t.Errorf("%+v, then %+v", got, job)
	}
}
