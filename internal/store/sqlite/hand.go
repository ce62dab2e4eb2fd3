package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlHandJob  = `SELECT lane, run_at, created_at FROM job WHERE seq=?`
	sqlHandLast = `SELECT n, number, next_run_at, "end", reason, all_charged, lost, lost_row, unreceived, ended_at FROM attempt
		WHERE seq=+? ORDER BY number DESC LIMIT 1`
	sqlReadyAt   = "SELECT attempt, charged, lost, lost_row, unreceived FROM ready WHERE lane=? AND run_at=? AND seq=?"
	sqlReadyGone = "DELETE FROM ready WHERE lane=? AND run_at=? AND seq=?"
	sqlReadyHead = "SELECT run_at FROM ready WHERE lane=+? ORDER BY run_at, seq LIMIT 1"
	sqlCancel    = "UPDATE running SET cancelled=?, canceller=? WHERE seq=?"
	// The dead letter's end becomes the end of an attempt that is followed by
	// another, and the counts begin anew.
	sqlBringBack = `UPDATE attempt SET was="end", "end"=NULL, reason=NULL, next_run_at=?, note=?, all_charged=0, lost=0, lost_row=0, unreceived=0
		WHERE n=?`
	sqlBringBackNote = "SELECT note FROM attempt WHERE n=?"
	sqlBringBackJob  = "SELECT policy, timeout_ms, length(payload)+coalesce(length(head), 0), uniq FROM job WHERE seq=?"
)

// found is a job that somebody does something to, as the writer finds it.
type found struct {
	seq, made int64 // made is when it was
	runAt     int64 // where it stands in its line, of a queued one
	lane      *laneRow
	running   *lease // nil: no worker has it
	status    job.Status
	reason    job.Reason
	last      int64 // n of its last attempt; 0 for none
	attempt   int   // the number of that
	counts    job.Counts
	ended     int64 // when its last attempt did
}

// died is when it failed; zero where it did not.
func (h *found) died() time.Time {
	if h.status != job.Failed {
		return time.Time{}
	}
	return at(h.ended)
}

// find reads where a job is.
func (t *tx) find(ids job.IDs, id string) (h found, err error) {
	seq, made, ok := ids.Parse(id)
	if !ok {
		return h, store.ErrNotFound
	}
	return t.findSeq(seq, made.UnixMilli())
}

// anyTime is when a job was made that is known by its seq alone.
const anyTime = -1

// findSeq reads where the job of a seq is, that was made at the time.
func (t *tx) findSeq(seq, made int64) (h found, err error) {
	h = found{seq: seq, status: job.Queued}
	var of lane.ID
	ok := false
	there, err := t.one(sqlHandJob, func(r *row) error {
		of, h.runAt = lane.ID(r.int(0)), r.int(1)
		h.made = r.int(2)
		ok = made == anyTime || h.made == made
		return nil
	}, seq)
	if err != nil {
		return h, err
	}
	if !there || !ok {
		return h, store.ErrNotFound
	}
	if h.lane = t.w.state.lanes[of]; h.lane == nil {
		return h, t.diverge("job %d is in lane %d, which is not there", seq, of)
	}
	_, err = t.one(sqlHandLast, func(r *row) error {
		h.last, h.attempt, h.counts = r.int(0), int(r.int(1)), scanCounts(r, 5)
		h.ended = r.int(9)
		if r.set(2) {
			h.runAt = r.int(2)
		}
		if r.set(3) {
			h.status, h.reason = job.Status(r.text(3)), job.Reason(r.text(4))
		}
		return nil
	}, seq)
	if l := t.w.state.running[seq]; l != nil {
		h.running, h.status = l, job.Running
		if l.cancelledAt != 0 {
			h.status = job.Cancelled
		}
	}
	return h, err
}

// byHand runs what is done to one job and returns the job afterwards.
func (s *Store) byHand(ctx context.Context, id string, do func(*tx, *found) error) (*job.Job, error) {
	err := s.writer.submit(ctx, jobOverhead, func(t *tx) error {
		h, err := t.find(s.ids, id)
		if err != nil {
			return err
		}
		return do(t, &h)
	})
	if err != nil {
		return nil, err
	}
	return s.Job(ctx, id)
}

// Cancel ends a queued or running job for good.
func (s *Store) Cancel(ctx context.Context, id, by string) (*job.Job, error) {
	return s.byHand(ctx, id, func(t *tx, h *found) error { return t.cancel(h, by) })
}

func (t *tx) cancel(h *found, by string) error {
	switch h.status {
	case job.Cancelled:
		return nil
	case job.Queued:
		return t.cancelQueued(h, by)
	case job.Running:
	default:
		return fmt.Errorf("%w: it is %s", store.ErrStatus, h.status)
	}
	l := h.running
	t.touch(l.lane)
	t.move(l)
	l.cancelledAt, l.canceller = t.now, by
	l.lane.tally.running--
	t.tallyEnd(l.lane, job.Cancelled)
	if _, err := t.exec(sqlCancel, t.now, by, l.seq); err != nil {
		return err
	}
	t.finished = append(t.finished, h.seq)
	t.jobEvent(store.JobCancelled, h.seq, h.made, h.lane, eventData{Attempt: l.attempt, By: by})
	return t.over(h.seq, job.Cancelled)
}

// cancelQueued takes a job out of its line. Its end is an attempt that no worker
// made: readers leave it out.
func (t *tx) cancelQueued(h *found, by string) error {
	if err := t.unready(h); err != nil {
		return err
	}
	t.w.state.attempt++
	if _, err := t.exec(sqlAttempt, t.w.state.attempt, h.seq, h.attempt+1, "", t.now, t.now, string(job.OutcomeCancelled), 0,
		h.counts.Charged, h.counts.Lost, h.counts.LostInRow, h.counts.Unreceived,
		nil, string(job.Cancelled), nil, nil, 0, "cancelled by "+by, nil, nil, nil); err != nil {
		return err
	}
	t.tallyEnd(h.lane, job.Cancelled)
	t.finished = append(t.finished, h.seq)
	t.jobEvent(store.JobCancelled, h.seq, h.made, h.lane, eventData{Attempt: h.attempt, By: by})
	return t.over(h.seq, job.Cancelled)
}

// unready takes a queued job out of its line. The lane was not touched.
func (t *tx) unready(h *found) error {
	s, l := t.w.state, h.lane
	t.touch(l)
	there, err := t.one(sqlReadyAt, func(r *row) error { h.counts = scanCounts(r, 1); return nil }, int64(l.id), h.runAt, h.seq)
	if err != nil {
		return err
	}
	if !there {
		return t.diverge("job %d is queued, and not in its line at %d", h.seq, h.runAt)
	}
	if _, err := t.exec(sqlReadyGone, int64(l.id), h.runAt, h.seq); err != nil {
		return err
	}
	head := l.head
	if h.runAt == l.head {
		if _, err := t.one(sqlReadyHead, func(r *row) error { head = r.int(0); return nil }, int64(l.id)); err != nil {
			return err
		}
	}
	s.setReady(l, l.tally.ready-1, head)
	return nil
}

// Retry queues a failed job again.
func (s *Store) Retry(ctx context.Context, id, by string, u store.Uncertainty) (*job.Job, error) {
	return s.byHand(ctx, id, func(t *tx, h *found) error { return t.bringBack(h, by, u) })
}

func (t *tx) bringBack(h *found, by string, u store.Uncertainty) error {
	switch {
	case h.status != job.Failed:
		return fmt.Errorf("%w: it is %s", store.ErrStatus, h.status)
	case h.reason == job.ReasonUncertain && u != store.AcceptUncertain:
		return store.ErrUncertain
	}
	var policy, timeout, bytes int64
	var unique any
	if _, err := t.one(sqlBringBackJob, func(r *row) error {
		policy, timeout, bytes, unique = r.int(0), r.int(1), r.int(2), r.values[3]
		return nil
	}, h.seq); err != nil {
		return err
	}
	if key, ok := unique.(string); ok {
		if other, err := t.claimUnique(h.lane.key, key, h.seq); err != nil {
			return err
		} else if other != (madeRow{}) {
			return fmt.Errorf("%w: another job of its queue and task with the unique key %q is not finished", store.ErrStatus, key)
		}
	}
	note := ""
	if _, err := t.one(sqlBringBackNote, func(r *row) error { note = r.text(0); return nil }, h.last); err != nil {
		return err
	}
	was := "it was a dead letter, " + string(h.reason)
	if h.reason == "" {
		was = "it was a check that failed"
	}
	note = join(note, was+", until "+by+" retried it")
	t.touch(h.lane)
	if _, err := t.exec(sqlBringBack, t.now, note, h.last); err != nil {
		return err
	}
	h.lane.tally.failed--
	t.jobEvent(store.JobRetried, h.seq, h.made, h.lane, eventData{Attempt: h.attempt, Reason: h.reason, RunAt: stamp(t.now), By: by})
	return t.ready(h.lane, t.now, h.seq, h.attempt, job.Counts{}, policy, timeout, bytes)
}

// Delete removes a job that no worker has.
func (s *Store) Delete(ctx context.Context, id, by string) error {
	return s.writer.submit(ctx, jobOverhead, func(t *tx) error {
		h, err := t.find(s.ids, id)
		if err != nil {
			return err
		}
		return t.delete(&h, by)
	})
}

func (t *tx) delete(h *found, by string) error {
	switch {
	case h.running != nil:
		return fmt.Errorf("%w: a worker has it; cancel it, and delete it once its lease has ended", store.ErrStatus)
	case h.status == job.Queued:
		if err := t.unready(h); err != nil {
			return err
		}
		t.w.state.recent.take(h.seq)
	default:
		t.touch(h.lane)
		h.lane.ended(h.status, -1)
	}
	if err := t.over(h.seq, job.Cancelled); err != nil {
		return err
	}
	if _, err := t.exec(sqlUniqueGone, h.seq); err != nil {
		return err
	}
	if gone, err := t.removeHistory(h.seq, noEnd); err != nil {
		return err
	} else if !gone {
		if _, err := t.exec(sqlLeftoverNew, h.seq); err != nil {
			return err
		}
	}
	if t.w.state.wantsEvent(store.JobDeleted, h.lane.key.Queue) {
		t.jobEvent(store.JobDeleted, h.seq, h.made, h.lane, eventData{By: by, State: string(h.status)})
	}
	for i := range t.events { // the row that says it is gone when they are written
		if e := &t.events[i]; e.seq == h.seq {
			e.made = h.made
		}
	}
	var key any
	if _, err := t.one(sqlRetainJob, func(r *row) error { key = r.values[1]; return nil }, h.seq); err != nil {
		return err
	}
	if key != nil {
		if _, err := t.exec(sqlRetainKey, key, h.seq); err != nil {
			return err
		}
	}
	t.finished = append(t.finished, h.seq)
	return nil
}

// ended counts a job that ended so, or, with −1, is gone.
func (l *laneRow) ended(as job.Status, n int64) {
	switch as {
	case job.Succeeded:
		l.tally.succeeded += n
	case job.Failed:
		l.tally.failed += n
	case job.Cancelled:
		l.tally.cancelled += n
	case job.Queued, job.Running: // no ends
	}
}
