package jobserver

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
)

// The bounds and defaults of a queue.
const (
	MinLease, DefaultLease, MaxLease       = time.Second, 30 * time.Second, time.Hour
	MinTimeout, DefaultTimeout, MaxTimeout = time.Second, 5 * time.Minute, 24 * time.Hour
)

// How long finished jobs and events are kept. The least is what idempotency keys promise:
// a key lives as long as its job.
const (
	MinRetention       = 24 * time.Hour
	DefaultFinished    = 7 * 24 * time.Hour
	DefaultEvents      = 7 * 24 * time.Hour
	DefaultDeadLetters = 30 * 24 * time.Hour
	MaxRetention       = 3650 * 24 * time.Hour
)

// Limits of requests, each with its own error.
const (
	MaxPayload = 1 << 20 // bytes of a payload, and of a result
	// MaxMessage is how large a message of the relay may be: as large as its
	// written form, so that what the relay takes fits into a queue.
	MaxMessage   = message.MaxLine
	MaxBatch     = 1000 // jobs of a batch, jobs of a claim, reports of a request
	MaxTags      = 16
	MaxKey       = 256 // bytes of an idempotency key, and of a claim id
	MaxClaimWait = time.Minute
	MaxAnswer    = 8 << 20 // bytes of the jobs of one claim
	MinWorker    = 8       // characters of a worker's id
	MaxDelay     = 366 * 24 * time.Hour
	MaxQueues    = 100  // queues of a claim: more is a mistake, and each costs a look
	MaxTasks     = 1000 // tasks of a claim
	// MaxLines is how many log lines one report carries. At the 64 KiB that an
	// attempt keeps that is 65 bytes a line.
	MaxLines = 1000
	// MaxProblems is how many problems one answer tells: who has a hundred makes
	// the same mistake over and over.
	MaxProblems = 100
)

// badKey returns what is wrong with an idempotency key or a claim id, "" for
// nothing.
func badKey(key string) string {
	switch {
	case len(key) > MaxKey:
		return "is longer than 256 bytes"
	case !plain(key):
		return "must be UTF-8 without control characters"
	}
	return ""
}

// badWorker returns what is wrong with a worker's id, "" for nothing.
func badWorker(worker string) string {
	switch bad := job.BadName(worker); {
	case bad != "":
		return bad
	case len(worker) < MinWorker:
		return "is shorter than 8 characters; it names one worker, over restarts too"
	case job.OfRelay(worker):
		return `can't begin with "` + job.RelayPrefix + `"; such workers are the relay's own`
	}
	return ""
}
