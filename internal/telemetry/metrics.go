package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// attemptBuckets are the seconds of pawl_delivery_seconds: from an endpoint in
// the same rack to the longest timeout that people set.
var attemptBuckets = []float64{
	.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

// waitBuckets are the seconds of pawl_rate_limit_wait_seconds: from a token that
// is about to come to the waits of limits below one a minute.
var waitBuckets = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}

// batchBuckets are the messages of pawl_batch_messages: one alone to the most that
// a batch may hold.
var batchBuckets = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}

// metrics are the families that events move. Those that are asked of the
// engines are in state.go.
type metrics struct {
	attempts       *prometheus.CounterVec
	seconds        *prometheus.HistogramVec
	limited        *prometheus.HistogramVec
	dropped        *prometheus.CounterVec
	fallbacks      *prometheus.CounterVec
	resends        *prometheus.CounterVec
	hedges         *prometheus.CounterVec
	batches        *prometheus.HistogramVec
	storeErrors    *prometheus.CounterVec
	storeSkips     *prometheus.CounterVec
	notifications  *prometheus.CounterVec
	routerFallback *prometheus.CounterVec
	dlq            *prometheus.CounterVec
	messages       *prometheus.CounterVec
	sourceUp       *prometheus.GaugeVec
	leasesLost     *prometheus.CounterVec
	reloadOK       prometheus.Gauge
	unlabelled     prometheus.Counter

	letters letterCounters
	alerts  alertCounters
}

func newMetrics() *metrics {
	m := &metrics{
		attempts: counters("pawl_delivery_attempts_total",
			"Attempts to deliver, by how they ended.", "destination", "endpoint", "outcome"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pawl_delivery_seconds",
			Help:    "Time from sending to the end of the answer, per attempt that pawl did not cancel.",
			Buckets: attemptBuckets,
		}, []string{"destination", "endpoint"}),
		limited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pawl_rate_limit_wait_seconds",
			Help:    "Time that attempts waited for the rate limit; those that did not wait are not counted.",
			Buckets: waitBuckets,
		}, []string{"destination"}),
		dropped: counters("pawl_delivery_dropped_total",
			"Best-effort deliveries given up: failed, or the lane was full.", "destination"),
		fallbacks: counters("pawl_fallback_total",
			"Times a destination was left for the next of its chain.", "from", "to", "reason"),
		resends: counters("pawl_connection_resends_total",
			"Requests sent again on a fresh connection because a reused one was dead.", "destination", "endpoint"),
		hedges: counters("pawl_hedges_total",
			"Races of hedged attempts, by which attempt won: the one that it began with, a hedge, or none.", "destination", "won"),
		batches: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pawl_batch_messages",
			Help:    "Messages that went in one attempt, where a destination batches.",
			Buckets: batchBuckets,
		}, []string{"destination"}),
		storeErrors: counters("pawl_store_errors_total",
			"Times the relay went on without a store, its retries used up, by operation.", "store", "op"),
		storeSkips: counters("pawl_store_skipped_total",
			"Times the relay went on without asking a store that had failed a moment before, by operation.", "store", "op"),
		notifications: counters("pawl_notifications_total",
			"Alerts, by what they tell of and by whether they arrived.", "event", "outcome"),
		routerFallback: counters("pawl_router_fallback_total",
			"Times a router did not decide and the next of its chain was asked.", "route", "to"),
		dlq: counters("pawl_dlq_total",
			"Dead letters, by reason and by whether they could be stored.", "reason", "outcome"),
		messages: counters("pawl_source_messages_total",
			"Messages of a source, by how they ended; no_key counts, beside its end, one without a key to know a repeat by.", "source", "outcome"),
		sourceUp: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pawl_source_up",
			Help: "1 while a source can take messages, 0 while it is down.",
		}, []string{"source"}),
		leasesLost: counters("pawl_source_leases_lost_total",
			"Leases of a queue that ended while their messages were being delivered, so that these may be delivered twice.", "source"),
		reloadOK: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pawl_configuration_last_reload_successful",
			Help: "1 if the last configuration was taken, 0 if it was refused.",
		}),
		unlabelled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_events_unlabelled_total",
			Help: "Events about something that a reload has removed; they are in no other metric.",
		}),
	}
	m.reloadOK.Set(1)
	m.letters = newLetterCounters(m.dlq)
	m.alerts = newAlertCounters(m.notifications)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *metrics) register(r *prometheus.Registry) {
	r.MustRegister(m.attempts, m.seconds, m.limited, m.dropped, m.fallbacks, m.resends, m.hedges, m.batches,
		m.storeErrors, m.storeSkips, m.notifications, m.routerFallback,
		m.dlq, m.messages, m.sourceUp, m.leasesLost, m.reloadOK, m.unlabelled)
}

func (m *metrics) reloaded(e event.Event) {
	if e.Error == "" {
		m.reloadOK.Set(1)
		return
	}
	m.reloadOK.Set(0)
}

// letterCounters are the series of pawl_dlq_total. All exist from the start,
// so that the first dead letter is an increase that an alert rule can see.
type letterCounters map[message.Reason]struct{ ok, bad prometheus.Counter }

func newLetterCounters(v *prometheus.CounterVec) letterCounters {
	c := letterCounters{}
	for _, r := range message.Reasons() {
		c[r] = struct{ ok, bad prometheus.Counter }{
			ok:  v.WithLabelValues(string(r), "stored"),
			bad: v.WithLabelValues(string(r), "failed"),
		}
	}
	return c
}

func (c letterCounters) stored(r message.Reason) bool {
	h, known := c[r]
	if known {
		h.ok.Inc()
	}
	return known
}

func (c letterCounters) failed(r message.Reason) bool {
	h, known := c[r]
	if known {
		h.bad.Inc()
	}
	return known
}

// alertEvents and alertOutcomes are the closed sets of two labels.
var (
	alertEvents = [...]string{
		"dead_letter", "dead_letter_failed", "circuit_open", "circuit_closed", "unrouted", "source_down",
	}
	alertOutcomes = [...]event.Alert{event.AlertSent, event.AlertFailed, event.AlertDropped}
)

type alertName struct {
	event   string
	outcome event.Alert
}

// alertCounters are the series of pawl_notifications_total, which exist from the
// start as those of dead letters do.
type alertCounters map[alertName]prometheus.Counter

func newAlertCounters(v *prometheus.CounterVec) alertCounters {
	c := alertCounters{}
	for _, name := range alertEvents {
		for _, outcome := range alertOutcomes {
			c[alertName{name, outcome}] = v.WithLabelValues(name, string(outcome))
		}
	}
	return c
}

func (c alertCounters) told(e event.Event) bool {
	h, known := c[alertName{e.Name, e.Alert}]
	if known {
		h.Inc()
	}
	return known
}

// newBuildInfo returns the metric that says which binary this is.
func newBuildInfo(version, revision string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "pawl_build_info",
		Help:        "Always 1; the labels say which build runs.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
