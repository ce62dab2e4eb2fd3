package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

var _ store.Store = (*Store)(nil)

// Ready returns nil when the next write can be expected to work.
func (s *Store) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return store.ErrClosed
	}
	if err := s.place.look(); err != nil {
		return err
	}
	if why := s.writer.vitals.trouble.Load(); why != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, *why)
	}
	if s.space.room() == roomReserve {
		return s.space.err()
	}
	return nil
}

// Vitals is how the store itself is.
func (s *Store) Vitals() store.Vitals {
	v := &s.writer.vitals
	times, sizes := v.commitTimes.Read(), v.commitSizes.Read()
	return store.Vitals{
		Bytes: fileSize(s.path), WALBytes: fileSize(s.path + "-wal"),
		Commits: int64(sizes.Count), Operations: int64(sizes.Sum), LastCommit: time.Duration(v.lastCommit.Load()),
		CommitTimes: times, CommitSizes: sizes,
		Lanes: int(v.lanes.Load()), Running: int(v.running.Load()), Parked: int(v.parked.Load()),
	}
}
