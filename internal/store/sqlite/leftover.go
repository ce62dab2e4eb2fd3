package sqlite

import (
	"context"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlLeftover     = "SELECT seq FROM leftover LIMIT 1"
	sqlLeftoverNew  = "INSERT INTO leftover(seq) VALUES (?)"
	sqlLeftoverGone = "DELETE FROM leftover WHERE seq=?"
)

// noEnd is the n of no attempt.
const noEnd = 0

// removeHistory deletes lines and attempts of a job, all but the attempt keep, and
// reports whether nothing is left. Most jobs have a handful. One may have 50 attempts
// with 4,000 lines each, which took the writer 200 ms: of that a call takes retainOf
// rows of each kind, whose size matters little, since what a long row fills is freed
// unread.
func (t *tx) removeHistory(seq, keep int64) (gone bool, err error) {
	for _, part := range []struct {
		text string
		args []any
	}{{sqlRetainLog, []any{seq, retainOf}}, {sqlRetainAttempt, []any{seq, keep, retainOf}}} {
		if n, err := t.exec(part.text, part.args...); err != nil || n == retainOf {
			return false, err
		}
	}
	return true, nil
}

// removeLeftovers removes some of the history that jobs left which were deleted by
// hand. Nobody sees it: every read begins with the job's row.
func (s *Store) removeLeftovers(ctx context.Context) (there store.More, err error) {
	seq := int64(0)
	err = s.readers.use(ctx, func(c *conn) error {
		_, err := c.one(sqlLeftover, func(r *row) error { seq = r.int(0); return nil })
		return err
	})
	if err != nil || seq == 0 {
		return false, err
	}
	return true, s.writer.submit(ctx, 0, func(t *tx) error {
		gone, err := t.removeHistory(seq, noEnd)
		if err != nil || !gone {
			return err
		}
		_, err = t.exec(sqlLeftoverGone, seq)
		return err
	})
}
