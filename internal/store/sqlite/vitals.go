package sqlite

import (
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// Vitals is how the store itself is.
func (s *Store) Vitals() store.Vitals {
	v := &s.writer.vitals
	return store.Vitals{
		Bytes: fileSize(s.path), WALBytes: fileSize(s.path + "-wal"),
		Commits: v.commits.Load(), Operations: v.operations.Load(), LastCommit: time.Duration(v.lastCommit.Load()),
		Lanes: int(v.lanes.Load()), Running: int(v.running.Load()), Parked: int(v.parked.Load()),
	}
}
