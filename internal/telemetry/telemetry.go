package telemetry

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlhq/pawl/internal/core/event"
)

// maxScrapes is how many scrapes run at once; more are answered 503. Two
// Prometheus servers and a person fit, a loop of requests does not hurt.
const maxScrapes = 4

// Options are what New needs. The zero value works and knows no state.
type Options struct {
	// Version and Revision are the labels of pawl_build_info.
	Version  string
	Revision string
	// Snapshot returns the engines' state at the moment of a scrape. It may be
	// called from the start and by several goroutines at once, and must not
	// wait; nil means that there is no engine to ask.
	Snapshot func() State
	// StateFolder and StoreFolder are the folders of the state and of the job store,
	// whose free disk space is shown; "" shows none.
	StateFolder, StoreFolder string
	// Problem takes what a scrape could not gather; nil drops it.
	Problem func(error)
}

// Telemetry counts events into metrics. Safe for concurrent use.
type Telemetry struct {
	registry *prometheus.Registry
	metrics  *metrics
	problem  func(error)
	table    atomic.Pointer[table]
	swap     sync.RWMutex // held by SetTopology, and for reading by what makes series
}

// New returns a Telemetry with a registry of its own that holds pawl's metrics
// and those of the Go runtime and the process.
func New(o Options) *Telemetry {
	t := &Telemetry{
		registry: prometheus.NewRegistry(),
		metrics:  newMetrics(),
		problem:  o.Problem,
	}
	if t.problem == nil {
		t.problem = func(error) {}
	}
	t.table.Store(&table{})
	t.metrics.register(t.registry)
	t.registry.MustRegister(
		newStateCollector(o.Snapshot),
		newBuildInfo(o.Version, o.Revision),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if o.StateFolder != "" {
		t.registry.MustRegister(newDiskCollector("state", "the state folder", o.StateFolder))
	}
	if o.StoreFolder != "" {
		t.registry.MustRegister(newDiskCollector("store_disk", "the job store", o.StoreFolder))
	}
	return t
}

// Gatherer returns the registry for reading.
func (t *Telemetry) Gatherer() prometheus.Gatherer { return t.registry }

// Handler serves the metrics in the Prometheus text format or OpenMetrics, as
// the scraper asks. What can't be gathered is reported to Options.Problem and
// left out of the answer.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog:            problemLog(t.problem),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	})
}

// problemLog gives promhttp's errors to a function.
type problemLog func(error)

// Println is called by promhttp with a sentence and an error.
func (p problemLog) Println(v ...any) {
	for _, x := range v {
		if err, ok := x.(error); ok {
			p(err)
		}
	}
}

// Observe counts e. It is an event.Sink: it never blocks, and allocates
// nothing on the path of a message that is delivered. Events that name
// something outside of the topology are counted in
// pawl_events_unlabelled_total and nowhere else.
func (t *Telemetry) Observe(e event.Event) {
	m, names := t.metrics, t.table.Load()
	known := true
	switch e.Kind {
	case event.AttemptEnded:
		known = names.attempt(e)
	case event.Settled:
		known = names.settled(e)
	case event.Hopped:
		known = t.hopped(e)
	case event.BestEffortDropped:
		known = names.dropped(e)
	case event.ConnectionRetried:
		known = names.resent(e)
	case event.SourceUp:
		known = names.sourceUp(e.Source, 1)
	case event.SourceDown:
		known = names.sourceUp(e.Source, 0)
	case event.LeaseLost:
		known = names.leaseLost(e)
	case event.RouterFellBack:
		known = names.routerFellBack(e)
	case event.Raced:
		known = t.raced(e)
	case event.BatchSent:
		known = t.batched(e)
	case event.NoKey:
		known = names.noKey(e)
	case event.StoreFailed:
		known = count(names.stores, e)
	case event.StoreSkipped:
		known = count(names.skips, e)
	case event.Alerted:
		known = m.alerts.told(e)
	case event.Lettered:
		known = m.letters.stored(e.Reason)
	case event.LetterFailed:
		known = m.letters.failed(e.Reason)
	case event.Reloaded:
		m.reloaded(e)
	case event.Delivered, event.DeliveryFailed, event.Deferred, event.BreakerMoved, event.HealthMoved, event.HoldSet,
		event.LeverPulled:
		// Told by the attempts, or asked of the engines at the scrape.
	}
	if !known {
		m.unlabelled.Inc()
	}
}
