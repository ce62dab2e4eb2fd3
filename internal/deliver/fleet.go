package deliver

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/chain"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/semaphore"
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
	// Members are at least one, their names unique in the whole Set.
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
	MaxBytes    int64
	MaxWait     time.Duration
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

// Set is the destinations of one configuration. It never changes.
type Set struct {
	fleet  *Fleet
	byName map[string]*Destination
}

// Destination returns the one with the name.
func (s *Set) Destination(name string) (*Destination, bool) {
	d, ok := s.byName[name]
	return d, ok
}

// Destination is one destination of a Set. Safe for concurrent use.
type Destination struct {
	spec  Spec
	fleet *Fleet
	lane  *lane
	chain []link
}

// link is one step of a chain: a destination and the step whose fallback it
// is, whose deadline therefore bounds it too.
type link struct {
	to     *Destination
	parent int
}

// Name returns the destination's name.
func (d *Destination) Name() string { return d.spec.Name }

// Link makes the destinations of a configuration without putting anything in
// force. Unknown fallbacks, cycles and doubled names are errors. Nothing can be
// delivered before Install.
func (f *Fleet) Link(specs []Spec) (*Set, error) {
	set := &Set{fleet: f, byName: make(map[string]*Destination, len(specs))}
	for _, spec := range specs {
		if _, dup := set.byName[spec.Name]; dup {
			return nil, fmt.Errorf("destination %q is there twice", spec.Name)
		}
		set.byName[spec.Name] = &Destination{spec: spec, fleet: f}
	}
	for _, spec := range specs {
		for _, name := range spec.Fallback {
			if _, ok := set.byName[name]; !ok {
				return nil, fmt.Errorf("destination %q falls back to %q, which is not there", spec.Name, name)
			}
		}
	}
	for _, spec := range specs {
		links, err := chain.Flatten(spec.Name, func(name string) []string { return set.byName[name].spec.Fallback })
		if err != nil {
			return nil, err
		}
		d := set.byName[spec.Name]
		for _, l := range links {
			d.chain = append(d.chain, link{set.byName[l.Name], l.Parent})
		}
	}
	return set, nil
}

// Install puts a linked set in force: its connectors, bounds and breaker
// numbers hold at once, for the messages of older sets too. Lanes of names that
// are gone stay until the sets that know them are retired. A set is installed
// once.
func (f *Fleet) Install(set *Set) {
	f.mu.Lock()
	f.installed[set] = struct{}{}
	for _, d := range set.byName {
		d.lane = f.lane(d.spec)
	}
	f.mu.Unlock()
	for _, d := range set.byName {
		d.lane.apply(d.spec)
		if err := d.lane.replace(d.spec.Connector); err != nil {
			f.opts.Log.Warn("closing a replaced connector", "destination", d.spec.Name, "error", err)
		}
	}
}

// Configure links the specs and installs them.
func (f *Fleet) Configure(specs []Spec) (*Set, error) {
	set, err := f.Link(specs)
	if err != nil {
		return nil, err
	}
	f.Install(set)
	return set, nil
}

// lane returns the lane of the name, made where there is none. The caller holds
// f.mu.
func (f *Fleet) lane(spec Spec) *lane {
	l, ok := f.lanes[spec.Name]
	if !ok {
		l = &lane{
			name:   spec.Name,
			places: semaphore.New(int64(spec.MaxPending)),
			post:   newPost(spec.Name, spec.Name, f.opts.Events),
		}
		f.lanes[spec.Name] = l
	}
	return l
}

// apply brings the lane up to date.
func (l *lane) apply(spec Spec) {
	l.places.Resize(int64(spec.MaxPending))
	l.post.change(func(g *gate, now time.Time) {
		g.workers = spec.Workers
		g.ramp.SetCeiling(spec.Workers)
		g.setBreaker(now, spec.Breaker)
		g.quota.configured = spec.RateLimit
		g.quota.setRate(now)
		g.quota.setBudget(now, spec.RetryBudget)
	})
}

// Retire says that the last message of an installed set has ended. Lanes that
// no other installed set knows are forgotten and their connectors closed.
func (f *Fleet) Retire(set *Set) {
	f.mu.Lock()
	delete(f.installed, set)
	var gone []*lane
	for name := range set.byName {
		if l := f.lanes[name]; l != nil && !f.known(name) {
			delete(f.lanes, name)
			gone = append(gone, l)
		}
	}
	f.mu.Unlock()
	f.shut(gone)
}

// known says whether an installed set has a destination of the name. The
// caller holds f.mu.
func (f *Fleet) known(name string) bool {
	for set := range f.installed {
		if set.byName[name] != nil {
			return true
		}
	}
	return false
}

// Close closes every connector. Sends in flight may fail.
func (f *Fleet) Close() {
	f.mu.Lock()
	clear(f.installed)
	gone := slices.Collect(maps.Values(f.lanes))
	clear(f.lanes)
	f.mu.Unlock()
	f.shut(gone)
}

// shut closes the connectors of lanes that are forgotten.
func (f *Fleet) shut(gone []*lane) {
	for _, l := range gone {
		if err := l.retire(); err != nil {
			f.opts.Log.Warn("closing a connector", "destination", l.name, "error", err)
		}
	}
}
