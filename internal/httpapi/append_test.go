package httpapi

// What these tests would catch: an answer that is not what its type in wire.go
// says, and so not what the OpenAPI document and every client say; a payload
// that is not the bytes that came; text of a stranger that breaks the JSON.

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

var moment = time.Date(2026, 12, 1, 4, 0, 0, 7e6, time.FixedZone("", 3600))

// richJob has everything that a job can have.
func richJob() *job.Job {
	return &job.Job{
		ID: "job_01k00000000000000000000000", Queue: "emails", Task: "send", Version: "2", Endpoint: "mailer", Priority: -3,
		Content: job.Content{Payload: []byte(`{ "user_id" : 7.0 , "z":"\u00e9" }`)}, Tags: []string{"a", "b:c"},
		Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 a=1,b=2", Timeout: 90 * time.Second,
		Policy: job.Snapshot{
			Policy: job.Policy{MaxAttempts: 8, Initial: 10 * time.Second, Factor: 2.5, MaxDelay: time.Hour, Jitter: 1e-9},
			From:   job.Levels{MaxAttempts: job.LevelJob, Initial: job.LevelQueue, Factor: job.LevelProject, MaxDelay: job.LevelBuiltIn, Jitter: job.LevelJob},
			Repeat: job.RepeatUnsafe, Input: job.SchemaHash(bytes.Repeat([]byte{0xa5}, 32)), Output: job.SchemaHash(bytes.Repeat([]byte{0x0f}, 32)),
		},
		Kind: job.Synthetic, Unique: `invoice "7"`,
		CreatedAt: moment, RunAt: moment.Add(time.Second), FinishedAt: moment.Add(time.Minute), Status: job.Failed, Attempt: 3,
		Counts: job.Counts{Charged: 2, Lost: 1, LostInRow: 1, Unreceived: 4}, Reason: job.ReasonExhausted, Result: []byte(`[1, 2]`),
		LastError: &job.Error{Type: "HttpError", Message: "503 \"no\"\n<b>\u2028", Stack: "at x"},
		Attempts: []job.Attempt{
			{Number: 1, Worker: "worker-1", StartedAt: moment, EndedAt: moment.Add(812 * time.Millisecond), Outcome: job.OutcomeFailed, Charged: true,
				Error: &job.Error{Message: "no type \xff"}, NextRunAt: moment.Add(time.Second), Note: "cut"},
			{Number: 2, Worker: "worker-2", StartedAt: moment},
		},
	}
}

// barelyJob has nothing that it need not have.
func barelyJob() *job.Job {
	return &job.Job{ID: "job_1", Queue: "q", Task: "t", Version: "1", Status: job.Queued, Content: job.Content{Payload: []byte(`null`)}, CreatedAt: moment, RunAt: moment, Policy: job.Resolve()}
}

func messageJob(body string) *job.Job {
	j := barelyJob()
	m := &message.Message{
		ID: "m-1", Source: "hooks", Time: moment, Key: "k", ContentType: "text/x", Body: []byte(body),
		Headers: map[string][]string{"x-b": {"1", "\xff"}, "x-a": {}},
	}
	j.Content = job.Content{Payload: m.Body, Head: message.AppendHead(nil, m)}
	return j
}

// isOf checks that an answer is JSON of the type: nothing that the type does not
// have, nothing left out that it does, and fit for its schema.
func isOf[T any](t *testing.T, answer []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(answer, &v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	again, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ordered(t, again), ordered(t, answer)); diff != "" {
		t.Errorf("the answer is not its type (-type +answer):\n%s", diff)
	}
	fits(t, reflect.TypeFor[T](), answer)
	return v
}

// ordered is JSON with sorted members, in lines.
func ordered(t *testing.T, text []byte) string {
	t.Helper()
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if err := v.Indent(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

// fits checks an answer against the schema of its type.
func fits(t *testing.T, typ reflect.Type, answer []byte) {
	t.Helper()
	registry := huma.NewMapRegistry("#/components/schemas/", namer)
	schema := registry.Schema(typ, true, "")
	var v any
	if err := json.Unmarshal(answer, &v); err != nil {
		t.Fatal(err)
	}
	var found huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, v, &found)
	for _, err := range found.Errors {
		t.Errorf("not as documented: %v in %.300s", err, answer)
	}
}

func silent() *api { return &api{log: slog.New(slog.DiscardHandler)} }

func TestAJobIsWrittenAsItsType(t *testing.T) {
	got := string(silent().appendJob(nil, richJob(), withAttempts))
	want := `{"id":"job_01k00000000000000000000000","queue":"emails","task":"send","version":"2","endpoint":"mailer","status":"failed","priority":-3,` +
		`"payload":{ "user_id" : 7.0 , "z":"\u00e9" },"tags":["a","b:c"],"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=1,b=2",` +
		`"timeout":"1m30s","run_at":"2026-12-01T03:00:01.007Z","created_at":"2026-12-01T03:00:00.007Z","finished_at":"2026-12-01T03:01:00.007Z",` +
		`"attempt":3,"attempts_charged":2,"lost":1,"unreceived":4,` +
		`"retry":{"max_attempts":8,"initial":"10s","factor":2.5,"max_delay":"1h","jitter":1e-09},` +
		`"retry_from":{"max_attempts":"job","initial":"queue","factor":"project","max_delay":"built-in","jitter":"job"},` +
		`"repeat":"unsafe","input_schema":"` + strings.Repeat("a5", 32) + `","output_schema":"` + strings.Repeat("0f", 32) + `","synthetic":true,"unique":"invoice \"7\"",` +
		`"dead_letter":true,"reason":"exhausted","result":[1, 2],"last_error":{"type":"HttpError","message":"503 \"no\"\n<b>` + "\u2028" + `","stack":"at x"},` +
		`"attempts":[{"number":1,"worker":"worker-1","started_at":"2026-12-01T03:00:00.007Z","duration_ms":812,"outcome":"failed","charged":true,` +
		`"error":{"type":"","message":"no type ` + "\ufffd" + `"},"next_run_at":"2026-12-01T03:00:01.007Z","note":"cut"},` +
		`{"number":2,"worker":"worker-2","started_at":"2026-12-01T03:00:00.007Z","duration_ms":null,"outcome":null,"charged":false,"error":null,"next_run_at":null,"note":null}]}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	isOf[Job](t, []byte(got))
	if barely := isOf[Job](t, silent().appendJob(nil, barelyJob(), withoutAttempts)); barely.Endpoint != nil || barely.Attempts != nil || barely.DeadLetter {
		t.Errorf("%+v", barely)
	}
}

func TestAMessageIsToldByWhatItsBodyIs(t *testing.T) {
	for body, want := range map[string][2]string{
		"{\"a\":\n1}":       {"{\"a\":\n1}", ""},
		`"text"`:            {`"text"`, ""},
		"hello \"you\"\x00": {`"hello \"you\"\u0000"`, "text"},
		"":                  {`""`, "text"},
		`{"a":1,"a":2}`:     {`"{\"a\":1,\"a\":2}"`, "text"},
		"\xff\x00":          {`"/wA="`, "base64"},
	} {
		answer := silent().appendJob(nil, messageJob(body), withoutAttempts)
		got := isOf[Job](t, answer)
		if !bytes.Contains(answer, []byte(`"payload":`+want[0]+`,`)) || got.PayloadEncoding != want[1] {
			t.Errorf("%q is told as %s", body, answer)
		}
		m := Message{ID: "m-1", Source: "hooks", Time: "2026-12-01T03:00:00.007Z", Key: "k", Headers: map[string][]string{"x-a": {}, "x-b": {"1", "\ufffd"}}, ContentType: "text/x"}
		if diff := cmp.Diff(&m, got.Message); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	broken := messageJob("x")
	broken.Content.Head = []byte("\xff\xff")
	var log bytes.Buffer
	a := &api{log: slog.New(slog.NewTextHandler(&log, nil))}
	if got := isOf[Job](t, a.appendJob(nil, broken, withoutAttempts)); got.Message != nil || string(got.Payload) != `"x"` || !strings.Contains(log.String(), "job=job_1") {
		t.Errorf("%+v, logged %s", got, &log)
	}
}

func TestAClaimIsWrittenAsItsType(t *testing.T) {
	c := &store.Claim{Now: moment, Jobs: []store.Claimed{
		{Job: richJob(), Lease: "lse_1", LeaseFor: 30 * time.Second, LeaseUntil: moment.Add(30 * time.Second), Deadline: moment.Add(time.Minute)},
		{Job: barelyJob(), Lease: "lse_2", LeaseFor: time.Second, LeaseUntil: moment.Add(300 * time.Millisecond), Deadline: moment}, // asked again
	}}
	got := isOf[Claim](t, silent().appendClaim(nil, c))
	if len(got.Jobs) != 2 || got.Jobs[0].IdempotencyKey != got.Jobs[0].Job.ID || got.Jobs[0].Attempt != 3 || got.Jobs[0].LeaseMS != 30_000 || got.Jobs[1].LeaseMS != 300 ||
		got.Jobs[0].Deadline != "2026-12-01T03:01:00.007Z" || got.Jobs[0].Job.Attempts != nil {
		t.Errorf("%+v", got)
	}
	isOf[Claim](t, silent().appendClaim(nil, &store.Claim{Now: moment}))
}

func TestAnAnswerIsWrittenAsItsType(t *testing.T) {
	for want, a := range map[string]jobserver.Answer{
		`{"status":"ok","job_status":"running","lease_ms":29500,"lease_expires_at":"2026-12-01T03:00:29.507Z","cancel":false}`: {
			Answer: store.Answer{Status: store.ReportTaken, JobStatus: job.Running, LeaseUntil: moment.Add(29500 * time.Millisecond)}},
		`{"status":"ok","job_status":"cancelled","lease_ms":0,"lease_expires_at":"2026-12-01T02:59:59.007Z","cancel":true}`: {
			Answer: store.Answer{Status: store.ReportTaken, JobStatus: job.Cancelled, LeaseUntil: moment.Add(-time.Second), Cancel: true}},
		`{"status":"ok","job_status":"queued","run_at":"2026-12-01T03:00:01.007Z"}`: {
			Answer: store.Answer{Status: store.ReportTaken, JobStatus: job.Queued, RunAt: moment.Add(time.Second)}},
		`{"status":"ok","job_status":"succeeded"}`: {Answer: store.Answer{Status: store.ReportTaken, JobStatus: job.Succeeded}},
		`{"status":"lease_lost"}`:                  {Answer: store.Answer{Status: store.LeaseLost}},
		`{"status":"invalid","detail":"\"why\""}`:  {Answer: store.Answer{Status: jobserver.Invalid}, Detail: `"why"`},
	} {
		got := appendAnswer(nil, &a, moment)
		if string(got) != want {
			t.Errorf("%s\nis not\n%s", got, want)
		}
		isOf[ReportResult](t, got)
	}
}
