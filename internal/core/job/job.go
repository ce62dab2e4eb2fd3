package job

import "time"

// TimeForm is how a time in UTC is written for programs: RFC 3339 with exactly
// milliseconds, so that texts of one length sort as times do.
const TimeForm = "2006-01-02T15:04:05.000Z"

// Job is a job as a reader sees it. Times are the store's, with milliseconds.
type Job struct {
	ID       string
	Queue    string
	Task     string
	Version  string
	Endpoint string // "" for none
	Priority int
	Content  Content
	Tags     []string
	Trace    Trace
	Policy   Snapshot
	Timeout  time.Duration // of an attempt
	Kind     Kind
	// Unique is what no other job of its queue and task that is not finished
	// says; "" for nothing.
	Unique string

	CreatedAt time.Time
	RunAt     time.Time // when it may run next, or could at its last claim
	Status    Status
	// Attempt is the number of the newest attempt, 0 before the first.
	Attempt int
	Counts  Counts
	// FinishedAt is zero until the job is finished; Reason is set for a dead
	// letter only. Result is that of a success, or the one that was refused, or came
	// after the job was cancelled.
	FinishedAt time.Time
	Reason     Reason
	Result     []byte
	LastError  *Error
	// Attempts are in the order of their numbers, which may have gaps: of
	// hand-backs of the relay in a row only the newest is kept. Lists and claims
	// leave them out.
	Attempts []Attempt
}

// Kind is what a job is for.
type Kind string

// The kinds of job.
const (
	Ordinary Kind = ""
	// Synthetic: it finds out how its endpoint is. It has one attempt, a lost one
	// included, passes an open circuit and never moves it, and is no dead letter.
	Synthetic Kind = "synthetic"
)

// Repeat says what another attempt of a task may do.
type Repeat string

// What another attempt may do.
const (
	// RepeatSafe: nothing that the first did not. The zero value is that too.
	RepeatSafe Repeat = "safe"
	// RepeatUnsafe: its effect a second time. Claimed means started, so a job
	// whose attempt ended unknown is not repeated by itself.
	RepeatUnsafe Repeat = "unsafe"
)

// Content is what a job carries.
type Content struct {
	// Payload is a JSON value, or the body of a message where Head is set.
	Payload []byte
	// Head is the rest of a message, in the form of message.AppendHead; nil
	// for a job that the API made.
	Head []byte
}

// Size is what the content counts against limits, in bytes.
func (c Content) Size() int { return len(c.Payload) + len(c.Head) }

// Counts are what the policy counts of a job. A person's retry sets them to
// zero.
type Counts struct {
	// Charged are the attempts that max_attempts counts.
	Charged int
	// Lost are the attempts whose worker fell silent, LostInRow the newest of
	// them that follow each other.
	Lost, LostInRow int
	// Unreceived are the attempts that no worker ever reported anything of.
	Unreceived int
}

// Attempt is one try, while it runs or after.
type Attempt struct {
	Number    int
	Worker    string
	StartedAt time.Time
	EndedAt   time.Time // zero while it runs
	Outcome   Outcome   // "" while it runs
	Charged   bool
	Error     *Error
	// NextRunAt is when the job may run again; zero where it may not.
	NextRunAt time.Time
	// Note says what the server changed or added: a wait that was cut, say.
	Note string
}

// Error is what a worker reported of a failure.
type Error struct {
	Type    string `json:"type,omitempty"`
	Message string `json:"message,omitempty"`
	Stack   string `json:"stack,omitempty"`
}

// LogLine is one line that a worker logged. Seq counts a worker's lines of one
// attempt, so that a repeat is known.
type LogLine struct {
	Seq     int64
	At      time.Time
	Level   string
	Message string
}

// Run is a job under a lease, as far as decisions need it.
type Run struct {
	Attempt int
	Counts  Counts // before this attempt ends
	Policy  Policy
	Repeat  Repeat
	// Kind is Synthetic for a check of an endpoint.
	Kind Kind
	// Heard is when the worker was last heard of, by any report; zero for
	// never.
	Heard time.Time
	// LeaseUntil is when silence ends the lease, Deadline when the attempt's
	// timeout ends it whatever is heard.
	LeaseUntil, Deadline time.Time
}

// End is when the attempt ends if nothing more is heard: the earlier of the two.
func (r Run) End() time.Time {
	if r.Deadline.Before(r.LeaseUntil) {
		return r.Deadline
	}
	return r.LeaseUntil
}
