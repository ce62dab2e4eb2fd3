package httpapi

import "github.com/danielgtaylor/huma/v2"

// QueueSettings are what a request says of a queue. What it leaves out is the
// default: a PUT replaces all that was said before.
type QueueSettings struct {
	Lease       *Duration `json:"lease,omitzero" doc:"How long silence of a worker is waited for: 1s to 1h; 30s unless said."`
	Timeout     *Duration `json:"timeout,omitzero" doc:"Of one attempt: 1s to 24h; 5m unless said."`
	Concurrency int       `json:"concurrency,omitzero" minimum:"1" maximum:"100000" doc:"How many attempts may run at once; any number unless said."`
	Retry       *Retry    `json:"retry,omitzero"`
}

// TaskSettings are what a request says of a task's version: its contract.
type TaskSettings struct {
	Endpoint     string    `json:"endpoint,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"The outside service that it calls."`
	Timeout      *Duration `json:"timeout,omitzero" doc:"Of one attempt: 1s to 24h; the queue's unless said."`
	Repeat       string    `json:"repeat,omitzero" enum:"safe,unsafe" doc:"unsafe: an attempt whose effect is not known is not repeated by itself. safe unless said."`
	Retry        *Retry    `json:"retry,omitzero"`
	InputSchema  Value     `json:"input_schema,omitzero" doc:"JSON Schema 2020-12 of payloads, up to 64 KiB; a payload that does not fit is refused at creation."`
	OutputSchema Value     `json:"output_schema,omitzero" doc:"JSON Schema 2020-12 of results, up to 64 KiB; a result that does not fit makes its job a dead letter."`
	Update       bool      `json:"update,omitzero" doc:"Replace a contract that differs; without it one is a 409."`
}

// EndpointSettings are what a request says of an endpoint.
type EndpointSettings struct {
	Concurrency int              `json:"concurrency,omitzero" minimum:"1" maximum:"100000" doc:"How many attempts may run at once; any number unless said."`
	Rate        *Rate            `json:"rate,omitzero"`
	Circuit     *CircuitSettings `json:"circuit,omitzero"`
	Retry       *Retry           `json:"retry,omitzero"`
}

// Rate is how many jobs an endpoint gets in a time.
type Rate struct {
	PerSecond float64 `json:"per_second" doc:"Jobs a second, fractions too."`
	Burst     int     `json:"burst,omitzero" minimum:"1" doc:"How many may go at once after a rest; a second's worth unless said."`
}

// CircuitSettings are when a circuit opens and for how long.
type CircuitSettings struct {
	Failures int       `json:"failures,omitzero" minimum:"1" maximum:"1000" doc:"How many in a row open it; 5 unless said."`
	Cooldown *Duration `json:"cooldown,omitzero" doc:"How long it stays open before one job may find out: 1s to 24h; 60s unless said."`
}

// Managed is what every queue, task and endpoint says of its settings.
type Managed struct {
	ManagedBy *string `json:"managed_by" nullable:"true" enum:"file,api" doc:"Who said its settings: file is the configuration, and read-only here; null is nobody, it has the defaults and is there because jobs name it."`
	UpdatedAt *Time   `json:"updated_at" nullable:"true" doc:"When it was said over the API; null elsewhere."`
	UpdatedBy *string `json:"updated_by" nullable:"true" doc:"Whose key said it."`
}

// Queues are the queues that the key sees.
type Queues struct {
	Queues     []Queue `json:"queues" nullable:"false"`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null after the last."`
}

// Queue is a queue's settings and state.
type Queue struct {
	Name string `json:"name"`
	Managed
	Lease       *Duration `json:"lease" nullable:"true" doc:"Null where nothing was said of the queue."`
	Timeout     *Duration `json:"timeout" nullable:"true" doc:"Null where nothing was said of the queue."`
	Concurrency *int      `json:"concurrency" nullable:"true" doc:"Null for any number."`
	Retry       Retry     `json:"retry" doc:"What the queue's own level says."`
	Paused      *Paused   `json:"paused"`
	Counts      Counts    `json:"counts"`
}

// TransformSchema says where null may stand.
func (Queue) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "managed_by", "paused")
}

// Tasks are the versions of tasks that are registered or have jobs.
type Tasks struct {
	Tasks      []Task  `json:"tasks" nullable:"false"`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null after the last."`
}

// Task is one version of a task with its contract.
type Task struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Managed
	Endpoint     *string   `json:"endpoint" nullable:"true"`
	Timeout      *Duration `json:"timeout" nullable:"true" doc:"Null is the queue's."`
	Repeat       string    `json:"repeat" enum:"safe,unsafe"`
	Retry        Retry     `json:"retry" doc:"What the task's own level says."`
	InputSchema  Value     `json:"input_schema" doc:"Null for none. Lists leave it out."`
	OutputSchema Value     `json:"output_schema" doc:"Null for none. Lists leave it out."`
	Counts       Counts    `json:"counts" doc:"Of the queues that the key sees."`
}

// TransformSchema says where null may stand.
func (Task) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "managed_by")
}

// Endpoints are the outside services that were mentioned.
type Endpoints struct {
	Endpoints  []Endpoint `json:"endpoints" nullable:"false"`
	NextCursor *string    `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null after the last."`
}

// Endpoint is an outside service: its settings and state.
type Endpoint struct {
	Name string `json:"name"`
	Managed
	Concurrency     *int            `json:"concurrency" nullable:"true" doc:"Null for any number."`
	Rate            *Rate           `json:"rate" doc:"Null for none."`
	CircuitSettings CircuitSettings `json:"circuit_settings"`
	Retry           Retry           `json:"retry" doc:"What the endpoint's own level says."`
	Circuit         Circuit         `json:"circuit"`
	Paused          *Paused         `json:"paused"`
	Counts          Counts          `json:"counts" doc:"Of the queues that the key sees."`
}

// TransformSchema says where null may stand.
func (Endpoint) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "managed_by", "rate", "paused")
}

// Circuit is how the circuit of an endpoint stands.
type Circuit struct {
	Endpoint   string `json:"endpoint"`
	State      string `json:"state" enum:"closed,open,half_open"`
	Failures   int    `json:"failures" doc:"Counted in a row."`
	Generation int64  `json:"generation" doc:"Counts its changes of state."`
	OpenedAt   *Time  `json:"opened_at" nullable:"true" doc:"Null while it is closed."`
	RetryAt    *Time  `json:"retry_at" nullable:"true" doc:"When one job may find out; null while it is closed."`
	HeldUntil  *Time  `json:"held_until" nullable:"true" doc:"How long the endpoint asked to be left alone; null once that is past."`
}

// Counts are how many jobs there are by status.
type Counts struct {
	Queued    int64 `json:"queued"`
	Running   int64 `json:"running"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
}

// Paused says who paused and when.
type Paused struct {
	By    string `json:"by"`
	Since Time   `json:"since"`
}

// Gate is a queue or an endpoint, and whether it is paused.
type Gate struct {
	Name   string  `json:"name"`
	Paused *Paused `json:"paused"`
}

// TransformSchema says where null may stand.
func (Gate) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "paused")
}
