// These tests catch a job that is repeated though nobody knows whether its effect
// happened, a check of an endpoint that is repeated or becomes a dead letter, and
// the wrong word to an endpoint's circuit.
package job_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
)

// ends are the ways in which an attempt can end without its handler's doing.
var ends = map[string]func(r job.Run) job.Transition{
	"timed out": func(r job.Run) job.Transition {
		r.Deadline = start
		t, _ := job.DecideLapse(r, start, 0.5)
		return t
	},
	"lost": func(r job.Run) job.Transition {
		r.LeaseUntil = start
		t, _ := job.DecideLapse(r, start, 0.5)
		return t
	},
	"unreceived": func(r job.Run) job.Transition {
		r.LeaseUntil, r.Heard = start, time.Time{}
		t, _ := job.DecideLapse(r, start, 0.5)
		return t
	},
	"effect unknown": func(r job.Run) job.Transition {
		return job.DecideFail(r, job.Failure{Effect: job.EffectUnknown, Permanent: true}, start, 0.5)
	},
}

func TestAnUnsafeJobIsNotRepeatedByItself(t *testing.T) {
	for name, end := range ends {
		r := held(job.BuiltIn())
		r.Repeat = job.RepeatUnsafe
		if got := end(r); got.To != job.Failed || got.Reason != job.ReasonUncertain || !got.RunAt.IsZero() {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r := held(job.BuiltIn())
	r.Repeat = job.RepeatUnsafe
	if got := job.DecideFail(r, job.Failure{}, start, 0.5); got.To != job.Queued {
		t.Errorf("a failure that is known to be one: %+v", got)
	}
	if got := job.DecideRelease(r, 0, start); got.To != job.Queued {
		t.Errorf("handed back: %+v", got)
	}
	r.Repeat = job.RepeatSafe
	if got := job.DecideFail(r, job.Failure{Effect: job.EffectUnknown}, start, 0.5); got.To != job.Queued {
		t.Errorf("of a task that may be repeated: %+v", got)
	}
}

func TestACheckHasOneAttempt(t *testing.T) {
	r := held(job.BuiltIn())
	r.Kind = job.Synthetic
	if got := job.DecideFail(r, job.Failure{RetryIn: new(time.Second)}, start, 0.5); got.To != job.Failed || got.Reason != "" {
		t.Errorf("failed: %+v", got)
	}
	for name, end := range ends {
		if got := end(r); got.To != job.Failed || got.Reason != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhatAnAttemptSaysOfItsEndpoint(t *testing.T) {
	r := held(job.BuiltIn())
	fail := func(f job.Failure) (circuit.Outcome, time.Duration) {
		return job.DecideFail(r, f, start, 0.5).Endpoint(&f)
	}
	is := func(name string, got circuit.Outcome, hold time.Duration, want circuit.Outcome, wantHold time.Duration) {
		t.Helper()
		if got != want || hold != wantHold {
			t.Errorf("%s: outcome %d, hold %v; want %d, %v", name, got, hold, want, wantHold)
		}
	}
	o, h := job.DecideComplete(r).Endpoint(nil)
	is("a result", o, h, circuit.Well, 0)
	o, h = job.DecideRefused(r).Endpoint(nil)
	is("a result that was refused", o, h, circuit.Sick, 0)
	o, h = job.DecideRelease(r, 0, start).Endpoint(nil)
	is("handed back", o, h, circuit.Nothing, 0)
	o, h = job.DecideCancelled(r).Endpoint(nil)
	is("cancelled", o, h, circuit.Nothing, 0)
	for name, want := range map[string]circuit.Outcome{"timed out": circuit.Sick, "lost": circuit.Nothing, "unreceived": circuit.Nothing} {
		o, h = ends[name](r).Endpoint(nil)
		is(name, o, h, want, 0)
	}
	o, h = fail(job.Failure{})
	is("a failure", o, h, circuit.Sick, 0)
	o, h = fail(job.Failure{Permanent: true})
	is("a permanent failure", o, h, circuit.Sick, 0)
	o, h = fail(job.Failure{Permanent: true, Endpoint: job.EndpointOK})
	is("the job's own fault", o, h, circuit.Well, 0)
	o, h = fail(job.Failure{RetryAfter: new(time.Minute), Endpoint: job.EndpointOK})
	is("one that asks to wait", o, h, circuit.Nothing, time.Minute)
	o, h = fail(job.Failure{RetryAfter: new(time.Duration(0))})
	is("one that asks for no wait", o, h, circuit.Sick, 0)
}

func TestARefusedResult(t *testing.T) {
	got := job.DecideRefused(held(job.BuiltIn()))
	if got.To != job.Failed || got.Reason != job.ReasonOutputSchema || got.Outcome != job.OutcomeFailed || !got.Charged || got.Counts.Charged != 1 {
		t.Errorf("%+v", got)
	}
	if m := (job.Move{From: job.Running, Cause: got.Cause, To: got.To}); !m.Legal() {
		t.Errorf("%+v is not legal", m)
	}
	c := job.DecideCancelled(held(job.BuiltIn()))
	if m := (job.Move{From: job.Running, Cause: c.Cause, To: c.To}); !m.Legal() || c.Charged {
		t.Errorf("%+v", c)
	}
}
