package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/histogram"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
)

// Store is everything that is kept in one place.
type Store interface {
	Jobs
	Upkeep
	Gates
	Circuits
	Hand
	Replays
	Events
	Definitions
	Facts
	Keys
	DeadLetters
	// Now is the store's clock.
	Now() time.Time
	// Ready returns nil when the next write can be expected to work. ErrReserve is
	// a warning: creates are refused while claims and reports still work.
	Ready(ctx context.Context) error
	// Close ends what waits, commits what was begun and gives everything back.
	// Calling it again does nothing.
	Close() error
}

// Errors to ask for with errors.Is.
var (
	// ErrNotFound: there is no such thing.
	ErrNotFound = errors.New("not found")
	// ErrFull: the disk, or the space that the store leaves free on it, is used
	// up. Nothing was written.
	ErrFull = errors.New("the store's disk is full")
	// ErrReserve is the ErrFull of what adds to the store, jobs and dead letters:
	// what is left on the disk is kept for claims and reports, which still work.
	ErrReserve = fmt.Errorf("%w but for what is kept for claims and reports", ErrFull)
	// ErrUnavailable: the store can't write at the moment. Nothing was written.
	ErrUnavailable = errors.New("the store is not available")
	// ErrUnknown: whether it was written is not known.
	ErrUnknown = errors.New("whether the store wrote it is not known")
	// ErrClosed: the store is closing. Nothing was written.
	ErrClosed = errors.New("the store is closed")
	// ErrBusy: as many claims wait as may, of this caller or of all. The claim
	// was not made; one that doesn't wait still is.
	ErrBusy = errors.New("too many claims wait already")
	// ErrTooMany: the store keeps a bounded number of such things, and has as
	// many. Nothing was written. Of jobs, it is kinds of them: lanes.
	ErrTooMany = errors.New("the store has as many of these as it keeps")
)

// ConflictError says that an idempotency key was used for another request.
type ConflictError struct {
	Index int // of the job in the call
	Key   string
	ID    string // of the job that has the key; "" where none is stored
	// Twin is the index of the job of the same call that has the key; nil where a
	// stored one has.
	Twin *int
}

// Error names the key and the job.
func (e *ConflictError) Error() string {
	if e.Twin != nil {
		return fmt.Sprintf("the idempotency key %q is that of two different requests, %d and %d", e.Key, *e.Twin, e.Index)
	}
	return fmt.Sprintf("the idempotency key %q was used for another request, which made %s", e.Key, e.ID)
}

// Jobs keeps jobs and their attempts.
type Jobs interface {
	// Create stores all of the jobs or none. Those that a key names already are
	// returned as they are. A key with another hash is a *ConflictError. Jobs of
	// more lanes than may be are ErrTooMany.
	Create(ctx context.Context, jobs []NewJob) ([]Created, error)
	// Claim takes due jobs under leases. Where none can be had it waits for
	// some, up to w.Wait, and returns an empty Claim after it. A claim whose ctx
	// ends before its commit takes nothing.
	Claim(ctx context.Context, w Want) (Claim, error)
	// Report takes in what workers say, each report by itself: the error is
	// about all of them, an Answer about one. A lease is current until a sweep
	// ends it, also a moment past its end: what a worker has finished is worth
	// more than the moment.
	//
	// Of hand-backs in a row by the relay's workers (RelayWorker) one attempt is
	// kept, with the newest number and HandBackNote: a job that waits for a
	// destination for a month has one record of it, not forty thousand. An
	// attempt that was logged in is kept all the same. So the numbers of a job's
	// attempts grow, but may have gaps; and of such a run only the newest report
	// gets its answer again. Whoever hands a job back, the hand-back that lies
	// HandBacks attempts before is dropped, with its log.
	Report(ctx context.Context, reports []Report) ([]Answer, error)
	// Job returns the job with every attempt that is kept, see Report, or the newest
	// MaxAttempts that have ended. An id from
	// before a backup was put in the store's place is ErrNotFound where the
	// backup does not have its job, though another one may have its number.
	Job(ctx context.Context, id string) (*job.Job, error)
	// List returns jobs without their attempts, newest first.
	List(ctx context.Context, f Filter) (Page, error)
	// Logs returns the lines of one attempt by their seq. ErrNotFound where the
	// job or the attempt is not there.
	Logs(ctx context.Context, id string, attempt int) (Log, error)
	// AwaitEnd returns nil once the job is finished, or gone, or ctx.Err().
	AwaitEnd(ctx context.Context, id string) error
}

// NewJob is a job to create. The caller checked every bound.
type NewJob struct {
	Queue, Task, Version, Endpoint string
	Priority                       int
	Content                        job.Content
	Tags                           []string
	Trace                          job.Trace
	Policy                         job.Snapshot
	Timeout                        time.Duration
	Kind                           job.Kind
	// Unique makes the job the only one of its queue and task that is not finished
	// and says so: another is Found instead; "" for any number.
	Unique string
	// RunAt is when it may run first; zero, or past, is at once. Delay counts
	// from the commit, where RunAt is zero.
	RunAt time.Time
	Delay time.Duration
	// Key makes a repeat of the same request return the same job; "" for none.
	// Hash sums up the request that it stands for.
	Key  string
	Hash [32]byte
}

// MaxAttempts is how many ended attempts Job returns: more than a job has that
// nobody brought back, by the caps of core/job and HandBacks.
const MaxAttempts = 1000

// Created is a job that Create made or found.
type Created struct {
	ID string
	// Found is set where the key named it already: made by an earlier call, or
	// by an earlier job of this one.
	Found bool
	// CreatedAt and RunAt are set for one that was made.
	CreatedAt, RunAt time.Time
}

// Want is what a worker asks for.
type Want struct {
	Worker string
	// Caller is who claims: what the same worker's name and ClaimID mean to
	// another caller is another claim. "" is a caller too.
	Caller string
	// ClaimID makes a repeat of the claim, by the same caller for the same
	// worker, return the same leases, as far as they still hold and this claim
	// asks for their queue and task; "" for none.
	ClaimID string
	// Queues are the queues and the lease that each gives.
	Queues []QueueLease
	// Tasks are what the worker handles; empty is every task.
	Tasks []lane.Task
	// Max bounds the jobs, MaxBytes the sum of their contents; one job is
	// returned whatever its size.
	Max      int
	MaxBytes int
	// Timeout is that of each attempt, instead of its job's own; 0 leaves it.
	Timeout time.Duration
	// Wait is how long to wait for a job; 0 does not. A claim that would have to
	// wait while too many do is ErrBusy.
	Wait time.Duration
	// Room, where it is set, is asked once jobs were taken and before their
	// contents are read, with how many they are and the bytes of their contents.
	// Where it returns an error, the jobs go back, uncharged, and the error is
	// Claim's. It may wait a moment, in which the leases run.
	Room func(ctx context.Context, jobs, bytes int) error
}

// QueueLease is a queue and how long its leases are.
type QueueLease struct {
	Queue string
	Lease time.Duration
}

// Claim is what a worker got.
type Claim struct {
	// Now is when it was committed.
	Now  time.Time
	Jobs []Claimed
}

// Claimed is a job under a lease.
type Claimed struct {
	// Job is the job, without the stack of its last error.
	Job *job.Job
	// Lease is the token of every report: opaque text of at most 64 characters.
	Lease                string
	LeaseFor             time.Duration
	LeaseUntil, Deadline time.Time
	// Trace is what its worker goes on from. The store leaves it to who hands the
	// job on.
	Trace job.Trace
}

// ReportType is what a worker reports.
type ReportType string

// The types of report.
const (
	Start     ReportType = "start"
	Heartbeat ReportType = "heartbeat"
	AddLog    ReportType = "log"
	Complete  ReportType = "complete"
	Fail      ReportType = "fail"
	Release   ReportType = "release"
)

// Report is one thing that a worker says of one lease. Texts were cleaned and
// cut by the caller.
type Report struct {
	Type  ReportType
	Lease string
	// Queues are those whose leases the caller may report on: one of another is
	// LeaseLost to it. nil is every queue.
	Queues []string
	// Hash sums up a report that ends the attempt, so that the same one again
	// gets the same answer.
	Hash   [32]byte
	Lines  []job.LogLine // of AddLog
	Result []byte        // of Complete: a JSON value, or nil
	// Refused says of a Complete how its result does not fit its task's contract,
	// which fails the job; "" where it does.
	Refused string
	Error   *job.Error    // of Fail
	Failure job.Failure   // of Fail
	After   time.Duration // of Release: how long the job rests
	Note    string        // of Complete and Fail: what the caller cleaned
}

// AnswerStatus says what became of a report.
type AnswerStatus string

// The statuses of an answer.
const (
	ReportTaken AnswerStatus = "ok"
	// LeaseLost: the lease is not current, or not a lease; nothing was changed.
	LeaseLost AnswerStatus = "lease_lost"
)

// Answer is what became of one report.
type Answer struct {
	Status AnswerStatus
	// JobStatus is the job's afterwards; "" where the lease was lost.
	JobStatus job.Status
	RunAt     time.Time // where it is queued again
	// LeaseUntil is when silence ends the lease, where it still holds.
	LeaseUntil time.Time
	// Cancel tells the worker to give up: the job was cancelled.
	Cancel bool
}

// Filter chooses jobs for a list. Zero fields let everything pass.
type Filter struct {
	Queue, Task, Endpoint       string
	Status                      job.Status
	Reason                      job.Reason
	Tag                         string
	CreatedAfter, CreatedBefore time.Time
	// Limit is how many to return, 1 to MaxPage. Cursor is Page.Next of the
	// page before; "" is the first.
	Limit  int
	Cursor string
}

// MaxPage is the most jobs of one page.
const MaxPage = 500

// ErrBadCursor: the cursor is none that List gave out.
var ErrBadCursor = errors.New("the cursor is not one that this list gave out")

// Page is a part of a list. Next is "" where the list ends. A page may be short
// though more follow: a filter that little passes is searched in steps.
type Page struct {
	Jobs []*job.Job
	Next string
}

// Log is what was logged in one attempt.
type Log struct {
	Lines []job.LogLine
	// Cut says that more was reported than MaxLog bytes, which was dropped.
	Cut bool
}

// MaxLog is how many bytes of log one attempt keeps.
const MaxLog = 64 << 10

// Upkeep keeps the store in order.
type Upkeep interface {
	// Sweep ends leases and timeouts that are over, and returns when the next
	// one ends; zero where none runs. It is called at least once a second.
	Sweep(ctx context.Context) (Swept, error)
	// Retain removes finished jobs and events that were kept long enough, some hundred
	// a call, and from time to time what only they needed. It reports whether more
	// is left to do.
	Retain(ctx context.Context, r Retention) (More, error)
	// Counts returns the kept counts of every lane that has a job.
	Counts(ctx context.Context) ([]LaneCount, error)
	// Backup copies the store as of now to a new file that a store can be opened
	// on. An existing file is an error. Ids, keys and idempotency keys are good in
	// the copy; lease tokens of this store are LeaseLost in it, since the copy may
	// give the same attempt of the same job to another worker.
	Backup(ctx context.Context, file string) error
	// Vitals is how the store itself is.
	Vitals() Vitals
}

// Swept counts what a sweep ended, by outcome.
type Swept struct {
	Next                       time.Time
	TimedOut, Lost, Unreceived int
	// Graced counts the leases that were lengthened once, because nobody could
	// report for a while.
	Graced int
}

// Retention is how long finished jobs, and events, are kept. 0 keeps them.
type Retention struct{ Finished, DeadLetters, Events time.Duration }

// More says whether there is more to do.
type More bool

// Finished says that jobs of a queue came to their end.
type Finished struct {
	Queue  string
	Status job.Status // Succeeded, Failed or Cancelled
	Jobs   int64
}

// LaneCount is how many jobs of a lane are where.
type LaneCount struct {
	Lane                                         lane.Key
	Ready, Running, Succeeded, Failed, Cancelled int64
}

// Vitals are figures about a store.
type Vitals struct {
	Bytes, WALBytes int64
	// Commits and Operations count since the start, Operations those that were in
	// the commits: their ratio is how well commits are shared.
	Commits, Operations int64
	// LastCommit is how long the newest commit took, CommitTimes all of them, and
	// CommitSizes of how many operations each was.
	LastCommit               time.Duration
	CommitTimes, CommitSizes histogram.Snapshot
	Lanes                    int
	Running                  int
	Parked                   int // claims that wait
}

// Gates keeps what was paused by hand.
type Gates interface {
	// Pause shuts a gate, Resume opens it, both at once for claims that begin
	// after. Doing it again changes nothing. ErrTooMany where as many are shut as
	// may be.
	Pause(ctx context.Context, g lane.Gate, by string) error
	Resume(ctx context.Context, g lane.Gate, by string) error
	// Paused lists the gates that are shut by hand.
	Paused(ctx context.Context) ([]Pause, error)
}

// Pause is a gate that is shut by hand.
type Pause struct {
	Gate  lane.Gate
	By    string
	Since time.Time
}
