package httpapi

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/store"
)

// queues lists the queues that the key sees: those that the configuration names
// and those that hold jobs all the same, the relay's own and forgotten ones.
func (a *api) queues(q *request) error {
	all, err := a.allQueues(q.Context())
	if err != nil {
		return err
	}
	answer := Queues{Queues: []Queue{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if q.who.Sees(name) {
			answer.Queues = append(answer.Queues, *all[name])
		}
	}
	return q.marshal(http.StatusOK, answer)
}

// marshal sends an answer that is off the hot path.
func (q *request) marshal(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing an answer: %w", err)
	}
	return q.answer(status, b)
}

func (a *api) allQueues(ctx context.Context) (map[string]*Queue, error) {
	all := map[string]*Queue{}
	for name, s := range a.server.Queues() {
		all[name] = &Queue{
			Name: name, Managed: Managed{ManagedBy: new("file")}, Lease: text(&s.Lease), Timeout: text(&s.Timeout),
			Retry: Retry{
				MaxAttempts: s.Retry.MaxAttempts, Initial: text(s.Retry.Initial), Factor: s.Retry.Factor,
				MaxDelay: text(s.Retry.MaxDelay), Jitter: s.Retry.Jitter,
			},
		}
	}
	counts, err := a.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range counts {
		queue, ok := all[c.Lane.Queue]
		if !ok {
			queue = &Queue{Name: c.Lane.Queue}
			all[c.Lane.Queue] = queue
		}
		n := &queue.Counts
		n.Queued += c.Ready
		n.Running += c.Running
		n.Succeeded += c.Succeeded
		n.Failed += c.Failed
		n.Cancelled += c.Cancelled
	}
	paused, err := a.store.Paused(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range paused {
		if queue, ok := all[p.Gate.Name]; ok && p.Gate.Kind == lane.QueueGate {
			queue.Paused = &Paused{By: p.By, Since: wireTime(p.Since)}
		}
	}
	return all, nil
}

// move pauses or resumes a gate.
type move func(ctx context.Context, g lane.Gate, by string) error

// pauseQueue and the like serve the calls of the table.
func (a *api) pauseQueue(q *request) error     { return a.moveQueue(q, a.store.Pause) }
func (a *api) resumeQueue(q *request) error    { return a.moveQueue(q, a.store.Resume) }
func (a *api) pauseEndpoint(q *request) error  { return a.moveEndpoint(q, a.store.Pause) }
func (a *api) resumeEndpoint(q *request) error { return a.moveEndpoint(q, a.store.Resume) }

func (a *api) moveQueue(q *request, m move) error {
	name := q.PathValue("queue")
	if err := q.sees(name); err != nil {
		return err
	}
	all, err := a.allQueues(q.Context())
	if err != nil {
		return err
	}
	if _, ok := all[name]; !ok {
		if near := nearest.To(name, slices.Collect(maps.Keys(all))); near != "" && q.who.Sees(near) {
			return notFound("there is no queue %q; did you mean %q?", cut(name), near)
		}
		return notFound("there is no queue %q", cut(name))
	}
	return a.moveGate(q, lane.Gate{Kind: lane.QueueGate, Name: name}, m)
}

// moveEndpoint takes any name: an endpoint is there once it is mentioned, and
// pausing one before its first job is a way to mention it.
func (a *api) moveEndpoint(q *request, m move) error {
	name := q.PathValue("endpoint")
	if len(q.who.Queues) > 0 {
		return forbidden("the key %q is limited to queues; an endpoint serves the jobs of any queue", q.who.Name)
	}
	if job.BadName(name) != "" {
		return notFound("%q is no name of an endpoint", cut(name))
	}
	return a.moveGate(q, lane.Gate{Kind: lane.EndpointGate, Name: name}, m)
}

func (a *api) moveGate(q *request, g lane.Gate, m move) error {
	if err := q.nothing(); err != nil {
		return err
	}
	err := m(q.Context(), g, q.who.Name)
	if errors.Is(err, store.ErrTooMany) {
		return errGates
	}
	if err != nil {
		return err
	}
	answer := Gate{Name: g.Name}
	paused, err := a.store.Paused(q.Context())
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(paused, func(p store.Pause) bool { return p.Gate == g }); i >= 0 {
		answer.Paused = &Paused{By: paused[i].By, Since: wireTime(paused[i].Since)}
	}
	return q.marshal(http.StatusOK, answer)
}

// text writes a length of time; nil was not said.
func text(d *time.Duration) *Duration {
	if d == nil {
		return nil
	}
	return new(Duration(duration.Text(*d)))
}
