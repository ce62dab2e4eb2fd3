package store

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
)

// Errors of what people do to jobs.
var (
	// ErrStatus: the job's status does not allow it. Nothing was changed.
	ErrStatus = errors.New("the job's status does not allow it")
	// ErrUncertain: nobody knows whether the job's effect happened, and the
	// caller did not accept that it may happen twice. Nothing was changed.
	ErrUncertain = errors.New("the job's effect is uncertain")
)

// Uncertainty says whether jobs whose effect is not known are brought back.
type Uncertainty bool

// The answers.
const (
	RefuseUncertain Uncertainty = false
	AcceptUncertain Uncertainty = true
)

// Hand is what people and programs do to single jobs.
type Hand interface {
	// Cancel ends a queued or running job, at once and for good. A running
	// attempt keeps its lease and its places until its worker reports, which
	// moves nothing any more, or the lease ends; its worker is told by the next
	// answer. Cancelling a cancelled job changes nothing. ErrNotFound, ErrStatus.
	Cancel(ctx context.Context, id, by string) (*job.Job, error)
	// Retry queues a failed job again, with all of its attempts ahead: numbers go
	// on, counts begin at zero. ErrNotFound, ErrStatus, ErrUncertain.
	Retry(ctx context.Context, id, by string, u Uncertainty) (*job.Job, error)
	// Delete removes a job that is not running, with its attempts, logs and
	// idempotency key. ErrNotFound, ErrStatus.
	Delete(ctx context.Context, id, by string) error
}

// Selection chooses jobs for what is done to many. Zero fields let everything
// pass. Jobs that were created, or failed, after Before are never among them, nor
// are those of the relay's own queues where something is cancelled or deleted, but
// for a queue that is named: what the relay took in was acknowledged to its sender.
type Selection struct {
	Filter
	// Before is when the selection was made.
	Before time.Time
	// FailedAfter and FailedBefore bound when a dead letter died, and choose no other
	// job, as Reason does.
	FailedAfter, FailedBefore time.Time
}

// Action is what is done to many jobs.
type Action string

// The actions.
const (
	ActionRetry  Action = "retry"  // dead letters
	ActionCancel Action = "cancel" // queued and running jobs
	ActionDelete Action = "delete" // jobs that are not running
)

// Replays keeps what is done to many jobs, in small steps over a long time: each
// step and its progress are one transaction, so a crash neither loses a job nor
// does one twice.
type Replays interface {
	// Preview counts what a selection has, up to PreviewRows rows.
	Preview(ctx context.Context, a Action, s Selection, u Uncertainty) (Preview, error)
	// AddReplay stores one, and forgets those that are over and have KeptReplays
	// newer ones. ErrTooMany where MaxReplays are not over.
	AddReplay(ctx context.Context, r Replay) error
	// Replay returns one, ErrNotFound. ListReplays returns the newest first, those
	// that are older than before where that is not "": ErrNotFound where it is not
	// there. RunningReplays returns those that are ReplayRunning, the oldest first.
	Replay(ctx context.Context, id string) (Replay, error)
	ListReplays(ctx context.Context, limit int, before string) ([]Replay, error)
	RunningReplays(ctx context.Context) ([]Replay, error)
	// MoveReplay sets the state where the move is legal, else ErrStatus, and notes
	// by whom; that another key reviews it is for the caller to see to. It returns
	// the replay then.
	MoveReplay(ctx context.Context, id string, to ReplayState, by, why string) (Replay, error)
	// StepReplay does the next up to n jobs of one that is running: takes them in
	// the order of their creation, acts on those that fit then, moves the cursor on,
	// and counts. It makes the replay ReplayDone behind the last one, and
	// ReplayStopped where more than its share failed again. ErrStatus where it is
	// not running.
	StepReplay(ctx context.Context, id string, n int) (Replay, error)
}

// Bounds of replays.
const (
	// MaxReplays is how many may be open at once: each is worked on in turn.
	MaxReplays = 100
	// KeptReplays is how many are kept, those that are over included.
	KeptReplays = 10_000
	// PreviewRows is how many dead letters a preview looks at before it says
	// "at least".
	PreviewRows = 100_000
	// StopAfter is how many jobs of a replay must have ended before their share of
	// failures is looked at.
	StopAfter = 20
)

// Preview says what a Selection has.
type Preview struct {
	Jobs, Uncertain int64
	// AtLeast says that more than PreviewRows rows were there and the rest was not
	// looked at.
	AtLeast bool
	// Tasks are counts by task@version, at most 100; ByReason by reason.
	Tasks    map[string]int64
	ByReason map[job.Reason]int64
}

// ReplayState is where a replay is.
type ReplayState string

// The states. The comment says who moves on from them.
const (
	ReplayReview    ReplayState = "in_review" // a second key's approval, or a cancellation
	ReplayRunning   ReplayState = "running"   // its steps, a pause, a cancellation
	ReplayPaused    ReplayState = "paused"    // a person
	ReplayStopped   ReplayState = "stopped"   // too many failed again; a person resumes or cancels it
	ReplayDone      ReplayState = "done"      // final
	ReplayCancelled ReplayState = "cancelled" // final
)

// Replay is something that is done to many jobs.
type Replay struct {
	ID          string // rpl_ and a ULID
	Action      Action
	Selection   Selection
	Uncertainty Uncertainty
	// PerSecond bounds its steps; 0 is as fast as they go.
	PerSecond float64
	// StopShare stops it where more than that share of its jobs failed again; 0
	// never does. Of ActionRetry alone.
	StopShare float64
	State     ReplayState
	// Why says what brought it into its state, where that was no step.
	Why                   string
	CreatedBy, ApprovedBy string // the names of keys
	// CreatedKey is the id of the key that asked for it: another one reviews it.
	// One that was kept by an older pawl has none.
	CreatedKey         string
	CreatedAt, EndedAt time.Time
	Total              int64 // by the preview
	TotalAtLeast       bool  // the preview did not see them all
	Done, Skipped      int64 // acted on; left, for their unique key was taken or a worker still had them
	// Of those that were brought back; Withdrawn were cancelled or deleted since.
	Succeeded, FailedAgain, Withdrawn int64
	Cursor                            int64 // the store's
	// JudgedFrom and JudgedFailed are how many had ended, and failed, when a person
	// last let it go on after it stopped: its share counts from there.
	JudgedFrom, JudgedFailed int64
}

// UnderWay is how many jobs were brought back and have not ended since.
func (r *Replay) UnderWay() int64 {
	if r.Action != ActionRetry {
		return 0
	}
	return r.Done - r.Succeeded - r.FailedAgain - r.Withdrawn
}

// MayBecome reports whether a replay in the state can be moved to another.
func (s ReplayState) MayBecome(to ReplayState) bool {
	switch s {
	case ReplayReview:
		return to == ReplayRunning || to == ReplayCancelled
	case ReplayRunning:
		return to == ReplayPaused || to == ReplayStopped || to == ReplayDone || to == ReplayCancelled
	case ReplayPaused, ReplayStopped:
		return to == ReplayRunning || to == ReplayCancelled
	case ReplayDone, ReplayCancelled:
	}
	return false
}
