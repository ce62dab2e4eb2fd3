package httpapi

import (
	"encoding/json/jsontext"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// The bodies of requests and answers. Durations are text such as 1m30s or 7d;
// times are RFC 3339 in UTC with milliseconds. Members of a request that may be
// left out have omitzero; members of an answer are always there, null where
// there is nothing to say, but for those with omitzero.

// Time is a moment as text: RFC 3339.
type Time string

// wireTime writes a moment as the API has it.
func wireTime(t time.Time) Time { return Time(t.UTC().Format("2006-01-02T15:04:05.000Z")) }

// Schema is its form in the OpenAPI document.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// Duration is a length of time as text.
type Duration string

// Schema is its form in the OpenAPI document.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: durationPattern, Examples: []any{"30s"}}
}

// durationPattern is loose: a Go duration with d for days.
const durationPattern = `^([0-9.]+d)?([0-9.]+(h|m|s|ms|us|µs|ns))*$|^0$`

// Value is a JSON value of any kind.
type Value jsontext.Value

// Schema is its form in the OpenAPI document.
func (Value) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Description: "Any JSON value."} }

// MarshalJSONTo writes the value as it is.
func (v Value) MarshalJSONTo(enc *jsontext.Encoder) error {
	if v == nil {
		return enc.WriteToken(jsontext.Null)
	}
	return enc.WriteValue(jsontext.Value(v))
}

// UnmarshalJSONFrom takes the next value as it is.
func (v *Value) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	next, err := dec.ReadValue()
	*v = append((*v)[:0], next...)
	return err
}

// Retry is what a request says of a policy; what it leaves out comes from a
// less specific level.
type Retry struct {
	MaxAttempts *int      `json:"max_attempts,omitzero" minimum:"1" maximum:"50" doc:"Counts the first attempt: 1 never retries."`
	Initial     *Duration `json:"initial,omitzero" doc:"The first wait: 0s to 24h."`
	Factor      *float64  `json:"factor,omitzero" minimum:"1" maximum:"100" doc:"How much longer each next wait is."`
	MaxDelay    *Duration `json:"max_delay,omitzero" doc:"The longest wait: up to 30d."`
	Jitter      *float64  `json:"jitter,omitzero" minimum:"0" maximum:"1" doc:"By which share each wait is spread up and down."`
}

// NewJob is a job to create.
type NewJob struct {
	Queue    string    `json:"queue" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	Task     string    `json:"task" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	Version  string    `json:"version,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"Of the task; 1 unless said."`
	Endpoint string    `json:"endpoint,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The outside service that the task calls."`
	Payload  Value     `json:"payload" doc:"Any JSON value of at most 1 MiB. It is kept and handed out as the bytes that came."`
	Priority int       `json:"priority,omitzero" minimum:"-100" maximum:"100" doc:"Higher goes first; 0 unless said."`
	RunAt    *Time     `json:"run_at,omitzero" doc:"Not before this moment. Not together with delay."`
	Delay    *Duration `json:"delay,omitzero" doc:"Not before this much time has passed: up to 366d."`
	Timeout  *Duration `json:"timeout,omitzero" doc:"Of one attempt: 1s to 24h; the queue's unless said."`
	Retry    *Retry    `json:"retry,omitzero"`
	Tags     []string  `json:"tags,omitzero" maxItems:"16" nullable:"false"`
}

// BatchItem is a job of a batch.
type BatchItem struct {
	NewJob
	IdempotencyKey string `json:"idempotency_key,omitzero" maxLength:"256" doc:"As the header Idempotency-Key of a single job: up to 256 bytes without control characters."`
}

// Batch is a request for several jobs: all of them or none.
type Batch struct {
	Jobs []BatchItem `json:"jobs" minItems:"1" maxItems:"1000" nullable:"false"`
}

// BatchAnswer has the jobs of a batch in its order.
type BatchAnswer struct {
	Jobs []BatchJob `json:"jobs" nullable:"false"`
}

// BatchJob is a job that a batch made or found.
type BatchJob struct {
	ID    string `json:"id"`
	Found bool   `json:"found" doc:"Whether its idempotency key named it already."`
}

// Job is a job.
type Job struct {
	ID              string     `json:"id"`
	Queue           string     `json:"queue"`
	Task            string     `json:"task"`
	Version         string     `json:"version"`
	Endpoint        *string    `json:"endpoint" nullable:"true"`
	Status          job.Status `json:"status" enum:"queued,running,succeeded,failed,cancelled"`
	Priority        int        `json:"priority"`
	Payload         Value      `json:"payload"`
	PayloadEncoding string     `json:"payload_encoding,omitzero" enum:"text,base64" doc:"How payload stands for the body of a message that is no JSON: as text, or as base64. Left out where payload is the JSON itself."`
	Message         *Message   `json:"message,omitzero" doc:"For a job that the relay made of a message."`
	Tags            []string   `json:"tags" nullable:"false"`
	Traceparent     *string    `json:"traceparent" nullable:"true"`
	Timeout         Duration   `json:"timeout" doc:"Of one attempt."`
	RunAt           Time       `json:"run_at" doc:"When it may run next, or could at its last claim."`
	CreatedAt       Time       `json:"created_at"`
	FinishedAt      *Time      `json:"finished_at" nullable:"true"`
	Attempt         int        `json:"attempt" doc:"The number of the newest attempt; 0 before the first. It only grows."`
	AttemptsCharged int        `json:"attempts_charged" doc:"What max_attempts counts."`
	Lost            int        `json:"lost" doc:"Attempts whose worker fell silent."`
	Unreceived      int        `json:"unreceived" doc:"Attempts that no worker ever reported anything of."`
	Retry           Policy     `json:"retry"`
	RetryFrom       PolicyFrom `json:"retry_from"`
	DeadLetter      bool       `json:"dead_letter"`
	Reason          *string    `json:"reason" nullable:"true" enum:"exhausted,non_retryable,output_schema,lost,uncertain" doc:"Why it is a dead letter."`
	Result          Value      `json:"result"`
	LastError       *Error     `json:"last_error"`
	Attempts        []Attempt  `json:"attempts,omitzero" nullable:"false" doc:"Where one job was asked for. Numbers grow and may have gaps: of hand-backs of the relay in a row the newest is kept, and its note counts them; a hand-back that lies 100 attempts back is dropped, and of all attempts the newest 1,000 are shown."`
}

// TransformSchema says where null may stand.
func (Job) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "reason", "last_error")
}

// orNull lets null be the value of members that are objects or one of a few
// words, which huma's tags have no way to say.
func orNull(s *huma.Schema, members ...string) *huma.Schema {
	for _, name := range members {
		member := s.Properties[name]
		if member.Ref == "" {
			member.Enum = append(member.Enum, nil)
			continue
		}
		s.Properties[name] = &huma.Schema{Description: member.Description, AnyOf: []*huma.Schema{{Ref: member.Ref}, {Type: "null"}}}
	}
	return s
}

// Message is what a relayed message had beside its body.
type Message struct {
	ID          string              `json:"id"`
	Source      string              `json:"source"`
	Time        Time                `json:"time"`
	Key         string              `json:"key"`
	Headers     map[string][]string `json:"headers"`
	ContentType string              `json:"content_type"`
}

// Policy is how a job is retried, as it was resolved when it was created.
type Policy struct {
	MaxAttempts int      `json:"max_attempts"`
	Initial     Duration `json:"initial"`
	Factor      float64  `json:"factor"`
	MaxDelay    Duration `json:"max_delay"`
	Jitter      float64  `json:"jitter"`
}

// PolicyFrom is the level that each value of a policy comes from.
type PolicyFrom struct {
	MaxAttempts job.Level `json:"max_attempts" enum:"job,task,endpoint,queue,project,built-in"`
	Initial     job.Level `json:"initial" enum:"job,task,endpoint,queue,project,built-in"`
	Factor      job.Level `json:"factor" enum:"job,task,endpoint,queue,project,built-in"`
	MaxDelay    job.Level `json:"max_delay" enum:"job,task,endpoint,queue,project,built-in"`
	Jitter      job.Level `json:"jitter" enum:"job,task,endpoint,queue,project,built-in"`
}

// Error is what a worker said of a failure.
type Error struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitzero"`
}

// ReportedError is what a worker says of a failure. Texts are cleaned and cut,
// never refused.
type ReportedError struct {
	Type    string `json:"type,omitzero" doc:"Kept to 256 bytes."`
	Message string `json:"message,omitzero" doc:"Kept to 8 KiB."`
	Stack   string `json:"stack,omitzero" doc:"Kept to 32 KiB."`
}

// Attempt is one try.
type Attempt struct {
	Number     int     `json:"number"`
	Worker     string  `json:"worker"`
	StartedAt  Time    `json:"started_at"`
	DurationMS *int64  `json:"duration_ms" nullable:"true" doc:"Null while it runs."`
	Outcome    *string `json:"outcome" nullable:"true" enum:"succeeded,failed,timed_out,lost,unreceived,released,cancelled" doc:"Null while it runs."`
	Charged    bool    `json:"charged"`
	Error      *Error  `json:"error"`
	NextRunAt  *Time   `json:"next_run_at" nullable:"true"`
	Note       *string `json:"note" nullable:"true" doc:"What the server changed or added: a wait that was cut, say."`
}

// TransformSchema says where null may stand.
func (Attempt) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "outcome", "error")
}

// Jobs is a page of jobs, newest first.
type Jobs struct {
	Jobs       []Job   `json:"jobs" nullable:"false" doc:"May be fewer than the limit, even none, though more follow."`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null after the last."`
}

// Logs are the lines of one attempt by their seq.
type Logs struct {
	Lines []LogLine `json:"lines" nullable:"false"`
	Cut   bool      `json:"cut" doc:"More than 64 KiB were logged; what came after was dropped."`
}

// LogLine is a line that a worker logged.
type LogLine struct {
	Seq     int64  `json:"seq" minimum:"0" doc:"Counts the lines of one attempt: a line that comes twice is kept once."`
	At      *Time  `json:"at,omitzero"`
	Level   string `json:"level,omitzero"`
	Message string `json:"message"`
}

// ClaimRequest is what a worker asks for.
type ClaimRequest struct {
	Worker  string   `json:"worker" minLength:"8" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The worker's id, the same as long as it lives."`
	Queues  []string `json:"queues" minItems:"1" maxItems:"100" nullable:"false"`
	Tasks   []string `json:"tasks,omitzero" maxItems:"1000" nullable:"false" doc:"name for every version or name@version; every task unless said."`
	Max     int      `json:"max,omitzero" minimum:"1" maximum:"1000" doc:"How many jobs at most; 1 unless said."`
	Wait    Duration `json:"wait,omitzero" doc:"How long to wait for the first: 0s to 60s; 20s unless said."`
	ClaimID string   `json:"claim_id,omitzero" maxLength:"256" doc:"Asked again with the same id, a worker gets the same leases that still hold: of this key, and as far as the claim asks for their queues. Up to 256 bytes without control characters."`
}

// Claim is what a worker got.
type Claim struct {
	Now  Time      `json:"now"`
	Jobs []Claimed `json:"jobs" nullable:"false"`
}

// Claimed is a job under a lease.
type Claimed struct {
	Job            Job    `json:"job"`
	Attempt        int    `json:"attempt"`
	Lease          string `json:"lease" doc:"The token of every report."`
	LeaseMS        int64  `json:"lease_ms" doc:"How long the lease holds from its last heartbeat."`
	LeaseExpiresAt Time   `json:"lease_expires_at"`
	Deadline       Time   `json:"deadline" doc:"When the attempt's timeout ends it, heartbeats or not."`
	IdempotencyKey string `json:"idempotency_key" doc:"The same over a job's attempts."`
}

// ReportRequest is what a worker says of its leases.
type ReportRequest struct {
	Worker  string   `json:"worker" minLength:"8" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	Reports []Report `json:"reports" minItems:"1" maxItems:"1000" nullable:"false"`
}

// Report is one thing that a worker says of one lease.
type Report struct {
	Lease      string           `json:"lease"`
	Type       store.ReportType `json:"type" enum:"start,heartbeat,log,complete,fail,release"`
	Lines      []LogLine        `json:"lines,omitzero" nullable:"false" doc:"Of log."`
	Result     Value            `json:"result,omitzero" doc:"Of complete: any JSON value of at most 1 MiB."`
	Error      *ReportedError   `json:"error,omitzero" doc:"Of fail."`
	Retryable  *bool            `json:"retryable,omitzero" doc:"Of fail: false where no retry helps."`
	RetryIn    *Duration        `json:"retry_in,omitzero" doc:"Of fail: replaces the computed wait this once."`
	RetryAfter *Duration        `json:"retry_after,omitzero" doc:"Of fail: what the other side asked for; the later of both holds."`
}

// ReportAnswer has one result a report, in their order.
type ReportAnswer struct {
	Now     Time           `json:"now"`
	Results []ReportResult `json:"results" nullable:"false"`
}

// ReportResult is what became of one report.
type ReportResult struct {
	Status         string     `json:"status" enum:"ok,lease_lost,invalid" doc:"lease_lost: the lease is not current, or of a queue that the key is not for; nothing was changed. invalid: detail says what is wrong."`
	Detail         string     `json:"detail,omitzero"`
	JobStatus      job.Status `json:"job_status,omitzero" enum:"queued,running,succeeded,failed,cancelled"`
	RunAt          *Time      `json:"run_at,omitzero" doc:"When a job that is queued again may run."`
	LeaseMS        *int64     `json:"lease_ms,omitzero" doc:"How long the lease still holds, where it does."`
	LeaseExpiresAt *Time      `json:"lease_expires_at,omitzero"`
	Cancel         *bool      `json:"cancel,omitzero" doc:"The worker should give up: the job was cancelled."`
}

// Queues are the queues that the key sees.
type Queues struct {
	Queues     []Queue `json:"queues" nullable:"false"`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"Always null: the list is whole."`
}

// Queue is a queue's settings and state.
type Queue struct {
	Name       string    `json:"name"`
	Configured bool      `json:"configured" doc:"Whether the configuration names it. Others hold jobs all the same: the relay's own, and forgotten ones."`
	Lease      *Duration `json:"lease" nullable:"true" doc:"Null where it is not configured."`
	Timeout    *Duration `json:"timeout" nullable:"true" doc:"Null where it is not configured."`
	Retry      Retry     `json:"retry" doc:"What the queue's own level says."`
	Paused     *Paused   `json:"paused"`
	Counts     Counts    `json:"counts"`
}

// TransformSchema says where null may stand.
func (Queue) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "paused")
}

// Counts are how many jobs there are by status.
type Counts struct {
	Queued    int64 `json:"queued"`
	Running   int64 `json:"running"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
}

// Paused says who paused and when.
type Paused struct {
	By    string `json:"by"`
	Since Time   `json:"since"`
}

// Gate is a queue or an endpoint, and whether it is paused.
type Gate struct {
	Name   string  `json:"name"`
	Paused *Paused `json:"paused"`
}

// TransformSchema says where null may stand.
func (Gate) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "paused")
}

// Problem is what an error is answered with: RFC 9457, as application/problem+json.
type Problem struct {
	Type   string  `json:"type" doc:"urn:pawl:problem: and a word that stays the same: compare it."`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitzero" doc:"What is wrong with this request and what to do, for people."`
	Job    string  `json:"job,omitzero" doc:"The job that it is about."`
	Errors []Fault `json:"errors,omitzero" nullable:"false" doc:"Everything that is wrong, each by itself."`
}

// Fault is one thing that is wrong with a request.
type Fault struct {
	Pointer   string `json:"pointer,omitzero" doc:"JSON pointer of the member of the body."`
	Parameter string `json:"parameter,omitzero" doc:"Name of the query parameter or header."`
	Offset    *int64 `json:"offset,omitzero" doc:"Byte of the body at or after which it is no JSON."`
	Message   string `json:"message"`
}

// KeyRequest asks for an API key. Control socket only.
type KeyRequest struct {
	Name   string        `json:"name"`
	Scopes []store.Scope `json:"scopes"`
	Queues []string      `json:"queues,omitzero"`
	// ExpiresIn is how long it is good for; for ever unless said.
	ExpiresIn *Duration `json:"expires_in,omitzero"`
}

// NewKey is a key that was made, with its secret, which is told this once.
type NewKey struct {
	Key
	Secret string `json:"secret"`
}

// Key is an API key without its secret.
type Key struct {
	ID        string        `json:"id"`
	Name      string        `json:"name"`
	Scopes    []store.Scope `json:"scopes"`
	Queues    []string      `json:"queues"`
	CreatedAt Time          `json:"created_at"`
	ExpiresAt *Time         `json:"expires_at"`
	RevokedAt *Time         `json:"revoked_at"`
}

// Keys are all API keys, oldest first, revoked ones too.
type Keys struct {
	Keys []Key `json:"keys"`
}

// BackupRequest asks for a copy of the store in a new file. Control socket
// only.
type BackupRequest struct {
	File string `json:"file"`
}

// BackedUp is a copy that was made.
type BackedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}
