package sqlite

import (
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// addLog keeps lines until they are MaxLog bytes: then it is cut, and what comes
// later is there already or dropped, without a look. Lines that are there already
// count once.
func (t *tx) addLog(l *lease, lines []job.LogLine) error {
	t.move(l)
	size := &l.log
	if !size.read {
		if _, err := t.one(sqlLogSize, func(r *row) error { size.lines, size.bytes = int(r.int(0)), int(r.int(1)); return nil }, l.seq, l.attempt); err != nil {
			return err
		}
		size.read = true
	}
	for _, line := range lines {
		if size.cut {
			return nil
		}
		if size.lines >= maxLogLines || size.bytes+len(line.Message) > store.MaxLog {
			there, err := t.one(sqlLogHas, func(*row) error { return nil }, l.seq, l.attempt, line.Seq)
			if err != nil {
				return err
			}
			if there {
				continue
			}
			size.cut = true
			if _, err := t.exec(sqlLogCut, l.seq); err != nil {
				return err
			}
			continue
		}
		n, err := t.exec(sqlLogNew, l.seq, l.attempt, line.Seq, millis(line.At), line.Level, line.Message)
		if err != nil {
			return err
		}
		if n > 0 {
			size.lines++
			size.bytes += len(line.Message)
		}
	}
	return nil
}
