package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// wireEndpoint is an endpoint as the wire has it.
func wireEndpoint(s *jobserver.EndpointState, now time.Time) Endpoint {
	w := Endpoint{
		Name: s.Name, Managed: wireManaged(&s.Managed), Concurrency: numberOrNull(s.Concurrency), Retry: wireRetry(&s.Retry),
		CircuitSettings: CircuitSettings{Failures: s.Endpoint.Circuit.Failures, Cooldown: new(Duration(duration.Text(s.Endpoint.Circuit.Cooldown)))},
		Circuit:         wireCircuit(s.Circuit, now), Paused: wirePaused(s.Paused), Counts: Counts(s.Counts),
	}
	if s.Rate != nil {
		w.Rate = &Rate{PerSecond: s.Rate.PerSecond, Burst: s.Rate.Burst}
	}
	return w
}

// wireCircuit is how a circuit stands as the wire has it. A wish of the endpoint
// that is past holds nothing and is not told.
func wireCircuit(c store.CircuitState, now time.Time) Circuit {
	if !c.HeldUntil.After(now) {
		c.HeldUntil = time.Time{}
	}
	return Circuit{
		Endpoint: c.Endpoint, State: string(c.State), Failures: c.Failures, Generation: c.Generation,
		OpenedAt: wireTimeOrNull(c.OpenedAt), RetryAt: wireTimeOrNull(c.RetryAt), HeldUntil: wireTimeOrNull(c.HeldUntil),
	}
}

// listEndpoints returns the endpoints that the key sees: those that somebody
// mentioned.
func (a *api) listEndpoints(q *request) error {
	part, err := q.slice()
	if err != nil {
		return err
	}
	states, next, err := a.server.EndpointStates(q.Context(), q.who, part)
	if err != nil {
		return err
	}
	answer := Endpoints{Endpoints: make([]Endpoint, 0, len(states)), NextCursor: textOrNull(next)}
	now := a.store.Now()
	for i := range states {
		answer.Endpoints = append(answer.Endpoints, wireEndpoint(&states[i], now))
	}
	return q.marshal(http.StatusOK, answer)
}

// endpoint returns one that the key sees. The name of another is no hint for a key
// that is limited to queues.
func (a *api) endpoint(q *request) (jobserver.EndpointState, error) {
	name := q.PathValue("endpoint")
	s, err := a.server.EndpointState(q.Context(), q.who, name)
	if errors.Is(err, store.ErrNotFound) && len(q.who.Queues) > 0 {
		return s, notFound("there is no endpoint %q that jobs of the key's queues name", cut(name))
	}
	return s, err
}

func (a *api) getEndpoint(q *request) error {
	s, err := a.endpoint(q)
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireEndpoint(&s, a.store.Now()))
}

// ownEndpoint returns the endpoint that a request names, for what moves it. A key
// that is limited to queues moves none: an endpoint serves the jobs of any queue.
func (q *request) ownEndpoint() (string, error) {
	name := q.PathValue("endpoint")
	if len(q.who.Queues) > 0 {
		return "", forbidden("the key %q is limited to queues; an endpoint serves the jobs of any queue", q.who.Name)
	}
	if job.BadName(name) != "" {
		return "", notFound("%q is no name of an endpoint", cut(name))
	}
	return name, nil
}

// putEndpoint says how an endpoint is to be called.
func (a *api) putEndpoint(q *request) error {
	name, err := q.ownEndpoint()
	if err != nil {
		return err
	}
	var settings jobserver.Endpoint
	if err := q.read(wirejson.Refuse, func(r *wirejson.Reader) { settings = readEndpoint(r) }); err != nil {
		return err
	}
	if err := tooMany(a.server.PutEndpoint(q.Context(), q.who, name, settings), errDefinitions); err != nil {
		return err
	}
	return a.getEndpoint(q)
}

// deleteEndpoint forgets what the API said of an endpoint.
func (a *api) deleteEndpoint(q *request) error {
	name, err := q.ownEndpoint()
	if err != nil {
		return err
	}
	if err := q.nothing(); err != nil {
		return err
	}
	if err := a.server.RemoveEndpoint(q.Context(), name); err != nil {
		return inUse(err)
	}
	return q.done()
}

// circuit returns how the circuit of an endpoint stands.
func (a *api) circuit(q *request) error {
	s, err := a.endpoint(q)
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireCircuit(s.Circuit, a.store.Now()))
}

// resetCircuit closes the circuit of an endpoint, whatever was counted.
func (a *api) resetCircuit(q *request) error {
	if _, err := q.ownEndpoint(); err != nil {
		return err
	}
	s, err := a.endpoint(q)
	if err != nil {
		return err
	}
	if err := q.nothing(); err != nil {
		return err
	}
	c, err := a.store.ResetCircuit(q.Context(), s.Name, q.who.Name)
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireCircuit(c, a.store.Now()))
}
