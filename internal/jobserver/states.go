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

// gathering gathers the states of a list, or the one of a single name.
type gathering[T any] struct {
	only  string // "" is every name
	fresh func(name string) T
	all   map[string]*T
}

func gather[T any](only string, fresh func(name string) T) *gathering[T] {
	return &gathering[T]{only, fresh, map[string]*T{}}
}

// at is the state of a name, fresh where nothing was said of it yet; nil where it
// is not asked for.
func (g *gathering[T]) at(name string) *T {
	if g.only != "" && name != g.only {
		return nil
	}
	if g.all[name] == nil {
		g.all[name] = new(g.fresh(name))
	}
	return g.all[name]
}

// where is at for those that are all there is to see, and for others what was said
// of already.
func (g *gathering[T]) where(all bool, name string) *T {
	if all {
		return g.at(name)
	}
	return g.all[name]
}

// list is what was gathered, by name.
func (g *gathering[T]) list() []T {
	list := make([]T, 0, len(g.all))
	for _, name := range slices.Sorted(maps.Keys(g.all)) {
		list = append(list, *g.all[name])
	}
	return list
}

// one is the only state that was asked for.
func (g *gathering[T]) one(unknown func() error) (T, error) {
	if st := g.all[g.only]; st != nil {
		return *st, nil
	}
	var none T
	return none, unknown()
}

// QueueStates lists the queues that the key sees, by name: those that are
// defined, and others that have jobs or are paused. next goes on where it is not
// "".
func (s *Server) QueueStates(ctx context.Context, by Principal, part Slice) (states []QueueState, next string, err error) {
	all, err := s.gatherQueues(ctx, by, "")
	if err != nil {
		return nil, "", err
	}
	states, next = cut(all.list(), func(q QueueState) string { return q.Name }, part)
	return states, next, nil
}

// QueueState returns one. store.ErrNotFound, as an *UnknownError.
func (s *Server) QueueState(ctx context.Context, by Principal, name string) (QueueState, error) {
	all, err := s.gatherQueues(ctx, by, name)
	if err != nil {
		return QueueState{}, err
	}
	return all.one(func() error { return s.unknown(store.QueueDefinition, name, by) })
}

func (s *Server) gatherQueues(ctx context.Context, by Principal, only string) (*gathering[QueueState], error) {
	at, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	all := gather(only, func(name string) QueueState { return QueueState{Name: name} })
	for name, q := range s.settings.Load().queues {
		if st := all.where(by.Sees(name), name); st != nil {
			st.Queue, st.Managed = q.Queue, q.Managed
		}
	}
	for _, l := range at.lanes {
		if st := all.where(by.Sees(l.Lane.Queue), l.Lane.Queue); st != nil {
			st.Counts.add(l)
		}
	}
	for g, p := range at.paused {
		if g.Kind != lane.QueueGate {
			continue
		}
		if st := all.where(by.Sees(g.Name), g.Name); st != nil {
			st.Paused = p
		}
	}
	return all, nil
}

// EndpointStates lists the endpoints, by name: those that are defined, and others
// that a job or a task names, that are paused, or whose circuit counts something.
// A key that is limited to queues sees those that jobs of its queues name.
func (s *Server) EndpointStates(ctx context.Context, by Principal, part Slice) (states []EndpointState, next string, err error) {
	all, err := s.gatherEndpoints(ctx, by, "")
	if err != nil {
		return nil, "", err
	}
	states, next = cut(all.list(), func(e EndpointState) string { return e.Name }, part)
	return states, next, nil
}

// EndpointState returns one. store.ErrNotFound, as an *UnknownError.
func (s *Server) EndpointState(ctx context.Context, by Principal, name string) (EndpointState, error) {
	all, err := s.gatherEndpoints(ctx, by, name)
	if err != nil {
		return EndpointState{}, err
	}
	return all.one(func() error { return s.unknown(store.EndpointDefinition, name, Principal{}) })
}

func (s *Server) gatherEndpoints(ctx context.Context, by Principal, only string) (*gathering[EndpointState], error) {
	at, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	circuits, err := s.store.Circuits(ctx)
	if err != nil {
		return nil, err
	}
	all := gather(only, func(name string) EndpointState {
		return EndpointState{Name: name, Endpoint: Endpoint{}.orDefaults(), Circuit: store.CircuitState{Endpoint: name, Circuit: circuit.Circuit{State: circuit.Closed}}}
	})
	for _, l := range at.lanes {
		if l.Lane.Endpoint == "" || !by.Sees(l.Lane.Queue) {
			continue
		}
		if st := all.at(l.Lane.Endpoint); st != nil {
			st.Counts.add(l)
		}
	}
	whole, now := len(by.Queues) == 0, s.settings.Load()
	for _, t := range now.tasks {
		if whole && t.Endpoint != "" {
			all.at(t.Endpoint)
		}
	}
	for name, e := range now.endpoints {
		if st := all.where(whole, name); st != nil {
			st.Endpoint, st.Managed = e.Endpoint, e.Managed
		}
	}
	for _, c := range circuits {
		if st := all.where(whole, c.Endpoint); st != nil {
			st.Circuit = c
		}
	}
	for g, p := range at.paused {
		if g.Kind != lane.EndpointGate {
			continue
		}
		if st := all.where(whole, g.Name); st != nil {
			st.Paused = p
		}
	}
	return all, nil
}

// TaskStates lists the versions of tasks that are registered or have jobs, by
// name@version. A key that is limited to queues sees those registered too: a
// contract is no queue's.
func (s *Server) TaskStates(ctx context.Context, by Principal, part Slice) (states []TaskState, next string, err error) {
	all, err := s.gatherTasks(ctx, by, "")
	if err != nil {
		return nil, "", err
	}
	states, next = cut(all.list(), func(t TaskState) string { return taskName(t.Name) }, part)
	return states, next, nil
}

// TaskState returns one. store.ErrNotFound, as an *UnknownError.
func (s *Server) TaskState(ctx context.Context, by Principal, name lane.Task) (TaskState, error) {
	all, err := s.gatherTasks(ctx, by, taskName(name))
	if err != nil {
		return TaskState{}, err
	}
	return all.one(func() error { return s.unknown(store.TaskDefinition, taskName(name), Principal{}) })
}

func (s *Server) gatherTasks(ctx context.Context, by Principal, only string) (*gathering[TaskState], error) {
	lanes, err := s.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	all := gather(only, func(string) TaskState { return TaskState{Task: Task{}.orDefaults()} })
	at := func(name lane.Task) *TaskState {
		st := all.at(taskName(name))
		if st != nil {
			st.Name = name
		}
		return st
	}
	for name, t := range s.settings.Load().tasks {
		if st := at(name); st != nil {
			st.Task, st.Managed = t.Task, t.Managed
		}
	}
	for _, l := range lanes {
		if !by.Sees(l.Lane.Queue) || job.OfRelay(l.Lane.Queue) {
			continue
		}
		if st := at(lane.Task{Name: l.Lane.Task, Version: l.Lane.Version}); st != nil {
			st.Counts.add(l)
		}
	}
	return all, nil
}
