package sqlite

import (
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
)

const (
	sqlUnique     = "SELECT u.seq, j.created_at FROM uniq u CROSS JOIN job j ON j.seq=u.seq WHERE u.queue=? AND u.task=? AND u.key=?"
	sqlUniqueNew  = "INSERT INTO uniq(queue, task, key, seq) VALUES (?, ?, ?, ?)"
	sqlUniqueGone = "DELETE FROM uniq WHERE seq=?"
	sqlUniqueAny  = "SELECT EXISTS (SELECT 1 FROM uniq)"
)

// claimUnique makes a unique key the job's, unless another job that is not
// finished has it, which is returned.
func (t *tx) claimUnique(k lane.Key, key string, seq int64) (other madeRow, err error) {
	found, err := t.one(sqlUnique, func(r *row) error { other = madeRow{r.int(0), r.int(1)}; return nil }, k.Queue, k.Task, key)
	if err != nil || found {
		return other, err
	}
	t.w.state.unique = true
	_, err = t.exec(sqlUniqueNew, k.Queue, k.Task, key, seq)
	return madeRow{}, err
}

// over frees what a job that is finished had for itself, and tells the replay that
// brought it back. Where no job ever had a unique key since the store was opened,
// nothing is looked for.
func (t *tx) over(seq int64, as job.Status) error {
	if err := t.cameBack(seq, as); err != nil || !t.w.state.unique {
		return err
	}
	_, err := t.exec(sqlUniqueGone, seq)
	return err
}
