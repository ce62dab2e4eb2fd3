package job

// Status is where a job is.
type Status string

// The statuses. The comment says who moves a job on from them.
const (
	// Queued: waits for its due time, a gate or a worker; a claim moves it on,
	// or a cancellation.
	Queued Status = "queued"
	// Running: a worker has it under a lease; its report, the end of the lease
	// or a cancellation moves it on.
	Running Status = "running"
	// Succeeded is final.
	Succeeded Status = "succeeded"
	// Failed is a dead letter; only a person's retry moves it on.
	Failed Status = "failed"
	// Cancelled is final.
	Cancelled Status = "cancelled"
)

// Statuses lists every status, in the order of a job's life.
func Statuses() []Status { return []Status{Queued, Running, Succeeded, Failed, Cancelled} }

// Finished reports whether nothing but a person's retry moves the job on.
func (s Status) Finished() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Cause is what moves a job from one status to another.
type Cause string

// The causes.
const (
	Claim    Cause = "claim"    // a worker takes it
	Complete Cause = "complete" // the worker reports a result
	Fail     Cause = "fail"     // the worker reports a failure
	Release  Cause = "release"  // the worker hands it back
	Timeout  Cause = "timeout"  // the attempt passed its deadline
	Lapse    Cause = "lapse"    // the lease ended without a report
	Cancel   Cause = "cancel"   // a person or program gives it up
	Retry    Cause = "retry"    // a person brings it back
)

// Move is one legal way from a status to another.
type Move struct {
	From  Status
	Cause Cause
	To    Status
}

// moves is every legal move; whatever is not here does not happen.
var moves = []Move{
	{Queued, Claim, Running},
	{Queued, Cancel, Cancelled},
	{Running, Complete, Succeeded},
	{Running, Complete, Failed}, // the result fails the output schema
	{Running, Fail, Queued},
	{Running, Fail, Failed},
	{Running, Release, Queued},
	{Running, Timeout, Queued},
	{Running, Timeout, Failed},
	{Running, Lapse, Queued},
	{Running, Lapse, Failed},
	{Running, Cancel, Cancelled},
	{Failed, Retry, Queued},
}

// Moves lists every legal move.
func Moves() []Move { return append([]Move(nil), moves...) }

// Legal reports whether the move is one.
func (m Move) Legal() bool {
	for _, legal := range moves {
		if m == legal {
			return true
		}
	}
	return false
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded  Outcome = "succeeded"
	OutcomeFailed     Outcome = "failed"
	OutcomeTimedOut   Outcome = "timed_out"
	OutcomeLost       Outcome = "lost"       // the worker fell silent
	OutcomeUnreceived Outcome = "unreceived" // the lease ended without any report
	OutcomeReleased   Outcome = "released"
	OutcomeCancelled  Outcome = "cancelled"
)

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{OutcomeSucceeded, OutcomeFailed, OutcomeTimedOut, OutcomeLost, OutcomeUnreceived, OutcomeReleased, OutcomeCancelled}
}

// Reason is why a job became a dead letter.
type Reason string

// The reasons.
const (
	ReasonExhausted    Reason = "exhausted"     // the policy's attempts are used up
	ReasonNonRetryable Reason = "non_retryable" // the worker said that no retry helps
	ReasonOutputSchema Reason = "output_schema" // the result does not fit the task's contract
	ReasonLost         Reason = "lost"          // too many workers fell silent over it
	ReasonUncertain    Reason = "uncertain"     // nobody knows whether its effect happened
)

// Reasons lists every reason.
func Reasons() []Reason {
	return []Reason{ReasonExhausted, ReasonNonRetryable, ReasonOutputSchema, ReasonLost, ReasonUncertain}
}
