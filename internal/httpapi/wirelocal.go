package httpapi

import "github.com/pawlhq/pawl/internal/store"

// KeyRequest asks for an API key. Control socket only.
type KeyRequest struct {
	Name   string        `json:"name"`
	Scopes []store.Scope `json:"scopes"`
	Queues []string      `json:"queues,omitzero"`
	// ExpiresIn is how long it is good for; for ever unless said.
	ExpiresIn *Duration `json:"expires_in,omitzero"`
}

// NewKey is a key that was made, with its secret, which is told this once.
type NewKey struct {
	Key
	Secret string `json:"secret"`
}

// Key is an API key without its secret.
type Key struct {
	ID        string        `json:"id"`
	Name      string        `json:"name"`
	Scopes    []store.Scope `json:"scopes"`
	Queues    []string      `json:"queues"`
	CreatedAt Time          `json:"created_at"`
	ExpiresAt *Time         `json:"expires_at"`
	RevokedAt *Time         `json:"revoked_at"`
}

// Keys are all API keys, oldest first, revoked ones too.
type Keys struct {
	Keys []Key `json:"keys"`
}

// BackupRequest asks for a copy of the store in a new file. Control socket
// only.
type BackupRequest struct {
	File string `json:"file"`
}

// BackedUp is a copy that was made.
type BackedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}
