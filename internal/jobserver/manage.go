package jobserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/store"
)

// ErrManagedByFile: the configuration says it, so the API can't. A *ManagedError
// tells what.
var ErrManagedByFile = errors.New("the configuration says it, and the API can't change it")

// ManagedError says what the configuration says.
type ManagedError struct {
	Kind store.DefinitionKind
	Name string
}

// Error names it and where it is changed.
func (e *ManagedError) Error() string {
	return fmt.Sprintf("the %s %q is the configuration's, under jobs.%ss: change it there and reload", e.Kind, e.Name, e.Kind)
}

// Is makes it an ErrManagedByFile.
func (e *ManagedError) Is(target error) bool { return target == ErrManagedByFile }

// UnknownError is about something that is not there: a store.ErrNotFound.
type UnknownError struct {
	Kind store.DefinitionKind
	Name string
	Near string // a name that looks like it; "" for none
	// Listed says that it is listed for another reason, and nothing was said of it
	// that could be forgotten.
	Listed bool
}

// Error names it and what looks like it.
func (e *UnknownError) Error() string {
	if e.Listed {
		why := "jobs name it"
		switch e.Kind {
		case store.QueueDefinition:
			why = "it has jobs or is paused"
		case store.EndpointDefinition:
			why = "a job or a task names it, it is paused or its circuit counts something"
		case store.TaskDefinition, store.SubscriptionDefinition:
		}
		return fmt.Sprintf("nothing was said of the %s %q that could be forgotten: it is listed because %s", e.Kind, e.Name, why)
	}
	text := fmt.Sprintf("unknown %s %q", e.Kind, e.Name)
	if e.Near != "" {
		text += fmt.Sprintf("; did you mean %q?", e.Near)
	}
	return text
}

// Is makes it a store.ErrNotFound.
func (e *UnknownError) Is(target error) bool { return target == store.ErrNotFound }

// InUseError is about something that has jobs which are not finished, so that it
// can't be deleted: a store.ErrStatus.
type InUseError struct {
	Kind            store.DefinitionKind
	Name            string
	Queued, Running int64
}

// Error counts the jobs.
func (e *InUseError) Error() string {
	return fmt.Sprintf("the %s %q has jobs that are not finished: %d queued, %d running; cancel them or wait for them first", e.Kind, e.Name, e.Queued, e.Running)
}

// Is makes it a store.ErrStatus.
func (e *InUseError) Is(target error) bool { return target == store.ErrStatus }

// ContractError says that a task has another contract than the one that was
// asked for, without being told to replace it.
type ContractError struct {
	Task          lane.Task
	Stored, Asked Task
	// Members are those that differ, by their names in the API.
	Members []string
}

// Error names the task and what differs.
func (e *ContractError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the task %q has another contract already", taskName(e.Task))
	for i, m := range e.Members {
		sep := ": "
		if i > 0 {
			sep = "; "
		}
		fmt.Fprintf(&b, "%s%s is %s there and %s here", sep, m, e.Stored.member(m), e.Asked.member(m))
	}
	b.WriteString("; give the task a new version, or say update: true to replace it")
	return b.String()
}

// LimitedError says that a key which is limited to queues may not do this to a task
// that others have jobs of, or may have.
type LimitedError struct{ Key, Why string }

// Error says whose key it is and what is in the way.
func (e *LimitedError) Error() string {
	return fmt.Sprintf("the key %q is limited to queues, and %s: a key that is not has to do it", e.Key, e.Why)
}

// limited is a *LimitedError where the key may not register a contract of the task:
// a new version is the one that jobs of every queue get from then on.
func (s *Server) limited(ctx context.Context, by Principal, name lane.Task) error {
	if len(by.Queues) == 0 {
		return nil
	}
	lanes, err := s.store.Counts(ctx)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if l.Lane.Task == name.Name && !by.Sees(l.Lane.Queue) {
			return &LimitedError{by.Name, fmt.Sprintf("the task %q has jobs in other queues", name.Name)}
		}
	}
	return nil
}

// Update says whether a contract that differs is replaced.
type Update bool

// The answers.
const (
	RefuseDifferent Update = false
	ReplaceContract Update = true
)

// PutQueue defines a queue, or replaces what the API said of it. Errors:
// *InvalidError with pointers into the queue, ErrManagedByFile, store.ErrTooMany.
func (s *Server) PutQueue(ctx context.Context, by Principal, name string, q Queue) error {
	q = q.orDefaults()
	var c checker
	c.queueName("", name)
	q.check(&c)
	if err := c.err(); err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if _, named := s.config.Queues[name]; named {
		return &ManagedError{store.QueueDefinition, name}
	}
	d, err := keep(ctx, s.store, store.QueueDefinition, name, by.Name, q)
	if err != nil {
		return err
	}
	s.defined.queues = with(s.defined.queues, name, d)
	return s.changed(ctx)
}

// PutEndpoint defines an endpoint. Errors are those of PutQueue.
func (s *Server) PutEndpoint(ctx context.Context, by Principal, name string, e Endpoint) error {
	e = e.orDefaults()
	var c checker
	c.theName(name)
	e.check(&c)
	if err := c.err(); err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if _, named := s.config.Endpoints[name]; named {
		return &ManagedError{store.EndpointDefinition, name}
	}
	d, err := keep(ctx, s.store, store.EndpointDefinition, name, by.Name, e)
	if err != nil {
		return err
	}
	s.defined.endpoints = with(s.defined.endpoints, name, d)
	return s.changed(ctx)
}

// PutTask registers the contract of a task's version. One that is there and says
// the same stays as it is, whoever says it; one that differs is a *ContractError,
// but for ReplaceContract. A key that is limited to queues replaces none, and
// registers versions only of tasks that have no jobs in other queues, else it is a
// *LimitedError. Other errors are those of PutQueue.
func (s *Server) PutTask(ctx context.Context, by Principal, name lane.Task, t Task, u Update) error {
	t = t.orDefaults()
	var c checker
	c.taskName(name)
	t.check(&c)
	if err := c.err(); err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if had := s.settings.Load().tasks[name]; had != nil {
		members := had.differences(t)
		if len(members) == 0 {
			return nil
		}
		if had.By == ByFile {
			return &ManagedError{store.TaskDefinition, taskName(name)}
		}
		if u != ReplaceContract {
			return &ContractError{Task: name, Stored: had.Task, Asked: t, Members: members}
		}
		if len(by.Queues) > 0 {
			return &LimitedError{by.Name, fmt.Sprintf("the contract of the task %q is of every queue's jobs", taskName(name))}
		}
	}
	if err := s.limited(ctx, by, name); err != nil {
		return err
	}
	if err := s.keepContract(ctx, newTask(t, Managed{}, time.Time{})); err != nil {
		return err
	}
	d, err := keep(ctx, s.store, store.TaskDefinition, taskName(name), by.Name, t)
	if err != nil {
		return err
	}
	s.defined.tasks = with(s.defined.tasks, name, d)
	return s.changed(ctx)
}

// with returns the map with one more entry: the one before is being read.
func with[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	next := maps.Clone(m)
	if next == nil {
		next = map[K]V{}
	}
	next[k] = v
	return next
}

func without[K comparable, V any](m map[K]V, k K) map[K]V {
	next := maps.Clone(m)
	delete(next, k)
	return next
}

// changed puts in force what was just said over the API. s.changing is held.
func (s *Server) changed(ctx context.Context) error {
	s.rebuild()
	return s.apply(ctx)
}

// RemoveQueue forgets what the API said of a queue: nobody can create jobs in it
// then. Errors: store.ErrNotFound, ErrManagedByFile, *InUseError.
func (s *Server) RemoveQueue(ctx context.Context, name string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	_, named := s.config.Queues[name]
	_, there := s.defined.queues[name]
	at := removal{
		kind: store.QueueDefinition, name: name, inFile: named, there: there,
		has: func(k lane.Key) bool { return k.Queue == name },
		listed: func() error {
			_, err := s.QueueState(ctx, Principal{}, name)
			return err
		},
	}
	if err := s.remove(ctx, at); err != nil {
		return err
	}
	s.defined.queues = without(s.defined.queues, name)
	return s.changed(ctx)
}

// RemoveTask forgets the contract of a task's version. Errors as RemoveQueue's.
func (s *Server) RemoveTask(ctx context.Context, name lane.Task) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	_, named := s.config.Tasks[name]
	_, there := s.defined.tasks[name]
	at := removal{
		kind: store.TaskDefinition, name: taskName(name), inFile: named, there: there,
		has: func(k lane.Key) bool { return k.Task == name.Name && k.Version == name.Version },
		listed: func() error {
			_, err := s.TaskState(ctx, Principal{}, name)
			return err
		},
	}
	if err := s.remove(ctx, at); err != nil {
		return err
	}
	s.defined.tasks = without(s.defined.tasks, name)
	return s.changed(ctx)
}

// RemoveEndpoint forgets the settings of an endpoint. Errors as RemoveQueue's.
func (s *Server) RemoveEndpoint(ctx context.Context, name string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	_, named := s.config.Endpoints[name]
	_, there := s.defined.endpoints[name]
	at := removal{
		kind: store.EndpointDefinition, name: name, inFile: named, there: there,
		has: func(k lane.Key) bool { return k.Endpoint == name },
		listed: func() error {
			_, err := s.EndpointState(ctx, Principal{}, name)
			return err
		},
	}
	if err := s.remove(ctx, at); err != nil {
		return err
	}
	s.defined.endpoints = without(s.defined.endpoints, name)
	return s.changed(ctx)
}

// removal is a definition to remove, and what else is known of its name.
type removal struct {
	kind   store.DefinitionKind
	name   string
	inFile bool
	there  bool
	has    func(lane.Key) bool
	listed func() error // nil where the name is listed, said or not
}

func (s *Server) remove(ctx context.Context, r removal) error {
	if r.inFile {
		return &ManagedError{r.kind, r.name}
	}
	if !r.there {
		if err := r.listed(); err != nil {
			return err
		}
		return &UnknownError{Kind: r.kind, Name: r.name, Listed: true}
	}
	lanes, err := s.store.Counts(ctx)
	if err != nil {
		return err
	}
	use := InUseError{Kind: r.kind, Name: r.name}
	for _, l := range lanes {
		if r.has(l.Lane) {
			use.Queued += l.Ready
			use.Running += l.Running
		}
	}
	if use.Queued+use.Running > 0 {
		return &use
	}
	return s.store.RemoveDefinition(ctx, r.kind, r.name)
}

// unknown is the error about a name that is not there, with one that looks like
// it and that the key sees.
func (s *Server) unknown(kind store.DefinitionKind, name string, by Principal) error {
	now := s.settings.Load()
	var known []string
	switch kind {
	case store.QueueDefinition:
		for _, q := range now.names {
			if by.Sees(q) {
				known = append(known, q)
			}
		}
	case store.EndpointDefinition:
		known = slices.Sorted(maps.Keys(now.endpoints))
	case store.TaskDefinition:
		for t := range now.tasks {
			known = append(known, taskName(t))
		}
		slices.Sort(known)
	case store.SubscriptionDefinition:
		known = slices.Sorted(maps.Keys(now.subs))
	}
	return &UnknownError{Kind: kind, Name: name, Near: nearest.To(name, known)}
}
