package httpapi

import (
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// ClaimRequest is what a worker asks for.
type ClaimRequest struct {
	Worker  string   `json:"worker" minLength:"8" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The worker's id, the same as long as it lives."`
	Queues  []string `json:"queues" minItems:"1" maxItems:"100" nullable:"false"`
	Tasks   []string `json:"tasks,omitzero" minItems:"1" maxItems:"1000" nullable:"false" doc:"name for every version or name@version; every task unless said."`
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
	Job            Job     `json:"job"`
	Attempt        int     `json:"attempt"`
	Lease          string  `json:"lease" doc:"The token of every report."`
	LeaseMS        int64   `json:"lease_ms" doc:"How long the lease still holds: its full length, but for a claim that was asked again. A heartbeat gives it its full length anew."`
	LeaseExpiresAt Time    `json:"lease_expires_at"`
	Deadline       Time    `json:"deadline" doc:"When the attempt's timeout ends it, heartbeats or not."`
	IdempotencyKey string  `json:"idempotency_key" doc:"The same over a job's attempts."`
	Traceparent    *string `json:"traceparent" nullable:"true" doc:"W3C trace context that the worker's spans go below: pawl's own span of the attempt where pawl makes traces, else the producer's."`
	Tracestate     string  `json:"tracestate,omitzero"`
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
	Endpoint   job.EndpointWord `json:"endpoint,omitzero" enum:"ok" doc:"Of fail: ok where the endpoint answered and the job was at fault; its circuit counts a success."`
	Effect     job.Effect       `json:"effect,omitzero" enum:"unknown" doc:"Of fail: unknown where the other side may have done it all the same. A job that is not safe to repeat is then left to a person."`
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
