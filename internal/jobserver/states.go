package jobserver

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// Counts are how many jobs there are by status.
type Counts struct{ Queued, Running, Succeeded, Failed, Cancelled int64 }

func (c *Counts) add(l store.LaneCount) {
	c.Queued += l.Ready
	c.Running += l.Running
	c.Succeeded += l.Succeeded
	c.Failed += l.Failed
	c.Cancelled += l.Cancelled
}

// QueueState is a queue's settings and how it stands.
type QueueState struct {
	Name string
	Queue
	Managed
	Counts Counts
	Paused *store.Pause // nil where it is not
}

// EndpointState is an endpoint's settings and how it stands.
type EndpointState struct {
	Name string
	Endpoint
	Managed
	Circuit store.CircuitState
	Counts  Counts       // of the queues that the key sees
	Paused  *store.Pause // nil where it is not
}

// TaskState is a task's version with its contract.
type TaskState struct {
	Name lane.Task
	Task
	Managed
	Counts Counts // of the queues that the key sees
}

// Slice asks for a part of a list: what comes after a name, at most Limit.
type Slice struct {
	After string // "" is the first part
	Limit int    // 1 to store.MaxPage; 0 is all
}

// cut returns the part, and whether more follows, as the name to go on from.
func cut[T any](all []T, name func(T) string, s Slice) (part []T, next string) {
	from := 0
	if s.After != "" {
		from, _ = slices.BinarySearchFunc(all, s.After, func(v T, after string) int {
			if c := strings.Compare(name(v), after); c != 0 {
				return c
			}
			return -1 // behind it
		})
	}
	all = all[from:]
	if s.Limit > 0 && len(all) > s.Limit {
		return all[:s.Limit], name(all[s.Limit-1])
	}
	return all, ""
}

// look is what the store says of gates and jobs.
type look struct {
	lanes  []store.LaneCount
	paused map[lane.Gate]*store.Pause
}

func (s *Server) look(ctx context.Context) (look, error) {
	lanes, err := s.store.Counts(ctx)
	if err != nil {
		return look{}, err
	}
	gates, err := s.store.Paused(ctx)
	if err != nil {
		return look{}, err
	}
	l := look{lanes, make(map[lane.Gate]*store.Pause, len(gates))}
	for i := range gates {
		l.paused[gates[i].Gate] = &gates[i]
	}
	return l, nil
}

// QueueStates lists the queues that the key sees, by name: those that are
// defined, and others that have jobs or are paused. next goes on where it is not
// "".
func (s *Server) QueueStates(ctx context.Context, by Principal, part Slice) (states []QueueState, next string, err error) {
	at, err := s.look(ctx)
	if err != nil {
		return nil, "", err
	}
	all := map[string]*QueueState{}
	state := func(name string) *QueueState {
		if all[name] == nil {
			all[name] = &QueueState{Name: name}
		}
		return all[name]
	}
	for name, q := range s.settings.Load().queues {
		if by.Sees(name) {
			*state(name) = QueueState{Name: name, Queue: q.Queue, Managed: q.Managed}
		}
	}
	for _, l := range at.lanes {
		if by.Sees(l.Lane.Queue) {
			state(l.Lane.Queue).Counts.add(l)
		}
	}
	for g, p := range at.paused {
		if g.Kind == lane.QueueGate && by.Sees(g.Name) {
			state(g.Name).Paused = p
		}
	}
	list := sorted(all)
	states, next = cut(list, func(q QueueState) string { return q.Name }, part)
	return states, next, nil
}

// QueueState returns one. store.ErrNotFound, as an *UnknownError.
func (s *Server) QueueState(ctx context.Context, by Principal, name string) (QueueState, error) {
	all, _, err := s.QueueStates(ctx, by, Slice{})
	return one(all, err, func(q QueueState) bool { return q.Name == name }, func() error { return s.unknown(store.QueueDefinition, name, by) })
}

func one[T any](all []T, err error, is func(T) bool, unknown func() error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], nil
	}
	return none, unknown()
}

func sorted[T any](all map[string]*T) []T {
	list := make([]T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	return list
}

// EndpointStates lists the endpoints, by name: those that are defined, and others
// that a job or a task names, that are paused, or whose circuit counts something.
// A key that is limited to queues sees those that jobs of its queues name.
func (s *Server) EndpointStates(ctx context.Context, by Principal, part Slice) (states []EndpointState, next string, err error) {
	at, err := s.look(ctx)
	if err != nil {
		return nil, "", err
	}
	circuits, err := s.store.Circuits(ctx)
	if err != nil {
		return nil, "", err
	}
	all := map[string]*EndpointState{}
	state := func(name string) *EndpointState {
		if all[name] == nil {
			all[name] = &EndpointState{Name: name, Endpoint: Endpoint{}.orDefaults(), Circuit: store.CircuitState{Endpoint: name, Circuit: circuit.Circuit{State: circuit.Closed}}}
		}
		return all[name]
	}
	whole := len(by.Queues) == 0
	for _, l := range at.lanes {
		if l.Lane.Endpoint != "" && by.Sees(l.Lane.Queue) {
			state(l.Lane.Endpoint).Counts.add(l)
		}
	}
	now := s.settings.Load()
	if whole {
		for _, t := range now.tasks {
			if t.Endpoint != "" {
				state(t.Endpoint)
			}
		}
	}
	for name, e := range now.endpoints {
		if whole || all[name] != nil {
			st := state(name)
			st.Endpoint, st.Managed = e.Endpoint, e.Managed
		}
	}
	for _, c := range circuits {
		if whole || all[c.Endpoint] != nil {
			state(c.Endpoint).Circuit = c
		}
	}
	for g, p := range at.paused {
		if g.Kind == lane.EndpointGate && (whole || all[g.Name] != nil) {
			state(g.Name).Paused = p
		}
	}
	states, next = cut(sorted(all), func(e EndpointState) string { return e.Name }, part)
	return states, next, nil
}

// EndpointState returns one. store.ErrNotFound, as an *UnknownError.
func (s *Server) EndpointState(ctx context.Context, by Principal, name string) (EndpointState, error) {
	all, _, err := s.EndpointStates(ctx, by, Slice{})
	return one(all, err, func(e EndpointState) bool { return e.Name == name }, func() error { return s.unknown(store.EndpointDefinition, name, Principal{}) })
}

// TaskStates lists the versions of tasks that are registered or have jobs, by
// name@version. A key that is limited to queues sees those registered too: a
// contract is no queue's.
func (s *Server) TaskStates(ctx context.Context, by Principal, part Slice) (states []TaskState, next string, err error) {
	lanes, err := s.store.Counts(ctx)
	if err != nil {
		return nil, "", err
	}
	all := map[string]*TaskState{}
	state := func(name lane.Task) *TaskState {
		text := taskName(name)
		if all[text] == nil {
			all[text] = &TaskState{Name: name, Task: Task{}.orDefaults()}
		}
		return all[text]
	}
	for name, t := range s.settings.Load().tasks {
		st := state(name)
		st.Task, st.Managed = t.Task, t.Managed
	}
	for _, l := range lanes {
		if by.Sees(l.Lane.Queue) && !job.OfRelay(l.Lane.Queue) {
			state(lane.Task{Name: l.Lane.Task, Version: l.Lane.Version}).Counts.add(l)
		}
	}
	states, next = cut(sorted(all), func(t TaskState) string { return taskName(t.Name) }, part)
	return states, next, nil
}

// TaskState returns one. store.ErrNotFound, as an *UnknownError.
func (s *Server) TaskState(ctx context.Context, by Principal, name lane.Task) (TaskState, error) {
	all, _, err := s.TaskStates(ctx, by, Slice{})
	return one(all, err, func(t TaskState) bool { return t.Name == name }, func() error { return s.unknown(store.TaskDefinition, taskName(name), Principal{}) })
}
