package metamorphic

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// modelCircuit is the circuit of one endpoint.
type modelCircuit struct {
	state                      circuit.State
	failures                   int
	generation                 int64
	opened, retry, held, probe time.Time
	failedTask                 string // of the probe that failed last
}

// circuitOf is the circuit of an endpoint, closed where it is new.
func (m *model) circuitOf(endpoint string) *modelCircuit {
	if m.circuits[endpoint] == nil {
		m.circuits[endpoint] = &modelCircuit{state: circuit.Closed}
	}
	return m.circuits[endpoint]
}

// stored is the circuit as a store tells of it.
func (c *modelCircuit) stored(endpoint string) store.CircuitState {
	return store.CircuitState{Endpoint: endpoint, Circuit: circuit.Circuit{
		State: c.state, Failures: c.failures, Generation: c.generation, OpenedAt: c.opened, RetryAt: c.retry, HeldUntil: c.held,
		ProbeAt: c.probe, FailedTask: c.failedTask,
	}}
}

// settings are the numbers of an endpoint's circuit.
func (m *model) settings(endpoint string) circuit.Settings {
	if s := m.limits[lane.Gate{Kind: lane.EndpointGate, Name: endpoint}].Circuit; s != nil {
		return *s
	}
	return circuit.Settings{Failures: 5, Cooldown: time.Minute}
}

// probes says whether the circuit lets jobs through, and whether only one.
func (m *model) probes(endpoint string) (passes, one bool) {
	c := m.circuitOf(endpoint)
	switch {
	case m.now.Before(c.held):
		return false, false
	case c.state == circuit.Closed:
		return true, false
	case c.state == circuit.Open:
		return !m.now.Before(c.retry), true
	case c.probe.IsZero():
		return true, true
	default: // a probe is out; one that takes too long is not waited for
		alone := max(m.settings(endpoint).Cooldown, time.Minute)
		return !m.now.Before(c.probe.Add(alone)), true
	}
}

// avoided says whether a job stays where it is because the probe is to come from
// another task than the one that failed last, and one of another is due.
func (m *model) avoided(j *modelJob) bool {
	c := m.circuitOf(j.Endpoint)
	if c.state == circuit.Closed || c.failedTask == "" || taskText(&j.Job) != c.failedTask {
		return false
	}
	from := c.retry
	if c.held.After(from) {
		from = c.held
	}
	if !m.now.Before(from.Add(5 * time.Second)) {
		return false
	}
	for _, other := range m.jobs {
		if other.Endpoint == j.Endpoint && other.Kind == job.Ordinary && other.Status == job.Queued && !other.RunAt.After(m.now) &&
			taskText(&other.Job) != c.failedTask && m.queueOpen(other.Queue) {
			return true
		}
	}
	return false
}

func taskText(j *job.Job) string { return j.Task + "@" + j.Version }

// admit is what a claimed job does to the circuit of its endpoint.
func (m *model) admit(j *modelJob) {
	if j.Endpoint == "" || j.Kind == job.Synthetic {
		if j.Endpoint != "" && m.circuitOf(j.Endpoint).state != circuit.Closed {
			m.met["checks through a circuit that is not closed"]++
		}
		return
	}
	c := m.circuitOf(j.Endpoint)
	if c.state != circuit.Closed {
		if c.state == circuit.Open {
			m.moveCircuit(j.Endpoint, circuit.HalfOpen, "")
		}
		if !c.probe.IsZero() {
			m.met["probes beside one that takes too long"]++
		}
		m.met["probes taken"]++
		c.probe, j.lease.probe = m.now, true
	}
	j.lease.generation = c.generation
}

// verdict is what the end of an attempt says of its endpoint.
type verdict int

const (
	nothing verdict = iota
	well
	sick
)

// judge is what the end of an attempt says. r is nil where no report ended it.
func judge(o job.Outcome, r *store.Report) (v verdict, hold time.Duration) {
	switch {
	case o == job.OutcomeSucceeded:
		return well, 0
	case o == job.OutcomeTimedOut:
		return sick, 0
	case o != job.OutcomeFailed:
		return nothing, 0
	case r.Type == store.Complete: // it was refused
		return sick, 0
	case r.Failure.RetryAfter != nil && *r.Failure.RetryAfter > 0:
		return nothing, *r.Failure.RetryAfter
	case r.Failure.Endpoint == job.EndpointOK:
		return well, 0
	default:
		return sick, 0
	}
}

// judged moves the circuit of a job whose attempt has ended. l was its lease.
func (m *model) judged(j *modelJob, l *modelLease, o job.Outcome, r *store.Report) {
	if j.Endpoint == "" || j.Kind == job.Synthetic {
		return
	}
	c := m.circuitOf(j.Endpoint)
	v, hold := judge(o, r)
	if l.generation != c.generation {
		m.met["ends of an older generation"]++
		if v == sick && c.state == circuit.Open {
			m.met["stale failures at an open circuit"]++
		}
		return
	}
	if until := m.now.Add(min(hold, time.Hour)); hold > 0 && until.After(c.held) {
		c.held = until
		m.tell(store.EndpointHeld, nil, modelEvent{Event: store.Event{Endpoint: j.Endpoint}, Told: Told{HeldUntil: until}})
		m.met["holds"]++
	}
	switch {
	case c.state == circuit.Closed && v == well:
		c.failures = 0
	case c.state == circuit.Closed && v == sick:
		if c.failures++; c.failures >= m.settings(j.Endpoint).Failures {
			m.openCircuit(j.Endpoint)
		}
	case c.state == circuit.HalfOpen && l.probe:
		m.probed(j, l, o, v)
	}
}

// probed is the end of a probe.
func (m *model) probed(j *modelJob, l *modelLease, o job.Outcome, v verdict) {
	c := m.circuitOf(j.Endpoint)
	switch v {
	case well:
		m.met["probes that were well"]++
		m.reset(j.Endpoint, "")
	case sick:
		m.met["probes that failed"]++
		c.failedTask = taskText(&j.Job)
		m.openCircuit(j.Endpoint)
	case nothing:
		m.met["probes that were "+string(o)]++
		if l.claimed.Equal(c.probe) {
			c.probe = time.Time{}
		}
	}
}

func (m *model) openCircuit(endpoint string) {
	c := m.circuitOf(endpoint)
	c.opened, c.retry, c.probe = m.now, m.now.Add(m.settings(endpoint).Cooldown), time.Time{}
	m.moveCircuit(endpoint, circuit.Open, "")
	m.met["circuits opened"]++
}

// reset closes a circuit and ends its hold.
func (m *model) reset(endpoint, by string) {
	c := m.circuitOf(endpoint)
	was := *c
	*c = modelCircuit{state: was.state, generation: was.generation}
	if was.state != circuit.Closed {
		m.moveCircuit(endpoint, circuit.Closed, by)
	}
}

func (m *model) moveCircuit(endpoint string, to circuit.State, by string) {
	c := m.circuitOf(endpoint)
	c.state = to
	c.generation++
	kind := map[circuit.State]store.EventType{
		circuit.Open: store.CircuitOpened, circuit.HalfOpen: store.CircuitHalfOpen, circuit.Closed: store.CircuitClosed,
	}[to]
	m.tell(kind, nil, modelEvent{Event: store.Event{Endpoint: endpoint}, Told: Told{Generation: c.generation, RetryAt: c.retry, By: by}})
}
