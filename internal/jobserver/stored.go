package jobserver

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/store"
)

// Definitions are kept as JSON in these forms. They are read by newer versions, so
// a member never changes its meaning. Lengths of time are nanoseconds.

// nanos is a length of time.
type nanos int64

type storedRetry struct {
	MaxAttempts *int     `json:"max_attempts,omitzero"`
	Initial     *nanos   `json:"initial,omitzero"`
	Factor      *float64 `json:"factor,omitzero"`
	MaxDelay    *nanos   `json:"max_delay,omitzero"`
	Jitter      *float64 `json:"jitter,omitzero"`
}

type storedQueue struct {
	Lease       nanos       `json:"lease,omitzero"`
	Timeout     nanos       `json:"timeout,omitzero"`
	Concurrency int         `json:"concurrency,omitzero"`
	Retry       storedRetry `json:"retry,omitzero"`
}

type storedEndpoint struct {
	Concurrency int         `json:"concurrency,omitzero"`
	PerSecond   float64     `json:"per_second,omitzero"`
	Burst       int         `json:"burst,omitzero"`
	Failures    int         `json:"failures,omitzero"`
	Cooldown    nanos       `json:"cooldown,omitzero"`
	Retry       storedRetry `json:"retry,omitzero"`
}

type storedTask struct {
	Endpoint string         `json:"endpoint,omitzero"`
	Timeout  nanos          `json:"timeout,omitzero"`
	Repeat   job.Repeat     `json:"repeat,omitzero"`
	Retry    storedRetry    `json:"retry,omitzero"`
	Input    jsontext.Value `json:"input_schema,omitzero"`
	Output   jsontext.Value `json:"output_schema,omitzero"`
}

type storedSubscription struct {
	URL      string            `json:"url"`
	Secret   string            `json:"secret"`
	Events   []store.EventType `json:"events"`
	Queues   []string          `json:"queues,omitzero"`
	Disabled string            `json:"disabled,omitzero"`
}

func storeRetry(o job.Overlay) storedRetry {
	return storedRetry{o.MaxAttempts, (*nanos)(o.Initial), o.Factor, (*nanos)(o.MaxDelay), o.Jitter}
}

func (s storedRetry) value() job.Overlay {
	return job.Overlay{MaxAttempts: s.MaxAttempts, Initial: (*time.Duration)(s.Initial), Factor: s.Factor, MaxDelay: (*time.Duration)(s.MaxDelay), Jitter: s.Jitter}
}

func (q Queue) stored() any {
	return storedQueue{nanos(q.Lease), nanos(q.Timeout), q.Concurrency, storeRetry(q.Retry)}
}

func (s storedQueue) value() Queue {
	return Queue{time.Duration(s.Lease), time.Duration(s.Timeout), s.Concurrency, s.Retry.value()}.orDefaults()
}

func (e Endpoint) stored() any {
	s := storedEndpoint{Concurrency: e.Concurrency, Failures: e.Circuit.Failures, Cooldown: nanos(e.Circuit.Cooldown), Retry: storeRetry(e.Retry)}
	if e.Rate != nil {
		s.PerSecond, s.Burst = e.Rate.PerSecond, e.Rate.Burst
	}
	return s
}

func (s storedEndpoint) value() Endpoint {
	e := Endpoint{Retry: s.Retry.value(), Concurrency: s.Concurrency, Circuit: &circuit.Settings{Failures: s.Failures, Cooldown: time.Duration(s.Cooldown)}}
	if s.PerSecond != 0 {
		e.Rate = &limit.Rate{PerSecond: s.PerSecond, Burst: s.Burst}
	}
	return e.orDefaults()
}

func (t Task) stored() any {
	return storedTask{t.Endpoint, nanos(t.Timeout), t.Repeat, storeRetry(t.Retry), t.Input, t.Output}
}

func (s storedTask) value() Task {
	return Task{s.Retry.value(), time.Duration(s.Timeout), s.Endpoint, s.Repeat, s.Input, s.Output}.orDefaults()
}

func (s Subscription) stored() any {
	return storedSubscription{s.URL, s.Secret, s.Events, s.Queues, s.Disabled}
}

func (s storedSubscription) value() Subscription {
	return Subscription{Events: s.Events, Queues: s.Queues, URL: s.URL, Secret: s.Secret, Disabled: s.Disabled}
}

// defined is a definition of the API.
type defined[T any] struct {
	value T
	Managed
	created time.Time
}

// definitions are all of them.
type definitions struct {
	queues    map[string]defined[Queue]
	endpoints map[string]defined[Endpoint]
	tasks     map[lane.Task]defined[Task]
	subs      map[string]defined[Subscription]
}

// read reads the definitions of the store. s.changing is held.
func (s *Server) read(ctx context.Context) error {
	var next definitions
	var err error
	if next.queues, err = readAll[storedQueue, Queue](ctx, s.store, store.QueueDefinition); err != nil {
		return err
	}
	if next.endpoints, err = readAll[storedEndpoint, Endpoint](ctx, s.store, store.EndpointDefinition); err != nil {
		return err
	}
	if next.subs, err = readAll[storedSubscription, Subscription](ctx, s.store, store.SubscriptionDefinition); err != nil {
		return err
	}
	tasks, err := readAll[storedTask, Task](ctx, s.store, store.TaskDefinition)
	if err != nil {
		return err
	}
	next.tasks = make(map[lane.Task]defined[Task], len(tasks))
	for name, t := range tasks {
		next.tasks[splitTask(name)] = t
	}
	s.defined = next
	s.rebuild()
	return nil
}

// splitTask is the reverse of taskName. Names hold no @.
func splitTask(name string) lane.Task {
	task, version, _ := strings.Cut(name, "@")
	return lane.Task{Name: task, Version: version}
}

// readAll reads the definitions of a kind.
func readAll[S interface{ value() T }, T any](ctx context.Context, from store.Definitions, kind store.DefinitionKind) (map[string]defined[T], error) {
	rows, err := from.Definitions(ctx, kind)
	if err != nil {
		return nil, err
	}
	all := make(map[string]defined[T], len(rows))
	for _, row := range rows {
		var s S
		if err := json.Unmarshal(row.Body, &s); err != nil {
			return nil, fmt.Errorf("the %s %q can't be read; a newer pawl may have written it: %w", kind, row.Name, err)
		}
		all[row.Name] = definedAs(s.value(), row)
	}
	return all, nil
}

func definedAs[T any](value T, row store.Definition) defined[T] {
	return defined[T]{value, Managed{ByAPI, row.UpdatedAt, row.By}, row.CreatedAt}
}

// keep stores a definition.
func keep[T interface{ stored() any }](ctx context.Context, to store.Definitions, kind store.DefinitionKind, name, by string, value T) (defined[T], error) {
	body, err := json.Marshal(value.stored())
	if err != nil {
		return defined[T]{}, fmt.Errorf("the %s %q can't be written: %w", kind, name, err)
	}
	row, err := to.PutDefinition(ctx, store.Definition{Kind: kind, Name: name, Body: body, By: by})
	if err != nil {
		return defined[T]{}, err
	}
	return definedAs(value, row), nil
}

// schemaAgain is after how long a schema is kept again, far less than
// store.SchemaRest. The store forgets those that no job has.
const schemaAgain = time.Minute

// kept remembers when each schema was kept last. Safe for concurrent use.
type kept struct {
	mu sync.Mutex
	at map[job.SchemaHash]time.Time
}

// lately reports whether a schema was kept a moment ago.
func (k *kept) lately(hash job.SchemaHash, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.at[hash]
	return ok && now.Sub(at) < schemaAgain
}

func (k *kept) note(hash job.SchemaHash, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil || len(k.at) >= maxCompiled {
		k.at = map[job.SchemaHash]time.Time{}
	}
	k.at[hash] = now
}

// keepSchemas keeps the schemas of all contracts.
func (s *Server) keepSchemas(ctx context.Context, now *settings) error {
	for name, t := range now.tasks {
		if err := s.keepContract(ctx, t); err != nil {
			return fmt.Errorf("the schemas of task %q: %w", taskName(name), err)
		}
	}
	return nil
}

// keepContract keeps the schemas of a contract.
func (s *Server) keepContract(ctx context.Context, t *task) error {
	if err := s.keepSchema(ctx, t.input, t.Input); err != nil {
		return err
	}
	return s.keepSchema(ctx, t.output, t.Output)
}

// keepSchema keeps a schema unless it was kept a moment ago; nil is none.
func (s *Server) keepSchema(ctx context.Context, hash job.SchemaHash, text []byte) error {
	now := s.store.Now()
	if text == nil || s.kept.lately(hash, now) {
		return nil
	}
	if _, err := s.store.PutSchema(ctx, text); err != nil {
		return err
	}
	s.kept.note(hash, now)
	s.contracts.Store(true)
	return nil
}

// keepUsed keeps the schemas of the contracts that jobs are about to be made under:
// the store forgets one that no job has. Where that fails it is tried with the next
// job; until then the contract itself has it.
func (s *Server) keepUsed(ctx context.Context, now *settings, made []store.NewJob) {
	var last *task
	for i := range made {
		p := &made[i].Policy
		if p.Input == (job.SchemaHash{}) && p.Output == (job.SchemaHash{}) {
			continue
		}
		t := now.tasks[lane.Task{Name: made[i].Task, Version: made[i].Version}]
		if t == nil || t == last {
			continue
		}
		last = t
		if err := s.keepContract(ctx, t); err != nil {
			s.log.Warn("a schema could not be kept yet", "error", err)
			return
		}
	}
}
