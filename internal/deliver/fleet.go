package deliver

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/kv"
)

// Spec is one destination as a configuration says it, with every default
// filled in.
type Spec struct {
	Name string
	// Endpoint is a plain destination's; its Name is the destination's. It is
	// unused where Group is set.
	Endpoint
	Group *Group // nil: a plain destination
	Retry retry.Policy
	// Deadline bounds the retrying over the whole chain; zero for none.
	Deadline time.Duration
	// TTL is the age past which a message is not sent any more; zero for none.
	TTL time.Duration
	// Fallback names the destinations that are tried in order when this one
	// is left.
	Fallback []string
	// Workers bounds the attempts in flight, MaxPending the messages open in
	// the lane. Both at least 1.
	Workers, MaxPending int
	// RateLimit bounds how fast attempts begin, RetryBudget how many of them may
	// be retries; nil for no bound.
	RateLimit   *limit.Rate
	RetryBudget *limit.BudgetSettings
	// BudgetCounters counts the retry budget for several relays; nil counts it
	// here.
	BudgetCounters kv.Counters
	// Hedge and Batch are nil where there is none.
	Hedge *Hedge
	Batch *Batch
	// WhenOpen says what a message does at an open breaker that has nowhere
	// else to go.
	WhenOpen WhenOpen
}

// Endpoint is what attempts are made at: a plain destination's only one, or a
// member of a group. Breaker, hold, ramp and health are one endpoint's.
type Endpoint struct {
	// EndpointName names it in metrics and levers; "" is the destination's own.
	EndpointName string
	// Connector makes the attempts. The Fleet closes it once a later
	// configuration has replaced it and its last send has ended.
	Connector connector.Destination
	// Timeout bounds one attempt, the answer's body included. Above zero.
	Timeout time.Duration
	// Breaker are the numbers of the circuit breaker; nil for none.
	Breaker *breaker.Settings
	// DeliveredOn are tags of failures that mean "it was already there".
	DeliveredOn failure.Tags
	// Success says of an answer that the protocol calls a success whether it
	// is one; nil takes the protocol's word.
	Success func(context.Context, connector.Answer) (bool, error)
	// Transform makes the body that this endpoint gets; nil for none. An error
	// is a permanent failure of this endpoint.
	Transform func(context.Context, *message.Message) (*message.Message, error)
}

// Group is several endpoints that take the same messages.
type Group struct {
	Strategy balance.Strategy
	// Members are 1 to 64, their names unique in the whole Set.
	Members []Member
	// Health is nil where members are not checked.
	Health *HealthCheck
}

// Member is one endpoint of a group.
type Member struct {
	Endpoint
	Weight int // of balance.Weighted
}

// HealthCheck says how members are asked whether they are well: those whose
// connector is a connector.HealthChecker.
type HealthCheck struct {
	Interval, Timeout time.Duration
	// UnhealthyAfter failures in a row make a member unhealthy, HealthyAfter
	// passes in a row make it healthy again.
	UnhealthyAfter, HealthyAfter int
}

// Hedge says when a message goes to another member too.
type Hedge struct {
	// After is how long an answer may take before; 0 is the 95th percentile of
	// the last minute, and none is sent while fewer than balance.MinSamples are
	// known.
	After time.Duration
	// Max is how many more members a message may go to in one race. At least 1.
	Max int
}

// Batch bounds how many messages go in one attempt. Every connector is a
// connector.Batcher.
type Batch struct {
	MaxMessages int
	MaxBytes    int64 // of their bodies; one that is as large goes alone
	// MaxWait is how long a message gathers with others before it stands at the
	// gates; half of what its deadline leaves, where that is shorter.
	MaxWait time.Duration
}

// WhenOpen is what a message does at an open breaker with nowhere to go.
type WhenOpen uint8

// What a message may do.
const (
	// WaitWhenOpen keeps it in its lane until the breaker lets it try, bounded
	// by the deadline: a short restart must not make dead letters.
	WaitWhenOpen WhenOpen = iota
	// FailWhenOpen leaves the destination at once.
	FailWhenOpen
)

// Options are what a Fleet works with.
type Options struct {
	// Events takes what happened; nil drops it.
	Events event.Sink
	// Random returns numbers in [0, 1) and is safe for concurrent use; nil is
	// math/rand/v2.
	Random func() float64
	// Log is for what is no event; nil drops it.
	Log *slog.Logger
	// Trace follows attempts; nil is free.
	Trace Tracer
	// Redact takes the secrets out of what a connector said of a failure, before
	// the text is cut to size: the cut could leave half of one. nil takes texts
	// as they are.
	Redact func(string) string
}

// Tracer follows what a delivery does. Safe for concurrent use.
type Tracer interface {
	// Attempt is called before a send. The returned context goes to the
	// connector and may carry a trace context; end is called once with what
	// became of it.
	Attempt(ctx context.Context, a AttemptInfo) (_ context.Context, end func(message.Outcome, *failure.Error))
	// Hop is called when a destination was left.
	Hop(ctx context.Context, h HopInfo)
}

// AttemptInfo is what is known before a send.
type AttemptInfo struct {
	Route, Destination, Endpoint string
	MessageID                    string
	Number                       int
	Waited                       time.Duration
	Hedge                        bool
}

// HopInfo is a destination that was left for To; "" is the dead letters.
type HopInfo struct {
	Route, To string
	MessageID string
	Entered   time.Time // when its lane took the message
	message.Hop
}

// Fleet holds what outlives a configuration: lanes, gates, open connectors. It
// is safe for concurrent use.
type Fleet struct {
	opts Options

	mu        sync.Mutex
	lanes     map[string]*lane
	installed map[*Set]struct{} // and not retired
}

// NewFleet returns a Fleet without destinations.
func NewFleet(opts Options) *Fleet {
	if opts.Events == nil {
		opts.Events = event.Discard
	}
	if opts.Random == nil {
		opts.Random = rand.Float64
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Fleet{opts: opts, lanes: map[string]*lane{}, installed: map[*Set]struct{}{}}
}
