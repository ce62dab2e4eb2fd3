package jobserver

import (
	"context"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// Cancel ends a queued or running job, at once and for good. That the caller sees
// its queue is checked before. Errors: store.ErrNotFound, store.ErrStatus.
func (s *Server) Cancel(ctx context.Context, by Principal, id string) (*job.Job, error) {
	j, err := s.store.Cancel(ctx, id, by.Name)
	if err == nil {
		s.totals.cancelled.Add(1)
	}
	return j, err
}

// Retry queues a failed job again, with all of its attempts ahead. Errors:
// store.ErrNotFound, store.ErrStatus, store.ErrUncertain.
func (s *Server) Retry(ctx context.Context, by Principal, id string, u store.Uncertainty) (*job.Job, error) {
	j, err := s.store.Retry(ctx, id, by.Name, u)
	if err == nil {
		s.totals.retried.Add(1)
	}
	return j, err
}

// Delete removes a job that is not running. Errors: store.ErrNotFound,
// store.ErrStatus.
func (s *Server) Delete(ctx context.Context, by Principal, id string) error {
	err := s.store.Delete(ctx, id, by.Name)
	if err == nil {
		s.totals.deleted.Add(1)
	}
	return err
}
