package store

import (
	"context"
	"errors"
	"time"
)

// ErrExists: there is one already.
var ErrExists = errors.New("it exists already")

// KeyIDPrefix begins the id of every key, and no key's name: so what is given to
// RevokeKey is one or the other.
const KeyIDPrefix = "key_"

// Keys keeps API keys. It never sees one: only its hash.
type Keys interface {
	// AddKey stores a key. A name or a hash that is there already is ErrExists.
	AddKey(ctx context.Context, k Key) error
	// Keys lists every key, revoked ones too, oldest first.
	Keys(ctx context.Context) ([]Key, error)
	// RevokeKey makes a key good for nothing, at once on this node and within a
	// second on others. It is given an id where it begins with KeyIDPrefix,
	// else a name. ErrNotFound.
	RevokeKey(ctx context.Context, name string) error
	// KeyByHash returns the key with the hash, whatever became of it.
	// ErrNotFound. It is cached.
	KeyByHash(ctx context.Context, hash [32]byte) (Key, error)
}

// Scope is what a key allows.
type Scope string

// The scopes. Admin includes every other, Operate includes no other.
const (
	ScopeProduce Scope = "produce"
	ScopeWork    Scope = "work"
	ScopeOperate Scope = "operate"
	ScopeAdmin   Scope = "admin"
)

// Scopes lists every scope.
func Scopes() []Scope { return []Scope{ScopeProduce, ScopeWork, ScopeOperate, ScopeAdmin} }

// Key is an API key as it is kept.
type Key struct {
	ID   string // KeyIDPrefix and a ULID
	Name string
	// Hash is the SHA-256 of the key.
	Hash   [32]byte
	Scopes []Scope
	// Queues limits it to these queues; empty is every queue.
	Queues                        []string
	CreatedAt, ExpiresAt, Revoked time.Time // zero: never
}
