package telemetry

// What these tests would catch: a worker whose spans hang below no span, an
// attempt's span with another id than its worker was told, a trace that its
// sender does not record and we do, a success that looks like a failure.

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/internal/core/job"
)

// attributesOf are a span's attributes as text.
func attributesOf(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// jobTraced takes a job from a producer's trace through one attempt and returns
// what the job keeps and what its worker gets.
func jobTraced(t *testing.T, tr *Tracer, from job.Trace, a JobAttempt) (kept, given job.Trace) {
	t.Helper()
	kept, end := tr.StartJob(JobStart{Queue: "emails", Task: "send", Version: "2", Endpoint: "mailer", Trace: from, Bytes: 7})
	end(JobEnd{ID: "job_1"})
	a.Job, a.Queue, a.Task, a.Version, a.Endpoint, a.Trace = "job_1", "emails", "send", "2", "mailer", kept
	given = tr.WorkerTrace(kept, a.Job, a.Number)
	tr.JobAttempt(a)
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kept, given
}

func TestSpansOfAJob(t *testing.T) {
	out := &kept{}
	tr := newTracer(TraceOptions{SampleRatio: 0, Redact: redact}, out)
	claimed := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	kept, given := jobTraced(t, tr, sampledParent+" a=1", JobAttempt{
		Worker: "worker-1", Number: 3, Claimed: claimed, Ended: claimed.Add(2 * time.Second), Outcome: job.OutcomeFailed, Charged: true,
		Status: job.Queued, Error: &job.Error{Type: "HttpError", Message: "503 hunter2\n\xff"},
	})
	if len(out.spans) != 2 {
		t.Fatalf("%d spans, want the making and the attempt", len(out.spans))
	}
	made, ran := out.spans[0], out.spans[1]
	if made.Name != "create send" || made.SpanKind != trace.SpanKindProducer || made.Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("%s, a %s below %s", made.Name, made.SpanKind, made.Parent.SpanID())
	}
	const id = "0af7651916cd43dd8448eb211c80319c"
	if want := job.Trace("00-" + id + "-" + made.SpanContext.SpanID().String() + "-01 a=1"); kept != want {
		t.Errorf("the job keeps %q, want %q", kept, want)
	}
	if want := job.Trace("00-" + id + "-" + ran.SpanContext.SpanID().String() + "-01 a=1"); given != want {
		t.Errorf("its worker gets %q, want %q", given, want)
	}
	if ran.Name != "attempt send" || ran.SpanKind != trace.SpanKindConsumer || ran.Parent.SpanID() != made.SpanContext.SpanID() {
		t.Errorf("%s, a %s below %s", ran.Name, ran.SpanKind, ran.Parent.SpanID())
	}
	if !ran.StartTime.Equal(claimed) || !ran.EndTime.Equal(claimed.Add(2*time.Second)) {
		t.Errorf("it lasted from %v to %v", ran.StartTime, ran.EndTime)
	}
	if ran.Status.Code != codes.Error || ran.Status.Description != `HttpError: 503 [secret]\xff` {
		t.Errorf("%+v", ran.Status)
	}
	for name, want := range map[string]map[string]string{
		made.Name: {"messaging.operation.type": "create", "messaging.message.id": "job_1", "messaging.message.body.size": "7", "pawl.found": "false"},
		ran.Name: {"messaging.system": "pawl", "messaging.operation.type": "process", "messaging.operation.name": "attempt", "messaging.destination.name": "emails",
			"messaging.message.id": "job_1", "messaging.client.id": "worker-1", "pawl.task": "send", "pawl.version": "2", "pawl.endpoint": "mailer",
			"pawl.attempt": "3", "pawl.outcome": "failed", "pawl.charged": "true", "pawl.status": "queued", "error.type": "HttpError"},
	} {
		got := attributesOf(map[string]tracetest.SpanStub{made.Name: made, ran.Name: ran}[name])
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], value)
			}
		}
	}
	if tr.WorkerTrace(kept, "job_1", 4) == given || tr.WorkerTrace(kept, "job_2", 3) == given || tr.WorkerTrace(kept, "job_1", 3) != given {
		t.Error("each attempt has a span of its own, the same at every call")
	}
}

func TestSamplingOfJobs(t *testing.T) {
	for name, tt := range map[string]struct {
		ratio float64
		from  job.Trace
		spans int
		keeps job.Trace // "" with spans is one of its own
	}{
		"nobody asks, ratio 0":      {0, "", 0, ""},
		"nobody asks, ratio 1":      {1, "", 2, ""},
		"the producer does not":     {1, unsampledParent + " a=1", 0, unsampledParent + " a=1"},
		"the producer records it":   {0, sampledParent, 2, ""},
		"what no parser would take": {1, "trace", 0, "trace"},
	} {
		t.Run(name, func(t *testing.T) {
			out := &kept{}
			kept, given := jobTraced(t, newTracer(TraceOptions{SampleRatio: tt.ratio}, out), tt.from, JobAttempt{Number: 1, Outcome: job.OutcomeSucceeded})
			if len(out.spans) != tt.spans {
				t.Errorf("%d spans, want %d", len(out.spans), tt.spans)
			}
			if tt.spans == 0 && (kept != tt.keeps || given != tt.keeps) {
				t.Errorf("keeps %q, gives %q, want %q", kept, given, tt.keeps)
			}
			if tt.spans > 0 && (kept == tt.from || given == kept || !given.Sampled() || kept.Parent()[:35] != given.Parent()[:35]) {
				t.Errorf("keeps %q, gives %q", kept, given)
			}
		})
	}
}

func TestHowAttemptsLook(t *testing.T) {
	out := &kept{}
	tr := newTracer(TraceOptions{}, out)
	for _, a := range []JobAttempt{
		{Outcome: job.OutcomeSucceeded}, {Outcome: job.OutcomeReleased}, {Outcome: job.OutcomeCancelled}, {Outcome: job.OutcomeLost},
		{Outcome: job.OutcomeFailed, Reason: job.ReasonOutputSchema}, {Outcome: job.OutcomeFailed, Error: &job.Error{Message: "no"}}, {Outcome: job.OutcomeTimedOut},
	} {
		a.Trace, a.Claimed, a.Ended = sampledParent, time.Now(), time.Now()
		tr.JobAttempt(a)
	}
	_, end := tr.StartJob(JobStart{Task: "t", Trace: sampledParent})
	end(JobEnd{Err: errors.New("the disk is full")})
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range out.spans {
		got = append(got, s.Status.Code.String()+" "+s.Status.Description+" "+attributesOf(s)[string(attribute.Key("error.type"))])
	}
	want := "Unset  |Unset  |Unset  |Error lost lost|Error output_schema failed|Error no failed|Error timed_out timed_out|Error the disk is full "
	if strings.Join(got, "|") != want {
		t.Errorf("\n got %q\nwant %q", strings.Join(got, "|"), want)
	}
}

func TestTracingOfJobsOffIsFree(t *testing.T) {
	var tr *Tracer
	n := testing.AllocsPerRun(100, func() {
		kept, end := tr.StartJob(JobStart{Task: "t", Trace: sampledParent})
		end(JobEnd{})
		if tr.WorkerTrace(kept, "job_1", 1) != sampledParent {
			t.Error("it is not the producer's")
		}
		tr.JobAttempt(JobAttempt{Trace: kept})
	})
	if n != 0 {
		t.Errorf("a job made %v allocations with tracing off", n)
	}
}
