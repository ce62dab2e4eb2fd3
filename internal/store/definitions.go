package store

import (
	"context"
	"time"
)

// DefinitionKind is what a definition is of.
type DefinitionKind string

// The kinds of definition.
const (
	QueueDefinition        DefinitionKind = "queue"
	TaskDefinition         DefinitionKind = "task" // named name@version
	EndpointDefinition     DefinitionKind = "endpoint"
	SubscriptionDefinition DefinitionKind = "subscription"
)

// Definition is what somebody said of a queue, a task, an endpoint or a
// subscription over the API. The store keeps it and does not look into it.
type Definition struct {
	Kind DefinitionKind
	Name string
	Body []byte // JSON
	By   string // whose key it was
	// CreatedAt and UpdatedAt are the store's to set.
	CreatedAt, UpdatedAt time.Time
}

// MaxDefinitions is how many of one kind are kept.
const MaxDefinitions = 10_000

// SchemaRest is how long a schema is kept at least after it was put, give or take a
// quarter: a job that is being made under it is stored by then.
const SchemaRest = time.Hour

// Definitions keeps what people said over the API.
type Definitions interface {
	// PutDefinition stores it, in place of one that is there. ErrTooMany.
	PutDefinition(ctx context.Context, d Definition) (Definition, error)
	// RemoveDefinition forgets one. ErrNotFound.
	RemoveDefinition(ctx context.Context, k DefinitionKind, name string) error
	// Definitions returns all of a kind, by name.
	Definitions(ctx context.Context, k DefinitionKind) ([]Definition, error)
	// PutSchema keeps a JSON Schema by the SHA-256 of its text; one that is there
	// stays. Schema returns it, ErrNotFound. Retain forgets one that was not put for
	// SchemaRest and that no job's snapshot has: who defines a task puts its schemas
	// before a job is made under them.
	PutSchema(ctx context.Context, text []byte) (hash [32]byte, err error)
	Schema(ctx context.Context, hash [32]byte) ([]byte, error)
}
