package jobserver

import (
	"context"

	"github.com/pawlhq/pawl/internal/store"
)

// kept is all that is asked of a store.
type kept interface {
	store.Store
	store.Replays
}

// whole returns a store that keeps replays: where it does not, it has none and
// takes none.
func whole(s store.Store) kept {
	if k, ok := s.(kept); ok {
		return k
	}
	return absent{Store: s}
}

type absent struct{ store.Store }

func (absent) Preview(context.Context, store.Action, store.Selection, store.Uncertainty) (store.Preview, error) {
	return store.Preview{}, store.ErrUnavailable
}

func (absent) AddReplay(context.Context, store.Replay) error { return store.ErrUnavailable }

func (absent) Replay(context.Context, string) (store.Replay, error) {
	return store.Replay{}, store.ErrNotFound
}

func (absent) ListReplays(context.Context, int, string) ([]store.Replay, error) { return nil, nil }

func (absent) MoveReplay(context.Context, string, store.ReplayState, string, string) (store.Replay, error) {
	return store.Replay{}, store.ErrNotFound
}

func (absent) StepReplay(context.Context, string, int) (store.Replay, error) {
	return store.Replay{}, store.ErrNotFound
}
