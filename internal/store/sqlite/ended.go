package sqlite

import (
	"strings"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

const sqlTrace = "SELECT created_at, trace FROM job WHERE seq=?"

// endEvent tells what the end of an attempt made of its job.
func (t *tx) endEvent(l *lease, x job.Transition, e ending, runAt int64) {
	d := eventData{Attempt: l.attempt, Outcome: x.Outcome, Reason: x.Reason, Error: e.told, RunAt: stamp(runAt)}
	switch {
	case x.To == job.Succeeded:
		t.jobEvent(store.JobSucceeded, l.seq, l.made, l.lane, d)
	case x.To == job.Failed:
		t.jobEvent(store.JobFailed, l.seq, l.made, l.lane, d)
	case x.To == job.Queued && x.Cause != job.Release:
		t.jobEvent(store.JobRetried, l.seq, l.made, l.lane, d)
	}
}

// traceEnd notes the end of an attempt for who follows traces: told after the
// commit. What it says of the job is in the file, so a start of the server in
// between loses nothing.
func (t *tx) traceEnd(l *lease, x job.Transition, e ending) error {
	if t.w.store.options.Ended == nil || strings.HasPrefix(l.worker, store.RelayWorker) {
		return nil
	}
	var id string
	var trace job.Trace
	_, err := t.one(sqlTrace, func(r *row) error {
		if r.set(1) {
			id, trace = t.w.store.ids.Make(at(r.int(0)), l.seq), job.Trace(r.text(1))
		}
		return nil
	}, l.seq)
	if err != nil || trace == "" {
		return err
	}
	k := l.lane.key
	t.ended = append(t.ended, store.Ended{
		Job: id, Queue: k.Queue, Task: k.Task, Version: k.Version, Endpoint: k.Endpoint, Worker: l.worker, Trace: trace,
		Number: l.attempt, ClaimedAt: at(l.claimedAt), EndedAt: at(t.now), Outcome: x.Outcome, Charged: x.Charged,
		Status: x.To, Reason: x.Reason, Error: e.told,
	})
	return nil
}

// tallyEnd counts a job of a lane that came to its end.
func (t *tx) tallyEnd(l *laneRow, as job.Status) {
	l.ended(as, 1)
	if t.w.store.options.Finished == nil {
		return
	}
	if n := len(t.ends); n > 0 && t.ends[n-1].Queue == l.key.Queue && t.ends[n-1].Status == as {
		t.ends[n-1].Jobs++
		return
	}
	t.ends = append(t.ends, store.Finished{Queue: l.key.Queue, Status: as, Jobs: 1})
}

// tellEnded tells of the attempts that ended in a transaction that is durable, and
// of the jobs, also where the file is not in its place: who reports once it is back
// is answered as for a repeat, and then nothing ends a second time.
func (w *writer) tellEnded() {
	durable := w.tx.end == endCommitted
	if (durable || w.tx.end == endParted) && len(w.tx.ends) > 0 {
		w.store.options.Finished(w.tx.ends)
	}
	if !durable {
		return
	}
	for i := range w.tx.ended {
		w.store.options.Ended(w.tx.ended[i])
	}
}
