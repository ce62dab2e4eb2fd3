package sqlite

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

const sqlAnySchema = "SELECT 1 FROM schema LIMIT 1"

const sqlOldest = `SELECT l.queue, (SELECT r.run_at FROM ready r WHERE r.lane=t.lane ORDER BY r.run_at LIMIT 1), t.lane
	FROM tally t CROSS JOIN lane l ON l.lane=t.lane WHERE t.lane > ? AND t.ready > 0 ORDER BY t.lane LIMIT +?`

// Outputs returns the schemas that the results of leases are held against.
func (s *Store) Outputs(ctx context.Context, leases []string) ([]job.SchemaHash, error) {
	type parsed struct {
		seq     int64
		attempt int
	}
	at := make([]parsed, len(leases))
	for i, lease := range leases {
		at[i].seq, at[i].attempt, _ = s.tokens.Parse(lease) // 0 of none, which no job has
	}
	hashes := make([]job.SchemaHash, len(leases))
	err := s.writer.submit(ctx, 0, func(t *tx) error {
		for i, p := range at {
			hashes[i] = job.SchemaHash{}
			l := t.w.state.running[p.seq]
			if l == nil || l.attempt != p.attempt || l.cancelledAt != 0 {
				continue
			}
			policy, err := t.policy(l.policy)
			if err != nil {
				return err
			}
			hashes[i] = policy.Output
		}
		return nil
	})
	return hashes, err
}

// KeepsSchemas reports whether there is any schema.
func (s *Store) KeepsSchemas(ctx context.Context) (there bool, err error) {
	err = s.readers.use(ctx, func(c *conn) error {
		there, err = c.one(sqlAnySchema, func(*row) error { return nil })
		return err
	})
	return there, err
}

// OldestDue returns when the job of each queue that waits longest is due.
func (s *Store) OldestDue(ctx context.Context) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	last := int64(0)
	for {
		n := 0
		err := s.readers.use(ctx, func(c *conn) error {
			return c.each(sqlOldest, func(r *row) error {
				n++
				last = r.int(2)
				if !r.set(1) {
					return nil // taken since it was counted
				}
				queue, due := r.text(0), at(r.int(1))
				if had, there := all[queue]; !there || due.Before(had) {
					all[queue] = due
				}
				return nil
			}, last, countsChunk)
		})
		if err != nil || n < countsChunk {
			return all, err
		}
	}
}

// TellGone writes that a subscription gets nothing any more.
func (s *Store) TellGone(ctx context.Context, subscription, why string) error {
	return s.writer.submit(ctx, 0, func(t *tx) error {
		t.subjectEvent(store.SubscriptionGone, subscription, eventData{Why: why})
		return nil
	})
}
