package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// wireQueue is a queue as the wire has it.
func wireQueue(s *jobserver.QueueState) Queue {
	w := Queue{
		Name: s.Name, Managed: wireManaged(&s.Managed), Concurrency: numberOrNull(s.Concurrency),
		Retry: wireRetry(&s.Retry), Paused: wirePaused(s.Paused), Counts: Counts(s.Counts),
	}
	if s.By != jobserver.ByNobody {
		w.Lease, w.Timeout = text(&s.Lease), text(&s.Timeout)
	}
	return w
}

// listQueues returns the queues that the key sees: those that were defined, and
// those that hold jobs all the same, the relay's own and forgotten ones.
func (a *api) listQueues(q *request) error {
	part, err := q.slice()
	if err != nil {
		return err
	}
	states, next, err := a.server.QueueStates(q.Context(), q.who, part)
	if err != nil {
		return err
	}
	answer := Queues{Queues: make([]Queue, 0, len(states)), NextCursor: textOrNull(next)}
	for i := range states {
		answer.Queues = append(answer.Queues, wireQueue(&states[i]))
	}
	return q.marshal(http.StatusOK, answer)
}

// queue returns one that the key sees.
func (a *api) queue(q *request) (jobserver.QueueState, error) {
	name := q.PathValue("queue")
	if err := q.sees(name); err != nil {
		return jobserver.QueueState{}, err
	}
	return a.server.QueueState(q.Context(), q.who, name)
}

func (a *api) getQueue(q *request) error {
	s, err := a.queue(q)
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireQueue(&s))
}

// putQueue defines a queue.
func (a *api) putQueue(q *request) error {
	name := q.PathValue("queue")
	if err := q.sees(name); err != nil {
		return err
	}
	var settings jobserver.Queue
	if err := q.read(wirejson.Refuse, func(r *wirejson.Reader) { settings = readQueue(r) }); err != nil {
		return err
	}
	if err := tooMany(a.server.PutQueue(q.Context(), q.who, name, settings), errDefinitions); err != nil {
		return err
	}
	return a.getQueue(q)
}

// deleteQueue forgets what the API said of a queue.
func (a *api) deleteQueue(q *request) error {
	name := q.PathValue("queue")
	if err := q.sees(name); err != nil {
		return err
	}
	if err := q.nothing(); err != nil {
		return err
	}
	if err := a.server.RemoveQueue(q.Context(), name); err != nil {
		return inUse(err)
	}
	return q.done()
}

// inUse says of something that has jobs why it stays.
func inUse(err error) error {
	if used, ok := errors.AsType[*jobserver.InUseError](err); ok {
		return &refusal{problem.Document{Type: problem.InUse, Detail: used.Error()}}
	}
	return err
}

// tooMany says which bound of the store it was.
func tooMany(err, which error) error {
	if errors.Is(err, store.ErrTooMany) {
		return which
	}
	return err
}

// move pauses or resumes a gate.
type move func(ctx context.Context, g lane.Gate, by string) error

// pauseQueue and the like serve the calls of the table.
func (a *api) pauseQueue(q *request) error     { return a.moveQueue(q, a.store.Pause) }
func (a *api) resumeQueue(q *request) error    { return a.moveQueue(q, a.store.Resume) }
func (a *api) pauseEndpoint(q *request) error  { return a.moveEndpoint(q, a.store.Pause) }
func (a *api) resumeEndpoint(q *request) error { return a.moveEndpoint(q, a.store.Resume) }

func (a *api) moveQueue(q *request, m move) error {
	s, err := a.queue(q)
	if err != nil {
		return err
	}
	return a.moveGate(q, lane.Gate{Kind: lane.QueueGate, Name: s.Name}, m)
}

// moveEndpoint takes any name: an endpoint is there once it is mentioned, and
// pausing one before its first job is a way to mention it.
func (a *api) moveEndpoint(q *request, m move) error {
	name, err := q.ownEndpoint()
	if err != nil {
		return err
	}
	return a.moveGate(q, lane.Gate{Kind: lane.EndpointGate, Name: name}, m)
}

func (a *api) moveGate(q *request, g lane.Gate, m move) error {
	if err := q.nothing(); err != nil {
		return err
	}
	if err := m(q.Context(), g, q.who.Name); err != nil {
		return tooMany(err, errGates)
	}
	answer := Gate{Name: g.Name}
	paused, err := a.store.Paused(q.Context())
	if err != nil {
		return err
	}
	for i := range paused {
		if paused[i].Gate == g {
			answer.Paused = wirePaused(&paused[i])
		}
	}
	return q.marshal(http.StatusOK, answer)
}
