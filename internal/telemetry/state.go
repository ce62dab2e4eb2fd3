package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl/internal/core/event"
)

// State is what the engines know about themselves at one moment. Where a name
// stands in it twice (two generations drain one lane), counts add up, and the
// worst breaker, the longest hold and the smallest budget are shown.
type State struct {
	// Generation is the number of the configuration in force.
	Generation  int
	Sources     []SourceState
	Lanes       []LaneState
	Endpoints   []EndpointState
	DeadLetters LetterState
	Jobs        *JobState // nil without a job server
}

// SourceState is one source.
type SourceState struct {
	Name     string
	InFlight int // messages taken and not settled
}

// LaneState is one destination's lane.
type LaneState struct {
	Destination string
	Pending     int // places in use
	Places      int // places there are (max_pending)
	Working     int // attempts in flight
	Workers     int // attempts that may be in flight (workers)
	// RetriesLeft is what the retry budget allows now; nil without one.
	RetriesLeft *int
}

// EndpointState is what a breaker guards.
type EndpointState struct {
	Destination string
	Name        string
	Breaker     event.BreakerState
	HeldUntil   time.Time // zero or past: not held
	// Health is zero where it is not checked.
	Health event.Health
}

// LetterState is the dead letters that are neither replayed nor purged.
type LetterState struct {
	Open   int
	Oldest time.Time // when the oldest open one died; zero without one
}

// stateCollector asks for the State once a scrape.
type stateCollector struct {
	snapshot func() State

	generation, inFlight                                     *prometheus.Desc
	pending, places, working, workers, retriesLeft           *prometheus.Desc
	breaker, held, healthy, lettersOpen, lettersOldestSecond *prometheus.Desc

	jobs jobDescs
}

func newStateCollector(snapshot func() State) *stateCollector {
	if snapshot == nil {
		snapshot = func() State { return State{} }
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &stateCollector{
		snapshot:            snapshot,
		generation:          desc("pawl_configuration_generation", "Number of the configuration in force."),
		inFlight:            desc("pawl_in_flight", "Messages of a source that are taken and not settled.", "source"),
		pending:             desc("pawl_lane_pending", "Messages open in a destination's lane: places in use.", "destination"),
		places:              desc("pawl_lane_places", "Places of a destination's lane (max_pending).", "destination"),
		working:             desc("pawl_lane_workers_busy", "Attempts of a destination in flight: workers in use.", "destination"),
		workers:             desc("pawl_lane_workers", "Attempts that may be in flight at once (workers).", "destination"),
		retriesLeft:         desc("pawl_retry_budget_remaining", "Retries that the retry budget of a destination allows now.", "destination"),
		breaker:             desc("pawl_breaker_state", "State of a circuit breaker: 0 closed, 1 half-open, 2 open.", "destination", "endpoint"),
		held:                desc("pawl_hold_remaining_seconds", "Seconds left of the hold that an endpoint asked for; 0 without one.", "destination", "endpoint"),
		healthy:             desc("pawl_endpoint_healthy", "1 while the health checks of a group's member pass, 0 while they fail; members that are not checked have none.", "destination", "endpoint"),
		lettersOpen:         desc("pawl_dead_letters_open", "Dead letters that are neither replayed nor purged."),
		lettersOldestSecond: desc("pawl_dead_letters_oldest_age_seconds", "Age of the oldest open dead letter; 0 without one."),
		jobs:                newJobDescs(),
	}
}

// Describe sends the descriptors.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range append(c.jobs.all(),
		c.generation, c.inFlight, c.pending, c.places, c.working, c.workers, c.retriesLeft,
		c.breaker, c.held, c.healthy, c.lettersOpen, c.lettersOldestSecond,
	) {
		ch <- d
	}
}

// Collect takes a State and sends it.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	s, now := c.snapshot(), time.Now()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.generation, float64(s.Generation))
	gauge(c.lettersOpen, float64(s.DeadLetters.Open))
	gauge(c.lettersOldestSecond, ageSeconds(s.DeadLetters.Oldest, now))
	c.jobs.collect(ch, s.Jobs)
	for name, n := range mergeSources(s.Sources) {
		gauge(c.inFlight, float64(n), name)
	}
	for name, l := range mergeLanes(s.Lanes) {
		gauge(c.pending, float64(l.Pending), name)
		gauge(c.places, float64(l.Places), name)
		gauge(c.working, float64(l.Working), name)
		gauge(c.workers, float64(l.Workers), name)
		if l.RetriesLeft != nil {
			gauge(c.retriesLeft, float64(*l.RetriesLeft), name)
		}
	}
	for n, e := range mergeEndpoints(s.Endpoints) {
		gauge(c.breaker, float64(e.Breaker), n.destination, n.endpoint)
		gauge(c.held, max(0, e.HeldUntil.Sub(now).Seconds()), n.destination, n.endpoint)
		switch e.Health {
		case event.Healthy:
			gauge(c.healthy, 1, n.destination, n.endpoint)
		case event.Unhealthy:
			gauge(c.healthy, 0, n.destination, n.endpoint)
		}
	}
}

// ageSeconds returns how old at is. A clock that was set back gives 0.
func ageSeconds(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}

// The merges keep a name to one series: Prometheus refuses a whole scrape in
// which one stands twice.

func mergeSources(all []SourceState) map[string]int {
	by := make(map[string]int, len(all))
	for _, s := range all {
		by[s.Name] += s.InFlight
	}
	return by
}

func mergeLanes(all []LaneState) map[string]LaneState {
	by := make(map[string]LaneState, len(all))
	for _, l := range all {
		sum := by[l.Destination]
		sum.Pending += l.Pending
		sum.Places += l.Places
		sum.Working += l.Working
		sum.Workers += l.Workers
		if left := l.RetriesLeft; left != nil && (sum.RetriesLeft == nil || *left < *sum.RetriesLeft) {
			sum.RetriesLeft = left
		}
		by[l.Destination] = sum
	}
	return by
}

func mergeEndpoints(all []EndpointState) map[endpointName]EndpointState {
	by := make(map[endpointName]EndpointState, len(all))
	for _, e := range all {
		n := endpointName{e.Destination, e.Name}
		worst := by[n]
		worst.Breaker = max(worst.Breaker, e.Breaker)
		worst.Health = max(worst.Health, e.Health)
		if e.HeldUntil.After(worst.HeldUntil) {
			worst.HeldUntil = e.HeldUntil
		}
		by[n] = worst
	}
	return by
}
