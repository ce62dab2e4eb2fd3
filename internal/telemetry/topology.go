package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Topology is every name that a label may have: those of the configuration in
// force and of each older one that still drains.
type Topology struct {
	Sources      []string
	Destinations []Destination
	Routes       []Route
	// Stores are the stores that the relay can go on without.
	Stores []string
}

// Destination is a destination and what breakers guard in it: itself, or the
// members of a group.
type Destination struct {
	Name      string
	Endpoints []string
}

// Route is a route and the types of the routers behind its first one.
type Route struct {
	Name      string
	Fallbacks []string
}

// SetTopology makes the series of everything in topo, from zero where they are
// new, and deletes those of what is no longer in it. Names must be valid
// UTF-8. A name may be given twice.
func (t *Telemetry) SetTopology(topo Topology) {
	t.swap.Lock()
	defer t.swap.Unlock()
	next := newTable(t.metrics, topo)
	prev := t.table.Swap(next)
	next.deleteGone(t.metrics, prev)
}

// settlements and outcomes are the closed sets of two labels; a handle's place
// in its array is the value's place here.
var (
	settlements = [...]event.Settlement{
		event.SettledDelivered, event.SettledDeadLettered, event.SettledFiltered, event.SettledUnrouted,
		event.SettledNacked, event.SettledRefused, event.SettledJoined, event.SettledConflict, event.SettledInvalid,
		event.SettledStored, event.SettledDeferred,
	}
	// races and storeOps are two more.
	races    = [...]event.Race{event.RaceFirst, event.RaceHedge, event.RaceNone}
	storeOps = [...]string{"mark", "keep", "settle", "forget", "add", "ping"}
	// skippedOps are those that a store at rest is not asked for.
	skippedOps = [...]string{"mark", "keep", "settle"}
	outcomes   = [...]message.Outcome{
		message.OutcomeOK, message.OutcomeRetry, message.OutcomePermanent, message.OutcomeCancelled,
	}
	hopReasons = [...]message.HopReason{
		message.HopExhausted, message.HopPermanent, message.HopBreakerOpen, message.HopBudget,
		message.HopDeadline, message.HopFull, message.HopCancelled,
	}
)

type endpointName struct{ destination, endpoint string }

type routerName struct{ route, to string }

type storeOp struct{ store, op string }

// table holds the counters of one topology, looked up beforehand. It is never
// changed once stored; the zero value knows no name.
type table struct {
	sources      map[string]*sourceSeries
	destinations map[string]prometheus.Counter // best-effort deliveries given up
	endpoints    map[endpointName]*endpointSeries
	routers      map[routerName]prometheus.Counter
	stores       map[storeOp]prometheus.Counter // failures
	skips        map[storeOp]prometheus.Counter
}

type sourceSeries struct {
	messages [len(settlements)]prometheus.Counter
	noKey    prometheus.Counter
	up       prometheus.Gauge
	lost     prometheus.Counter
}

type endpointSeries struct {
	attempts [len(outcomes)]prometheus.Counter
	seconds  prometheus.Observer
	limited  prometheus.Observer // of the destination
	resends  prometheus.Counter
}

func newTable(m *metrics, topo Topology) *table {
	t := &table{
		sources:      map[string]*sourceSeries{},
		destinations: map[string]prometheus.Counter{},
		endpoints:    map[endpointName]*endpointSeries{},
		routers:      map[routerName]prometheus.Counter{},
		stores:       map[storeOp]prometheus.Counter{},
		skips:        map[storeOp]prometheus.Counter{},
	}
	for _, name := range topo.Sources {
		t.sources[name] = newSourceSeries(m, name)
	}
	for _, d := range topo.Destinations {
		t.destinations[d.Name] = m.dropped.WithLabelValues(d.Name)
		for _, e := range d.Endpoints {
			t.endpoints[endpointName{d.Name, e}] = newEndpointSeries(m, d.Name, e)
		}
	}
	for _, r := range topo.Routes {
		for _, to := range r.Fallbacks {
			t.routers[routerName{r.Name, to}] = m.routerFallback.WithLabelValues(r.Name, to)
		}
	}
	for _, name := range topo.Stores {
		for _, op := range storeOps {
			t.stores[storeOp{name, op}] = m.storeErrors.WithLabelValues(name, op)
		}
		for _, op := range skippedOps {
			t.skips[storeOp{name, op}] = m.storeSkips.WithLabelValues(name, op)
		}
	}
	return t
}

// noKey is the outcome that is none: the message has its own beside it.
const noKey = "no_key"

func newSourceSeries(m *metrics, name string) *sourceSeries {
	s := &sourceSeries{}
	for i, o := range settlements {
		s.messages[i] = m.messages.WithLabelValues(name, string(o))
	}
	s.noKey = m.messages.WithLabelValues(name, noKey)
	s.up = m.sourceUp.WithLabelValues(name)
	s.lost = m.leasesLost.WithLabelValues(name)
	return s
}

func newEndpointSeries(m *metrics, destination, endpoint string) *endpointSeries {
	s := &endpointSeries{
		seconds: m.seconds.WithLabelValues(destination, endpoint),
		limited: m.limited.WithLabelValues(destination),
		resends: m.resends.WithLabelValues(destination, endpoint),
	}
	for i, o := range outcomes {
		s.attempts[i] = m.attempts.WithLabelValues(destination, endpoint, string(o))
	}
	return s
}

// deleteGone deletes the series that prev had and t has not, and marks new
// sources up: a source says when it goes down, not that it has begun.
func (t *table) deleteGone(m *metrics, prev *table) {
	for name, s := range t.sources {
		if _, old := prev.sources[name]; !old {
			s.up.Set(1)
		}
	}
	for name := range prev.sources {
		if _, stays := t.sources[name]; !stays {
			m.messages.DeletePartialMatch(prometheus.Labels{"source": name})
			m.sourceUp.DeleteLabelValues(name)
			m.leasesLost.DeleteLabelValues(name)
		}
	}
	for n := range prev.endpoints {
		if _, stays := t.endpoints[n]; !stays {
			both := prometheus.Labels{"destination": n.destination, "endpoint": n.endpoint}
			m.attempts.DeletePartialMatch(both)
			m.seconds.Delete(both)
			m.resends.Delete(both)
		}
	}
	for name := range prev.destinations {
		if _, stays := t.destinations[name]; !stays {
			m.dropped.DeleteLabelValues(name)
			m.limited.DeleteLabelValues(name)
			m.batches.DeleteLabelValues(name)
			m.hedges.DeletePartialMatch(prometheus.Labels{"destination": name})
			m.fallbacks.DeletePartialMatch(prometheus.Labels{"from": name})
			m.fallbacks.DeletePartialMatch(prometheus.Labels{"to": name})
		}
	}
	for n := range prev.routers {
		if _, stays := t.routers[n]; !stays {
			m.routerFallback.DeleteLabelValues(n.route, n.to)
		}
	}
	for s := range prev.stores {
		if _, stays := t.stores[s]; !stays {
			m.storeErrors.DeleteLabelValues(s.store, s.op)
			m.storeSkips.DeleteLabelValues(s.store, s.op)
		}
	}
}

// hopped counts a hop to another destination; one to the dead letters is
// counted there. Hops have no series until they happen: the pairs that can
// follow each other are many and those that do are few. So it must not run
// beside SetTopology, which could have deleted the series just before.
func (t *Telemetry) hopped(e event.Event) bool {
	if e.To == "" {
		return true
	}
	t.swap.RLock()
	defer t.swap.RUnlock()
	names := t.table.Load()
	_, from := names.destinations[e.Destination]
	_, to := names.destinations[e.To]
	if !from || !to || !slices.Contains(hopReasons[:], e.Hop) {
		return false
	}
	t.metrics.fallbacks.WithLabelValues(e.Destination, e.To, string(e.Hop)).Inc()
	return true
}

// raced counts a race. Few destinations hedge, so their series are made as those
// of hops are.
func (t *Telemetry) raced(e event.Event) bool {
	t.swap.RLock()
	defer t.swap.RUnlock()
	if _, known := t.table.Load().destinations[e.Destination]; !known || !slices.Contains(races[:], e.Race) {
		return false
	}
	for _, won := range races {
		t.metrics.hedges.WithLabelValues(e.Destination, string(won)) // all of them at once, from zero
	}
	t.metrics.hedges.WithLabelValues(e.Destination, string(e.Race)).Inc()
	return true
}

// batched counts the messages of a batch. Series are made as those of hops are.
func (t *Telemetry) batched(e event.Event) bool {
	t.swap.RLock()
	defer t.swap.RUnlock()
	if _, known := t.table.Load().destinations[e.Destination]; !known {
		return false
	}
	t.metrics.batches.WithLabelValues(e.Destination).Observe(float64(e.Number))
	return true
}

// Each of the following counts e and reports whether the table knew its names.

func (t *table) attempt(e event.Event) bool {
	s := t.endpoints[endpointName{e.Destination, e.Endpoint}]
	i := slices.Index(outcomes[:], e.Outcome)
	if s == nil || i < 0 {
		return false
	}
	s.attempts[i].Inc()
	if e.Outcome != message.OutcomeCancelled {
		s.seconds.Observe(e.Took.Seconds())
	}
	if e.Limited > 0 {
		s.limited.Observe(e.Limited.Seconds())
	}
	return true
}

func (t *table) settled(e event.Event) bool {
	s := t.sources[e.Source]
	i := slices.Index(settlements[:], e.Settlement)
	if s == nil || i < 0 {
		return false
	}
	s.messages[i].Inc()
	return true
}

func (t *table) dropped(e event.Event) bool {
	c, known := t.destinations[e.Destination]
	if known {
		c.Inc()
	}
	return known
}

func (t *table) resent(e event.Event) bool {
	s := t.endpoints[endpointName{e.Destination, e.Endpoint}]
	if s == nil {
		return false
	}
	s.resends.Inc()
	return true
}

func (t *table) sourceUp(name string, up float64) bool {
	s := t.sources[name]
	if s == nil {
		return false
	}
	s.up.Set(up)
	return true
}

func (t *table) noKey(e event.Event) bool {
	s := t.sources[e.Source]
	if s == nil {
		return false
	}
	s.noKey.Inc()
	return true
}

// count counts an event of a store by its operation.
func count(series map[storeOp]prometheus.Counter, e event.Event) bool {
	c, known := series[storeOp{e.Name, e.Detail}]
	if known {
		c.Inc()
	}
	return known
}

func (t *table) leaseLost(e event.Event) bool {
	s := t.sources[e.Source]
	if s == nil {
		return false
	}
	s.lost.Inc()
	return true
}

func (t *table) routerFellBack(e event.Event) bool {
	c, known := t.routers[routerName{e.Route, e.To}]
	if known {
		c.Inc()
	}
	return known
}
