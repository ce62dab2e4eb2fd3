package app

import (
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// jobTracing plugs telemetry's spans into the job server and its store.
type jobTracing struct{ tracer *telemetry.Tracer }

var _ jobserver.Tracer = (*jobTracing)(nil)

// jobs is what follows jobs; nil where nothing is traced.
func (t *Tracing) jobs() *jobTracing {
	if t == nil {
		return nil
	}
	return &jobTracing{t.tracer}
}

// Create begins the span of a job's making.
func (t *jobTracing) Create(n *store.NewJob) (job.Trace, func(store.Created, error)) {
	kept, end := t.tracer.StartJob(telemetry.JobStart{
		Queue: n.Queue, Task: n.Task, Version: n.Version, Endpoint: n.Endpoint, Trace: n.Trace, Bytes: n.Content.Size(),
	})
	return kept, func(c store.Created, err error) { end(telemetry.JobEnd{ID: c.ID, Found: c.Found, Err: err}) }
}

// Attempt returns what the worker of an attempt goes on from.
func (t *jobTracing) Attempt(j *job.Job) job.Trace {
	return t.tracer.WorkerTrace(j.Trace, j.ID, j.Attempt)
}

// ended makes the span of an attempt that has ended.
func (t *jobTracing) ended(e store.Ended) {
	t.tracer.JobAttempt(telemetry.JobAttempt{
		Job: e.Job, Queue: e.Queue, Task: e.Task, Version: e.Version, Endpoint: e.Endpoint, Worker: e.Worker, Trace: e.Trace,
		Number: e.Number, Claimed: e.ClaimedAt, Ended: e.EndedAt, Outcome: e.Outcome, Charged: e.Charged,
		Status: e.Status, Reason: e.Reason, Error: e.Error,
	})
}
