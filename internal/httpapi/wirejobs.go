package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlhq/pawl/internal/core/job"
)

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
	Version  string    `json:"version,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"Of the task; the one that was registered last unless said, and 1 where none was."`
	Endpoint string    `json:"endpoint,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The outside service that the task calls; its task's unless said."`
	Payload  Value     `json:"payload" doc:"Any JSON value of at most 1 MiB. It is kept and handed out as the bytes that came."`
	Priority int       `json:"priority,omitzero" minimum:"-100" maximum:"100" doc:"Higher goes first; 0 unless said."`
	RunAt    *Time     `json:"run_at,omitzero" doc:"Not before this moment. Not together with delay."`
	Delay    *Duration `json:"delay,omitzero" doc:"Not before this much time has passed: up to 366d."`
	Timeout  *Duration `json:"timeout,omitzero" doc:"Of one attempt: 1s to 24h; its task's or its queue's unless said."`
	Retry    *Retry    `json:"retry,omitzero"`
	Tags     []string  `json:"tags,omitzero" maxItems:"16" nullable:"false"`
	Unique   string    `json:"unique,omitzero" maxLength:"256" doc:"While a job of the same queue and task with the same text is not finished, it is returned, and no other is made: up to 256 bytes without control characters."`
	// Synthetic needs the scope operate too.
	Synthetic bool `json:"synthetic,omitzero" doc:"A check of its endpoint: one attempt, through an open circuit too, which it never moves; it is no dead letter when it fails. The key needs the scope operate as well."`
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
	Found bool   `json:"found" doc:"Whether its idempotency key, or unique, named it already."`
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
	Traceparent     *string    `json:"traceparent" nullable:"true" doc:"W3C trace context: the producer's, or pawl's own below it where pawl makes traces."`
	Tracestate      string     `json:"tracestate,omitzero"`
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
	Repeat          job.Repeat `json:"repeat" enum:"safe,unsafe" doc:"What another attempt may do, by its task's contract as it was then."`
	InputSchema     string     `json:"input_schema,omitzero" doc:"SHA-256, in hex, of the schema that its payload was held against."`
	OutputSchema    string     `json:"output_schema,omitzero" doc:"SHA-256, in hex, of the schema that its result is held against."`
	Synthetic       bool       `json:"synthetic" doc:"A check of its endpoint."`
	Unique          *string    `json:"unique" nullable:"true"`
	DeadLetter      bool       `json:"dead_letter"`
	Reason          *string    `json:"reason" nullable:"true" enum:"exhausted,non_retryable,output_schema,lost,uncertain" doc:"Why it is a dead letter."`
	Result          Value      `json:"result"`
	LastError       *Error     `json:"last_error" doc:"Of the newest attempt that failed; without its stack where the job is claimed."`
	Attempts        []Attempt  `json:"attempts,omitzero" nullable:"false" doc:"Where one job was asked for. Numbers grow and may have gaps: of hand-backs of the relay in a row the newest is kept, and its note counts them; a hand-back that lies 100 attempts back is dropped, and of all attempts the newest 1,000 are shown."`
}

// TransformSchema says where null may stand.
func (Job) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "reason", "last_error")
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
