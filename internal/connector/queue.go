package connector

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Queues is the job store, as the kinds of connector use it: durable queues of
// messages. Safe for concurrent use; calls that come together share a commit.
type Queues interface {
	// Put stores the message as a job and returns once it is durable. A message
	// whose Key is there already with the same content is Kept.Found; with
	// another it is an error that is ErrKeyConflict.
	Put(ctx context.Context, p Put) (Kept, error)
	// Take waits for messages until some come or ctx ends, whose error it then
	// returns. Each is under a lease, which Extend lengthens and Settle ends.
	Take(ctx context.Context, t Take) ([]Taken, error)
	// Extend lengthens leases and returns those that are lost: somebody else may
	// have their messages now.
	Extend(ctx context.Context, leases []string) (lost []string, err error)
	// Settle ends a lease. ErrLeaseLost: it is not current; nothing changed.
	Settle(ctx context.Context, lease string, e Ending) error
}

// Errors of Queues to ask for with errors.Is.
var (
	ErrKeyConflict = errors.New("this key was used for another message")
	ErrLeaseLost   = errors.New("the lease is not current any more")
	// ErrNoQueue: the configuration has no such queue.
	ErrNoQueue = errors.New("there is no such queue")
	// ErrTooLarge: the message is larger than a job may be.
	ErrTooLarge = errors.New("the message is larger than a job may be")
)

// MaxWait is the longest wait of a delivery that a queue feeds: where the next
// one would be longer, its message goes back to the queue. Long enough that the
// first retries cost no write to the store, short enough that an endpoint that
// is away fills the store and not the memory, and that a stop has few to hand
// back.
const MaxWait = 10 * time.Second

// Put is a message on its way into a queue.
type Put struct {
	Queue, Task, Version string // Version "" is "1"
	Priority             int
	// Key makes a repeat known; "" for none.
	Key     string
	Message *message.Message
}

// Kept is a message that is in a queue.
type Kept struct {
	Job   string // the job's id
	Found bool   // it was there already
}

// Take says which messages are wanted.
type Take struct {
	Queue string
	Tasks []lane.Task // empty is every task
	// Worker names who takes them, stable over the calls.
	Worker string
	Max    int
}

// Taken is a message under a lease. A job that the API made is a message with
// the job's id and its payload as body.
type Taken struct {
	Message *message.Message
	Job     string
	// Attempt counts the job's attempts, this one included.
	Attempt int
	// Left is how many attempts the job's policy leaves, this one included: at 1
	// the end Again is the job's own. 0 is not known.
	Left  int
	Lease string
	// LeaseFor is how long the lease holds from now on without Extend.
	LeaseFor time.Duration
}

// Ending is how a lease ends.
type Ending struct {
	How EndingHow
	// After is how long the job rests before its next attempt, for Again and
	// Back; 0 leaves it to the job's policy (Again) or is at once (Back).
	After time.Duration
	// Error says why, for Again.
	Error string
	// As is what became of the message, for Done, where it was not delivered: the
	// job's result says so. "" is delivered.
	As event.Settlement
}

// EndingHow is a way to end a lease.
type EndingHow string

// The ways.
const (
	Done  EndingHow = "done"  // settled: the job has succeeded
	Again EndingHow = "again" // failed: an attempt that the job's policy counts
	Back  EndingHow = "back"  // handed back, uncounted
)
