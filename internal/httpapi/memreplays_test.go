package httpapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// withReplays is the store with replays: its own, or, as long as it keeps none, some that
// stand still and are remembered.
func withReplays(s *sqlite.Store) store.Store {
	if _, ok := any(s).(store.Replays); ok {
		return s
	}
	return &still{Store: s}
}

// still is a store whose replays never move by themselves.
type still struct {
	*sqlite.Store
	replays []store.Replay // oldest first
}

func (s *still) Preview(ctx context.Context, _ store.Action, sel store.Selection, _ store.Uncertainty) (store.Preview, error) {
	sel.Limit = store.MaxPage
	page, err := s.List(ctx, sel.Filter)
	p := store.Preview{Tasks: map[string]int64{}, ByReason: map[job.Reason]int64{}}
	for _, j := range page.Jobs {
		p.Jobs++
		p.Tasks[j.Task+"@"+j.Version]++
		p.ByReason[j.Reason]++
	}
	return p, err
}

func (s *still) AddReplay(_ context.Context, r store.Replay) error {
	s.replays = append(s.replays, r)
	return nil
}

func (s *still) at(id string) int {
	return slices.IndexFunc(s.replays, func(r store.Replay) bool { return r.ID == id })
}

func (s *still) Replay(_ context.Context, id string) (store.Replay, error) {
	if i := s.at(id); i >= 0 {
		return s.replays[i], nil
	}
	return store.Replay{}, store.ErrNotFound
}

func (s *still) ListReplays(_ context.Context, limit int, before string) (all []store.Replay, err error) {
	for _, r := range slices.Backward(s.replays) {
		if (before == "" || r.ID < before) && len(all) < limit {
			all = append(all, r)
		}
	}
	return all, nil
}

func (s *still) MoveReplay(_ context.Context, id string, to store.ReplayState, by, _ string) (store.Replay, error) {
	r := &s.replays[s.at(id)]
	if r.State == store.ReplayReview && to == store.ReplayRunning {
		if by == r.CreatedBy {
			return *r, fmt.Errorf("%w: the key that asked for it can't approve it", store.ErrStatus)
		}
		r.ApprovedBy = by
	}
	r.State = to
	return *r, nil
}

func (s *still) StepReplay(context.Context, string, int) (store.Replay, error) {
	return store.Replay{}, store.ErrStatus
}
