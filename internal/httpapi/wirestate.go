package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlhq/pawl/internal/core/job"
)

// Explanation is why a job is not running now.
type Explanation struct {
	ID     string     `json:"id" doc:"Of the job."`
	Status job.Status `json:"status" enum:"queued,running,succeeded,failed,cancelled"`
	Now    Time       `json:"now"`
	Causes []Cause    `json:"causes" nullable:"false" doc:"Everything that stands before it, at least one: for a job that nothing stands before that it waits for its turn; for one that is not queued its status, or the reason of a dead letter."`
}

// Cause is one reason why a job is not running.
type Cause struct {
	Kind     string  `json:"kind" doc:"A word that stays the same: not_due, paused, circuit_open, circuit_half_open, held, rate, concurrency, no_queue, no_worker, turn; running, succeeded, cancelled, check_failed; or the reason of a dead letter. More may come."`
	Queue    *string `json:"queue" nullable:"true" doc:"The queue that it is about, where it is about one."`
	Endpoint *string `json:"endpoint" nullable:"true" doc:"The endpoint that it is about, where it is about one."`
	Since    *Time   `json:"since" nullable:"true" doc:"Null where it is not known."`
	Until    *Time   `json:"until" nullable:"true" doc:"When it ends by itself at the earliest; null where nobody can say."`
	Text     string  `json:"text" doc:"What it is, for people."`
	Next     string  `json:"next" doc:"What to do about it, for people."`
}

// Stats say how the job server is. A key that is limited to queues gets the
// figures of these, and null for what is of all.
type Stats struct {
	Now    Time         `json:"now"`
	Counts Counts       `json:"counts" doc:"Of the queues that the key sees."`
	Queues []QueueStats `json:"queues" nullable:"false"`
	All    *AllStats    `json:"all" doc:"Null for a key that is limited to queues."`
}

// TransformSchema says where null may stand.
func (Stats) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "all")
}

// QueueStats are one queue's.
type QueueStats struct {
	Name     string  `json:"name"`
	Counts   Counts  `json:"counts"`
	OldestMS int64   `json:"oldest_ms" doc:"How long the job that waits longest has been due; 0 where none is."`
	Paused   *Paused `json:"paused"`
}

// TransformSchema says where null may stand.
func (QueueStats) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "paused")
}

// AllStats are the figures of the process and its store.
type AllStats struct {
	Circuits []Circuit `json:"circuits" nullable:"false" doc:"Those that are not closed, or that their endpoint's wish holds."`
	Workers  int       `json:"workers" doc:"Heard of within the last minute by this process."`
	Since    Time      `json:"since" doc:"When the process began to count totals."`
	Totals   Totals    `json:"totals"`
	Store    Vitals    `json:"store"`
}

// Totals count what the process did since it began.
type Totals struct {
	Created    int64 `json:"created" doc:"Jobs that were made."`
	Found      int64 `json:"found" doc:"Jobs that a key named already."`
	Claimed    int64 `json:"claimed" doc:"Leases that were given."`
	Succeeded  int64 `json:"succeeded" doc:"Attempts that a report ended so, its repeats included."`
	Failed     int64 `json:"failed" doc:"Attempts that a report ended so, its repeats included."`
	Released   int64 `json:"released" doc:"Attempts that a report ended so, its repeats included."`
	LeaseLost  int64 `json:"lease_lost" doc:"Reports that came too late."`
	Invalid    int64 `json:"invalid" doc:"Reports that could not be taken."`
	TimedOut   int64 `json:"timed_out" doc:"Attempts whose timeout ended them."`
	Lost       int64 `json:"lost" doc:"Attempts whose worker fell silent."`
	Unreceived int64 `json:"unreceived" doc:"Attempts that no worker ever reported anything of."`
	Graced     int64 `json:"graced" doc:"Leases that were lengthened, because nobody could report for a while."`
}

// Vitals are figures about the store.
type Vitals struct {
	Bytes         int64 `json:"bytes" doc:"Of its file."`
	Commits       int64 `json:"commits"`
	Operations    int64 `json:"operations" doc:"Their ratio to commits is how well these are shared."`
	LastCommitMS  int64 `json:"last_commit_ms"`
	WaitingClaims int   `json:"waiting_claims"`
}
