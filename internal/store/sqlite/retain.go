package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// walk remembers how far retention has come. Attempts stand in the order of
// their ends, so what is behind the place was removed, or is kept for another
// reason than its age. There is one place for each length of keeping: the longer
// ones would stand in the way of the shorter. After a restart a walk begins
// anew, over what is left. It is safe for concurrent use.
type walk struct {
	mu    sync.Mutex
	place map[keeping]int64
}

// keeping is what kind of finished jobs a retention is about.
type keeping string

const (
	keptFinished keeping = "finished" // succeeded, cancelled, and checks that failed
	keptDead     keeping = "dead"     // dead letters
)

func (w *walk) at(k keeping) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.place[k]
}

func (w *walk) set(k keeping, n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.place == nil {
		w.place = make(map[keeping]int64)
	}
	w.place[k] = n
}

// The bounds of one step, which the writer does between two groups.
const (
	retainRows  = 500 // attempts that it looks at
	retainChunk = 50  // of them in one statement: most steps find the next one too young
	retainWork  = maxGroupWork
	retainOf    = 500 // rows of one job's attempts, and of its lines, in one statement
)

const (
	sqlRetain = `SELECT n, seq, "end", ended_at, reason IS NOT NULL FROM attempt WHERE n > ? ORDER BY n LIMIT +?`
	// A job that a person brought back after this end has gone on.
	sqlRetainLast    = `SELECT n FROM attempt WHERE seq = +? ORDER BY number DESC LIMIT 1`
	sqlRetainJob     = `DELETE FROM job WHERE seq = ? RETURNING lane, key`
	sqlRetainLog     = `DELETE FROM log WHERE (seq, attempt, n) IN (SELECT seq, attempt, n FROM log WHERE seq = +? LIMIT +?)`
	sqlRetainAttempt = `DELETE FROM attempt WHERE n IN (SELECT n FROM attempt WHERE seq = +? AND n <> +? ORDER BY number LIMIT +?)`
	sqlRetainEnd     = `DELETE FROM attempt WHERE n = ?`
	sqlRetainKey     = `DELETE FROM idem WHERE key = ? AND seq = ?`
)

// Retain removes finished jobs that were kept long enough, and policies and schemas
// that only they had. A retention of zero keeps for ever.
func (s *Store) Retain(ctx context.Context, r store.Retention) (store.More, error) {
	more := store.More(false)
	for _, k := range []struct {
		kind keeping
		long time.Duration
	}{{keptFinished, r.Finished}, {keptDead, r.DeadLetters}} {
		if k.long <= 0 {
			continue
		}
		step := retainStep{store: s, kind: k.kind, long: k.long, from: s.retain.at(k.kind)}
		if err := s.writer.submit(ctx, 0, step.run); err != nil {
			return false, err
		}
		s.retain.set(k.kind, step.to)
		more = more || step.more
	}
	left, err := s.removeLeftovers(ctx)
	if err != nil {
		return false, err
	}
	more = more || left
	events, err := s.retainEvents(ctx, r.Events)
	if err != nil {
		return false, err
	}
	if more = more || events; more {
		return more, nil
	}
	if more, err := s.forgetSchemas(ctx, &s.schemas); more || err != nil || r == (store.Retention{}) {
		return more, err
	}
	return s.disused.step(ctx, s)
}

// retainStep is one step of one walk.
type retainStep struct {
	store *Store
	kind  keeping
	long  time.Duration
	from  int64
	// What the step leaves.
	to      int64
	more    store.More
	removed int
}

// wants reports whether jobs that ended so are the walk's.
func (r *retainStep) wants(e endedAttempt) bool {
	switch e.end {
	case job.Succeeded, job.Cancelled:
		return r.kind == keptFinished
	case job.Failed:
		return e.dead == (r.kind == keptDead)
	default: // not the end of a job
		return false
	}
}

// endedAttempt is an attempt, and the job's end if it was that.
type endedAttempt struct {
	n, seq int64
	end    job.Status
	dead   bool // the job is a dead letter; one that failed and is none was a check
}

func (r *retainStep) run(t *tx) error {
	r.to, r.more, r.removed = r.from, true, 0
	began := time.Now()
	for looked := 0; looked < retainRows && bool(r.more); looked += retainChunk {
		rows, err := r.next(t)
		if err != nil {
			return err
		}
		for _, e := range rows {
			if r.wants(e) {
				if r.removed > 0 && time.Since(began) > retainWork { // long payloads take longer
					r.more = true // whatever next said
					return nil
				}
				gone, err := r.remove(t, e)
				if err != nil {
					return err
				}
				if r.removed++; !gone {
					r.more = true
					return nil
				}
			}
			r.to = e.n
		}
	}
	return nil
}

// next reads the next attempts that are old enough. Without as many as were
// asked for, nothing more is there to do.
func (r *retainStep) next(t *tx) (rows []endedAttempt, err error) {
	until := t.now - r.long.Milliseconds()
	err = t.each(sqlRetain, func(row *row) error {
		if row.int(3) <= until {
			rows = append(rows, endedAttempt{row.int(0), row.int(1), job.Status(row.text(2)), row.int(4) != 0})
		}
		return nil
	}, r.to, retainChunk)
	r.more = len(rows) == retainChunk
	return rows, err
}

// remove deletes a job that an attempt ended, with all that belongs to it. Of one
// with much it deletes a part, the last attempt last, and says that it is not gone.
func (r *retainStep) remove(t *tx, e endedAttempt) (gone bool, err error) {
	last := int64(0)
	if _, err := t.one(sqlRetainLast, func(row *row) error { last = row.int(0); return nil }, e.seq); err != nil {
		return false, err
	}
	if last != e.n {
		return true, nil // there is nothing to do
	}
	if gone, err := t.removeHistory(e.seq, e.n); err != nil || !gone {
		return false, err
	}
	if _, err := t.exec(sqlRetainEnd, e.n); err != nil {
		return false, err
	}
	var of lane.ID
	var key any
	there, err := t.one(sqlRetainJob, func(row *row) error {
		of, key = lane.ID(row.int(0)), row.values[1]
		return nil
	}, e.seq)
	if err != nil {
		return false, err
	}
	if !there {
		if n, err := t.exec(sqlLeftoverGone, e.seq); err != nil || n == 1 {
			return true, err // it was deleted by hand, and this was the last of it
		}
		return false, t.diverge("attempt %d is of a job that is not there", e.n)
	}
	if key != nil {
		if _, err := t.exec(sqlRetainKey, key, e.seq); err != nil {
			return false, err
		}
	}
	l := t.w.state.lanes[of]
	t.touch(l)
	l.ended(e.end, -1)
	t.finished = append(t.finished, e.seq)
	return true, nil
}
