package sqlite

import (
	"strings"

	"github.com/pawlhq/pawl/internal/store"
)

// handBack makes room for an attempt that is handed back, which nothing counts: a
// job may be, for ever. Of all workers' the hand-back goes that lies
// store.HandBacks attempts back. Of the relay's the one before goes, and the note
// of the one that stands for both is returned: a destination that is down for a
// month costs each of its jobs a row.
func (t *tx) handBack(l *lease, note string) (string, error) {
	if old := l.attempt - store.HandBacks; old > 0 {
		n, err := t.exec(sqlHandBackOld, l.seq, old)
		if err == nil && n > 0 {
			_, err = t.exec(sqlLogOld, l.seq, old)
		}
		if err != nil {
			return "", err
		}
	}
	if l.attempt == 1 || !strings.HasPrefix(l.worker, store.RelayWorker) {
		return note, nil
	}
	_, err := t.one(sqlHandBack, func(r *row) error {
		note = store.HandBackNote(r.text(0), note)
		return nil
	}, l.seq, l.attempt-1)
	return note, err
}
