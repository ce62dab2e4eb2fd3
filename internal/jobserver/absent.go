package jobserver

import (
	"context"

	"github.com/pawlhq/pawl/internal/store"
)

// kept is all that is asked of a store.
type kept interface {
	store.Store
	store.Definitions
	store.Replays
}

// whole returns a store that keeps definitions and replays: where it is none, it
// has none and takes none.
func whole(s store.Store) kept {
	if k, ok := s.(kept); ok {
		return k
	}
	return absent{Store: s}
}

type absent struct {
	store.Store
	store.Replays
}

func (absent) PutDefinition(context.Context, store.Definition) (store.Definition, error) {
	return store.Definition{}, store.ErrUnavailable
}

func (absent) RemoveDefinition(context.Context, store.DefinitionKind, string) error {
	return store.ErrNotFound
}

func (absent) Definitions(context.Context, store.DefinitionKind) ([]store.Definition, error) {
	return nil, nil
}

func (absent) PutSchema(context.Context, []byte) (hash [32]byte, err error) {
	return hash, store.ErrUnavailable
}

func (absent) Schema(context.Context, [32]byte) ([]byte, error) { return nil, store.ErrNotFound }

func (absent) ListReplays(context.Context, int, string) ([]store.Replay, error) { return nil, nil }
