package httpapi

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json/jsontext"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

// Answers are appended to a slice, not marshalled: a payload is copied once, as
// it came, and nothing is looked at by reflection. A test holds each of them
// against its type in wire.go.

func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // an error is text that is no UTF-8: U+FFFD stands for it
	return b
}

// appendTextOrNull writes null for "".
func appendTextOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendText(b, s)
}

func appendFlag(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }

func appendNumber(b []byte, f float64) []byte { return strconv.AppendFloat(b, f, 'g', -1, 64) }

func appendDuration(b []byte, d time.Duration) []byte {
	b = append(b, '"')
	b = append(b, duration.Text(d)...) // digits, letters and a dot
	return append(b, '"')
}

// timeForm is RFC 3339 with milliseconds, of a time in UTC.
const timeForm = `"` + job.TimeForm + `"`

func appendTime(b []byte, t time.Time) []byte { return t.UTC().AppendFormat(b, timeForm) }

// appendTimeOrNull writes null for the zero time.
func appendTimeOrNull(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return appendTime(b, t)
}

// appendValueOrNull writes a JSON value as it stands.
func appendValueOrNull(b, v []byte) []byte {
	if len(v) == 0 {
		return append(b, "null"...)
	}
	return append(b, v...)
}

// detail is how much of a job is told.
type detail int

const (
	withoutAttempts detail = iota
	withAttempts
)

// jobSize guesses how long a job's JSON becomes, a little too much rather than
// too little: a slice that grows is copied.
func jobSize(j *job.Job) int {
	const attempt = 256
	size := jobMembers + j.Content.Size() + len(j.Result) + errorSize(j.LastError) + attempt*len(j.Attempts)
	for i := range j.Attempts {
		size += errorSize(j.Attempts[i].Error)
	}
	return size
}

// jobMembers is what a job's JSON is beside what it carries.
const jobMembers = 1024

func errorSize(e *job.Error) int {
	if e == nil {
		return 0
	}
	return len(e.Type) + len(e.Message) + len(e.Stack)
}

func (a *api) appendJob(b []byte, j *job.Job, d detail) []byte {
	b = appendText(append(b, `{"id":`...), j.ID)
	b = appendText(append(b, `,"queue":`...), j.Queue)
	b = appendText(append(b, `,"task":`...), j.Task)
	b = appendText(append(b, `,"version":`...), j.Version)
	b = appendTextOrNull(append(b, `,"endpoint":`...), j.Endpoint)
	b = appendText(append(b, `,"status":`...), string(j.Status))
	b = appendInt(append(b, `,"priority":`...), j.Priority)
	b = a.appendContent(b, j)
	b = append(b, `,"tags":[`...)
	for i, tag := range j.Tags {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, tag)
	}
	b = appendTrace(append(b, ']'), j.Trace)
	b = appendDuration(append(b, `,"timeout":`...), j.Timeout)
	b = appendTime(append(b, `,"run_at":`...), j.RunAt)
	b = appendTime(append(b, `,"created_at":`...), j.CreatedAt)
	b = appendTimeOrNull(append(b, `,"finished_at":`...), j.FinishedAt)
	b = appendInt(append(b, `,"attempt":`...), j.Attempt)
	b = appendInt(append(b, `,"attempts_charged":`...), j.Counts.Charged)
	b = appendInt(append(b, `,"lost":`...), j.Counts.Lost)
	b = appendInt(append(b, `,"unreceived":`...), j.Counts.Unreceived)
	b = appendPolicy(b, &j.Policy)
	b = appendContract(b, &j.Policy)
	b = appendFlag(append(b, `,"synthetic":`...), j.Kind == job.Synthetic)
	b = appendTextOrNull(append(b, `,"unique":`...), j.Unique)
	b = appendFlag(append(b, `,"dead_letter":`...), j.Reason != "")
	b = appendTextOrNull(append(b, `,"reason":`...), string(j.Reason))
	b = appendValueOrNull(append(b, `,"result":`...), j.Result)
	b = appendError(append(b, `,"last_error":`...), j.LastError)
	if d == withAttempts {
		b = append(b, `,"attempts":[`...)
		for i := range j.Attempts {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendAttempt(b, &j.Attempts[i])
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendContent writes the payload; for a job that was a message, its body and
// the rest of it.
func (a *api) appendContent(b []byte, j *job.Job) []byte {
	b = append(b, `,"payload":`...)
	if j.Content.Head == nil {
		return appendValueOrNull(b, j.Content.Payload)
	}
	switch body := j.Content.Payload; {
	case jsontext.Value(body).IsValid():
		b = append(b, body...)
	case utf8.Valid(body):
		b = append(appendText(b, string(body)), `,"payload_encoding":"text"`...)
	default:
		b = base64.StdEncoding.AppendEncode(append(b, '"'), body)
		b = append(b, `","payload_encoding":"base64"`...)
	}
	m, err := message.DecodeHead(j.Content.Head, j.Content.Payload)
	if err != nil {
		a.log.Error("the head of a job's message can't be read; the job is told without it", "job", j.ID, "error", err)
		return b
	}
	b = appendText(append(b, `,"message":{"id":`...), m.ID)
	b = appendText(append(b, `,"source":`...), m.Source)
	b = appendTime(append(b, `,"time":`...), m.Time)
	b = appendText(append(b, `,"key":`...), m.Key)
	b = appendHeaders(append(b, `,"headers":`...), m.Headers)
	b = appendText(append(b, `,"content_type":`...), m.ContentType)
	return append(b, '}')
}

// appendHeaders writes headers sorted by their names, so that the same message
// always reads the same.
func appendHeaders(b []byte, headers map[string][]string) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(headers)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, name), `:[`...)
		for j, value := range headers[name] {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendText(b, value)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendPolicy(b []byte, s *job.Snapshot) []byte {
	b = appendInt(append(b, `,"retry":{"max_attempts":`...), s.MaxAttempts)
	b = appendDuration(append(b, `,"initial":`...), s.Initial)
	b = appendNumber(append(b, `,"factor":`...), s.Factor)
	b = appendDuration(append(b, `,"max_delay":`...), s.MaxDelay)
	b = appendNumber(append(b, `,"jitter":`...), s.Jitter)
	b = appendText(append(b, `},"retry_from":{"max_attempts":`...), string(s.From.MaxAttempts))
	b = appendText(append(b, `,"initial":`...), string(s.From.Initial))
	b = appendText(append(b, `,"factor":`...), string(s.From.Factor))
	b = appendText(append(b, `,"max_delay":`...), string(s.From.MaxDelay))
	b = appendText(append(b, `,"jitter":`...), string(s.From.Jitter))
	return append(b, '}')
}

// appendContract writes what a job keeps of its task's contract.
func appendContract(b []byte, s *job.Snapshot) []byte {
	if s.Repeat == job.RepeatUnsafe {
		b = append(b, `,"repeat":"unsafe"`...)
	} else {
		b = append(b, `,"repeat":"safe"`...)
	}
	b = appendHash(b, `,"input_schema":"`, &s.Input)
	return appendHash(b, `,"output_schema":"`, &s.Output)
}

// appendHash writes a member for a schema; none for no schema.
func appendHash(b []byte, member string, h *job.SchemaHash) []byte {
	if *h == (job.SchemaHash{}) {
		return b
	}
	return append(hex.AppendEncode(append(b, member...), h[:]), '"')
}

func appendError(b []byte, e *job.Error) []byte {
	if e == nil {
		return append(b, "null"...)
	}
	b = appendText(append(b, `{"type":`...), e.Type)
	b = appendText(append(b, `,"message":`...), e.Message)
	if e.Stack != "" {
		b = appendText(append(b, `,"stack":`...), e.Stack)
	}
	return append(b, '}')
}

func appendAttempt(b []byte, t *job.Attempt) []byte {
	b = appendInt(append(b, `{"number":`...), t.Number)
	b = appendText(append(b, `,"worker":`...), t.Worker)
	b = appendTime(append(b, `,"started_at":`...), t.StartedAt)
	b = append(b, `,"duration_ms":`...)
	if t.EndedAt.IsZero() {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, t.EndedAt.Sub(t.StartedAt).Milliseconds(), 10)
	}
	b = appendTextOrNull(append(b, `,"outcome":`...), string(t.Outcome))
	b = appendFlag(append(b, `,"charged":`...), t.Charged)
	b = appendError(append(b, `,"error":`...), t.Error)
	b = appendTimeOrNull(append(b, `,"next_run_at":`...), t.NextRunAt)
	b = appendTextOrNull(append(b, `,"note":`...), t.Note)
	return append(b, '}')
}

// appendTrace writes a trace context.
func appendTrace(b []byte, t job.Trace) []byte {
	b = appendTextOrNull(append(b, `,"traceparent":`...), t.Parent())
	if state := t.State(); state != "" {
		b = appendText(append(b, `,"tracestate":`...), state)
	}
	return b
}

func (a *api) appendClaim(b []byte, c *store.Claim) []byte {
	b = appendTime(append(b, `{"now":`...), c.Now)
	b = append(b, `,"jobs":[`...)
	for i := range c.Jobs {
		got := &c.Jobs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = a.appendJob(append(b, `{"job":`...), got.Job, withoutAttempts)
		b = appendInt(append(b, `,"attempt":`...), got.Job.Attempt)
		b = appendText(append(b, `,"lease":`...), got.Lease)
		b = strconv.AppendInt(append(b, `,"lease_ms":`...), max(got.LeaseUntil.Sub(c.Now).Milliseconds(), 0), 10) // of a repeat what is left
		b = appendTime(append(b, `,"lease_expires_at":`...), got.LeaseUntil)
		b = appendTime(append(b, `,"deadline":`...), got.Deadline)
		b = appendText(append(b, `,"idempotency_key":`...), got.Job.ID)
		b = append(appendTrace(b, got.Trace), '}')
	}
	return append(b, `]}`...)
}
