package job

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/duration"
)

// The caps of what is not charged.
const (
	// MaxLost is how many lost workers a job survives; the next one fails it. A
	// job that kills its worker must not go round the fleet for ever.
	MaxLost = 5
	// MaxUnreceived is how many claims may get lost on the way to their worker;
	// the next one fails the job.
	MaxUnreceived = 100
)

// Transition is what becomes of a running job: the attempt's end and where the
// job goes. It is applied where job and attempt number still match.
type Transition struct {
	Cause   Cause
	To      Status
	Outcome Outcome
	Charged bool
	// RunAt is when the job may run again; set for Queued only.
	RunAt time.Time
	// Reason is set for Failed only, where it makes a dead letter.
	Reason Reason
	// Counts are the job's counts afterwards.
	Counts Counts
	// Note says what was cut; "" for nothing.
	Note string
}

// Failure is what a worker says of a failed attempt.
type Failure struct {
	// Permanent: no retry helps.
	Permanent bool
	// RetryIn replaces the computed delay this once, without jitter; nil leaves
	// it. RetryAfter is what the other side asked for; the later of both holds.
	// Each is 0 to MaxDelay; more is cut and noted, less is taken as 0.
	RetryIn, RetryAfter *time.Duration
	// Endpoint is EndpointOK where the job was at fault and not the other side.
	Endpoint EndpointWord
	// Effect is EffectUnknown where the other side may have done it all the same.
	Effect Effect
}

// EndpointWord is what a worker says of the endpoint that an attempt failed at.
type EndpointWord string

// What a worker may say.
const (
	EndpointUnsaid EndpointWord = ""
	EndpointOK     EndpointWord = "ok" // it answered: what was wrong is the job
)

// Effect is what a worker knows of a failed attempt's effect.
type Effect string

// What a worker may know.
const (
	EffectUnsaid  Effect = ""
	EffectUnknown Effect = "unknown" // it may have happened
)

// DecideComplete ends an attempt whose result is there.
func DecideComplete(r Run) Transition {
	t := Transition{Cause: Complete, To: Succeeded, Outcome: OutcomeSucceeded, Charged: true, Counts: r.Counts}
	t.Counts.Charged++
	t.Counts.LostInRow = 0
	return t
}

// DecideRefused ends an attempt whose result does not fit its task's contract.
func DecideRefused(r Run) Transition {
	return charge(r, Complete, OutcomeFailed).fail(r, ReasonOutputSchema)
}

// DecideCancelled ends an attempt of a job that was cancelled meanwhile, however
// it ended.
func DecideCancelled(r Run) Transition {
	return Transition{Cause: Cancel, To: Cancelled, Outcome: OutcomeCancelled, Counts: r.Counts}
}

// Endpoint is what the end of an attempt says of its endpoint: to its circuit,
// and for how long it is to be left alone. f is what its worker reported, nil
// where it did not report a failure.
func (t Transition) Endpoint(f *Failure) (circuit.Outcome, time.Duration) {
	switch t.Outcome {
	case OutcomeSucceeded:
		return circuit.Well, 0
	case OutcomeTimedOut:
		return circuit.Sick, 0
	case OutcomeFailed:
	default:
		return circuit.Nothing, 0
	}
	switch {
	case f == nil: // a result that was refused
		return circuit.Sick, 0
	case f.RetryAfter != nil && *f.RetryAfter > 0:
		return circuit.Nothing, *f.RetryAfter
	case f.Endpoint == EndpointOK:
		return circuit.Well, 0
	}
	return circuit.Sick, 0
}

// DecideFail ends an attempt that its worker reports as failed. u is a random
// number in [0, 1) for the jitter.
func DecideFail(r Run, f Failure, now time.Time, u float64) Transition {
	t := charge(r, Fail, OutcomeFailed)
	switch {
	case r.Repeat == RepeatUnsafe && f.Effect == EffectUnknown:
		return t.fail(r, ReasonUncertain)
	case f.Permanent:
		return t.fail(r, ReasonNonRetryable)
	case r.Kind == Synthetic, t.Counts.Charged >= r.Policy.MaxAttempts:
		return t.fail(r, ReasonExhausted)
	}
	wait := r.Policy.Schedule().Delay(t.Counts.Charged, u)
	if f.RetryIn != nil {
		wait = t.cut("retry_in", *f.RetryIn)
	}
	if f.RetryAfter != nil {
		wait = max(wait, t.cut("retry_after", *f.RetryAfter))
	}
	t.To, t.RunAt = Queued, now.Add(wait)
	return t
}

// DecideRelease ends an attempt that its worker hands back: queued again after
// the wait, at once for 0, and charged to nobody.
func DecideRelease(r Run, after time.Duration, now time.Time) Transition {
	t := Transition{Cause: Release, To: Queued, Outcome: OutcomeReleased, Counts: r.Counts}
	t.Counts.LostInRow = 0
	t.RunAt = now.Add(t.cut("the wait", after))
	return t
}

// DecideLapse ends an attempt whose lease has ended at now: timed out where the
// deadline was the earlier end, else lost, or unreceived where its worker was
// never heard of. Where both ends are one moment, as after a Grace, the worker
// was silent for a whole lease: that is no attempt of its handler. ok is false
// while the lease holds.
func DecideLapse(r Run, now time.Time, u float64) (t Transition, ok bool) {
	if now.Before(r.End()) {
		return Transition{}, false
	}
	if r.Deadline.Before(r.LeaseUntil) {
		t = charge(r, Timeout, OutcomeTimedOut)
		switch {
		case r.Repeat == RepeatUnsafe:
			return t.fail(r, ReasonUncertain), true
		case r.Kind == Synthetic, t.Counts.Charged >= r.Policy.MaxAttempts:
			return t.fail(r, ReasonExhausted), true
		}
		t.To, t.RunAt = Queued, now.Add(r.Policy.Schedule().Delay(t.Counts.Charged, u))
		return t, true
	}
	t = Transition{Cause: Lapse, To: Queued, Counts: r.Counts, RunAt: now}
	if r.Heard.IsZero() {
		t.Outcome = OutcomeUnreceived
		t.Counts.Unreceived++
		if t.Counts.Unreceived > MaxUnreceived || r.once() {
			return t.fail(r, r.lostReason()), true
		}
		return t, true
	}
	t.Outcome = OutcomeLost
	t.Counts.Lost++
	t.Counts.LostInRow++
	if t.Counts.Lost > MaxLost || r.once() {
		return t.fail(r, r.lostReason()), true
	}
	if k := t.Counts.LostInRow; k > 1 {
		t.RunAt = now.Add(r.Policy.Schedule().Delay(k-1, u))
	}
	return t, true
}

// charge begins the transition of an attempt that max_attempts counts.
func charge(r Run, c Cause, o Outcome) Transition {
	t := Transition{Cause: c, Outcome: o, Charged: true, Counts: r.Counts}
	t.Counts.Charged++
	t.Counts.LostInRow = 0
	return t
}

// fail gives the job up. A check of an endpoint is no dead letter, so it has no
// reason.
func (t Transition) fail(r Run, why Reason) Transition {
	if r.Kind == Synthetic {
		why = ""
	}
	t.To, t.Reason, t.RunAt = Failed, why, time.Time{}
	return t
}

// once reports whether an attempt that was lost is the last.
func (r Run) once() bool { return r.Repeat == RepeatUnsafe || r.Kind == Synthetic }

func (r Run) lostReason() Reason {
	if r.Repeat == RepeatUnsafe {
		return ReasonUncertain
	}
	return ReasonLost
}

// cut keeps a wait that somebody asked for within its bounds.
func (t *Transition) cut(what string, d time.Duration) time.Duration {
	if d > MaxDelay {
		if t.Note != "" {
			t.Note += "; "
		}
		t.Note += fmt.Sprintf("%s of %s was cut to %s", what, duration.Text(d), duration.Text(MaxDelay))
		return MaxDelay
	}
	return max(d, 0)
}
