package telemetry

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/internal/core/job"
)

// JobStart is a job that is about to be made.
type JobStart struct {
	Queue, Task, Version, Endpoint string
	Trace                          job.Trace // the producer's; "" for none
	Bytes                          int       // of its payload
}

// JobEnd is what became of the making.
type JobEnd struct {
	ID    string // "" where Err is set
	Found bool   // it was there already
	Err   error
}

// JobAttempt is an attempt that has ended.
type JobAttempt struct {
	Job                                    string
	Queue, Task, Version, Endpoint, Worker string
	Trace                                  job.Trace // the job's
	Number                                 int       // the first is 1
	Claimed, Ended                         time.Time
	Outcome                                job.Outcome
	Charged                                bool
	Status                                 job.Status // the job's afterwards
	Reason                                 job.Reason // of one that failed for good
	Error                                  *job.Error // nil for none
}

// StartJob begins the span of a job's making, below its producer's trace context,
// and returns the context that the job keeps: that span's where it is recorded,
// else the producer's. Call the function once, when the job is stored.
func (t *Tracer) StartJob(j JobStart) (job.Trace, func(JobEnd)) {
	if t == nil || j.Trace != "" && !j.Trace.Sampled() {
		return j.Trace, noJobEnd
	}
	ctx, span := t.spans.Start(below(j.Trace), "create "+j.Task, trace.WithSpanKind(trace.SpanKindProducer))
	if !span.IsRecording() {
		return j.Trace, noJobEnd
	}
	span.SetAttributes(jobAttributes("create", "create", j.Queue, j.Task, j.Version, j.Endpoint)...)
	span.SetAttributes(attribute.Int("messaging.message.body.size", j.Bytes))
	return job.ParseTrace(Inject(ctx)), func(end JobEnd) {
		switch {
		case end.Err != nil:
			span.SetStatus(codes.Error, t.text(end.Err.Error()))
		default:
			span.SetAttributes(attribute.String("messaging.message.id", end.ID), attribute.Bool("pawl.found", end.Found))
		}
		span.End()
	}
}

// WorkerTrace returns the trace context that the worker of an attempt goes on
// from: that of the span which JobAttempt makes in the end, where the job's trace
// is recorded, else the job's. It is the same at every call, over restarts too.
func (t *Tracer) WorkerTrace(kept job.Trace, id string, number int) job.Trace {
	if t == nil || !kept.Sampled() {
		return kept
	}
	parent := trace.SpanContextFromContext(below(kept))
	if !parent.IsValid() {
		return kept
	}
	return job.ParseTrace(Inject(trace.ContextWithSpanContext(context.Background(), parent.WithSpanID(attemptSpan(id, number)))))
}

// JobAttempt makes the span of an attempt that has ended, from its claim until its
// end, where the job's trace is recorded.
func (t *Tracer) JobAttempt(a JobAttempt) {
	if t == nil || !a.Trace.Sampled() {
		return
	}
	ctx := context.WithValue(below(a.Trace), spanIDKey{}, attemptSpan(a.Job, a.Number))
	_, span := t.spans.Start(ctx, "attempt "+a.Task,
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(a.Claimed),
		trace.WithAttributes(jobAttributes("process", "attempt", a.Queue, a.Task, a.Version, a.Endpoint)...),
		trace.WithAttributes(
			attribute.String("messaging.message.id", a.Job),
			attribute.String("messaging.client.id", a.Worker),
			attribute.Int("pawl.attempt", a.Number),
			attribute.String("pawl.outcome", string(a.Outcome)),
			attribute.Bool("pawl.charged", a.Charged),
			attribute.String("pawl.status", string(a.Status)),
		))
	if kind, text := a.failure(); kind != "" {
		span.SetAttributes(attribute.String("error.type", t.text(kind)))
		span.SetStatus(codes.Error, t.text(text))
	}
	span.End(trace.WithTimestamp(a.Ended))
}

// failure says what went wrong: a word of few, and a text. Both are "" where
// nothing did: what was handed back or cancelled is no failure of the attempt.
func (a *JobAttempt) failure() (kind, text string) {
	switch a.Outcome {
	case job.OutcomeSucceeded, job.OutcomeReleased, job.OutcomeCancelled:
		return "", ""
	case job.OutcomeFailed, job.OutcomeTimedOut, job.OutcomeLost, job.OutcomeUnreceived:
	}
	switch {
	case a.Error != nil && a.Error.Type != "":
		return a.Error.Type, a.Error.Type + ": " + a.Error.Message
	case a.Error != nil && a.Error.Message != "":
		return string(a.Outcome), a.Error.Message
	case a.Reason != "":
		return string(a.Outcome), string(a.Reason)
	}
	return string(a.Outcome), string(a.Outcome)
}

// jobAttributes are those of every span of a job, after OpenTelemetry's
// conventions for messaging.
func jobAttributes(kind, name, queue, task, version, endpoint string) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("messaging.system", "pawl"),
		attribute.String("messaging.operation.type", kind),
		attribute.String("messaging.operation.name", name),
		attribute.String("messaging.destination.name", queue),
		attribute.String("pawl.task", task),
		attribute.String("pawl.version", version),
	}
	if endpoint != "" {
		all = append(all, attribute.String("pawl.endpoint", endpoint))
	}
	return all
}

// below returns a context whose spans are below a job's trace context.
func below(t job.Trace) context.Context {
	if t == "" {
		return context.Background()
	}
	return w3c.Extract(context.Background(), propagation.MapCarrier{"traceparent": t.Parent(), "tracestate": t.State()})
}

func noJobEnd(JobEnd) {}

// attemptSpan is the id of an attempt's span. It is computed, for the worker is
// told of it at its claim and the span is made at its end, perhaps by another
// process.
func attemptSpan(id string, number int) (span trace.SpanID) {
	sum := sha256.Sum256([]byte("attempt " + strconv.Itoa(number) + " of " + id))
	copy(span[:], sum[:])
	return span
}

type spanIDKey struct{}

// spanIDs makes ids: random ones, and for a context with a spanIDKey the one there.
type spanIDs struct{}

// NewIDs makes the ids of a trace and of its first span.
func (g spanIDs) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	for !id.IsValid() {
		fill(id[:8])
		fill(id[8:])
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID makes the id of a span of a trace.
func (spanIDs) NewSpanID(ctx context.Context, _ trace.TraceID) (span trace.SpanID) {
	if told, ok := ctx.Value(spanIDKey{}).(trace.SpanID); ok {
		return told
	}
	for !span.IsValid() {
		fill(span[:])
	}
	return span
}

// fill writes eight random bytes: ids are no secrets.
func fill(b []byte) {
	for i, n := 0, rand.Uint64(); i < 8; i, n = i+1, n>>8 {
		b[i] = byte(n)
	}
}
