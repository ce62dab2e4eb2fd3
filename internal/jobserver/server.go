package jobserver

import (
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// Options are what a Server works with.
type Options struct {
	Store store.Store
	// Config is the first configuration; Configure puts another in force.
	Config Config
	// Log is for what no caller is told; nil drops it.
	Log *slog.Logger
}

// Config is what can change while a server runs.
type Config struct {
	// Project is the project's level of every policy.
	Project job.Overlay
	// Queues are the queues by name. Names that begin with RelayPrefix are the
	// relay's own.
	Queues    map[string]Queue
	Retention store.Retention
}

// Queue is a queue's settings.
type Queue struct {
	Lease   time.Duration // MinLease to MaxLease
	Timeout time.Duration // MinTimeout to MaxTimeout
	Retry   job.Overlay
}

// RelayPrefix begins the names of the queues that the relay makes for its own
// sources: relay:<source>. Producers can't name such a queue.
const RelayPrefix = "relay:"

// The bounds and defaults of a queue.
const (
	MinLease, DefaultLease, MaxLease       = time.Second, 30 * time.Second, time.Hour
	MinTimeout, DefaultTimeout, MaxTimeout = time.Second, 5 * time.Minute, 24 * time.Hour
)

// New is a job that a producer asks for. Nil and zero fields were not said.
type New struct {
	Queue, Task, Version, Endpoint string
	Priority                       int
	Payload                        []byte // a JSON value that was checked
	Tags                           []string
	Trace                          string
	Retry                          job.Overlay
	Timeout                        *time.Duration
	RunAt                          *time.Time
	Delay                          *time.Duration
	Key                            string // the idempotency key; "" for none
}

// Want is what a worker asks for.
type Want struct {
	Worker, ClaimID string
	Queues          []string
	Tasks           []lane.Task
	Max             int
	Wait            time.Duration
}

// Limits of requests, each with its own error.
const (
	MaxPayload   = 1 << 20 // bytes of a payload, and of a result
	MaxBatch     = 1000    // jobs of a batch, jobs of a claim, reports of a request
	MaxName      = 128     // characters of a name, [A-Za-z0-9._:-]
	MaxTags      = 16
	MaxKey       = 256 // bytes of an idempotency key
	MaxPriority  = 100 // and −100
	MaxClaimWait = time.Minute
	MaxAnswer    = 8 << 20 // bytes of the jobs of one claim
	MinWorker    = 8       // characters of a worker's id
	MaxDelay     = 366 * 24 * time.Hour
)

// Problem is one thing that is wrong with a request.
type Problem struct {
	// Pointer is the JSON pointer of the member: "/queue", "/jobs/3/payload".
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// InvalidError is a request that says what can't be done: a 422.
type InvalidError struct{ Problems []Problem }

// Error is the first problem and how many more there are.
func (e *InvalidError) Error() string {
	if len(e.Problems) == 0 {
		return "the request is not valid"
	}
	p := e.Problems[0]
	if p.Pointer == "" {
		return p.Message
	}
	return p.Pointer + ": " + p.Message
}
