package sqlite

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlStart   = "UPDATE running SET started_at=?, heard_at=?, deadline=? WHERE seq=?"
	sqlHeard   = "UPDATE running SET heard_at=?, lease_until=? WHERE seq=?"
	sqlEnded   = "DELETE FROM running WHERE seq=? AND attempt=?"
	sqlAttempt = `INSERT INTO attempt(n, seq, number, worker, started_at, ended_at, outcome, charged, all_charged, lost, lost_row, unreceived,
		next_run_at, "end", reason, report, log_cut, note, error, result, finished_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// What was logged in an attempt keeps it.
	sqlHandBack = `DELETE FROM attempt WHERE seq=? AND number=? AND outcome='released' AND worker GLOB '` + store.RelayWorker + `*'
		AND NOT EXISTS (SELECT 1 FROM log WHERE log.seq=attempt.seq AND log.attempt=attempt.number) RETURNING note`
	// What is far back goes with its lines.
	sqlHandBackOld = "DELETE FROM attempt WHERE seq=? AND number=? AND outcome='released'"
	sqlLogOld      = "DELETE FROM log WHERE seq=? AND attempt=?"
	sqlSettled     = `SELECT a.report, a.next_run_at, coalesce(a."end", a.was), l.queue FROM attempt a CROSS JOIN job j ON j.seq=a.seq
		CROSS JOIN lane l ON l.lane=j.lane WHERE a.seq=+? AND a.number=+?`
	sqlLogSize = "SELECT count(*), coalesce(sum(length(CAST(message AS BLOB))), 0) FROM log WHERE seq=? AND attempt=?"
	sqlLogNew  = "INSERT INTO log(seq, attempt, n, at, level, message) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(seq, attempt, n) DO NOTHING"
	sqlLogHas  = "SELECT 1 FROM log WHERE seq=? AND attempt=? AND n=?"
	sqlLogCut  = "UPDATE running SET log_cut=1 WHERE seq=?"
)

// maxLogLines is how many lines one attempt keeps, whatever their size: a row
// costs about as much as 16 bytes of text.
const maxLogLines = store.MaxLog / 16

// reportHash is how much of a report's hash is kept: two reports of one worker
// about one attempt are told apart by far less.
const reportHash = 16

// Report takes in what workers say, each report by itself. A lease is current
// until a sweep ends it, also a moment past its end: what a worker has finished
// is worth more than the moment.
func (s *Store) Report(ctx context.Context, reports []store.Report) ([]store.Answer, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	r := reporting{reports: make([]parsedReport, len(reports)), answers: make([]store.Answer, len(reports))}
	size := 0
	for i := range reports {
		p := &r.reports[i]
		p.Report = &reports[i]
		p.seq, p.attempt, p.valid = s.tokens.Parse(reports[i].Lease)
		size += len(p.Result) + len(p.Note) + jobOverhead
		for _, l := range p.Lines {
			size += len(l.Message)
		}
		if p.Error != nil {
			text, err := json.Marshal(p.Error)
			if err != nil {
				return nil, fmt.Errorf("a report's error: %w", err)
			}
			p.failure = string(text)
			size += len(text)
		}
	}
	if err := s.writer.submit(ctx, size, r.run); err != nil {
		return nil, err
	}
	return r.answers, nil
}

// reporting is a Report on its way through the writer.
type reporting struct {
	reports []parsedReport
	answers []store.Answer
}

type parsedReport struct {
	*store.Report
	seq     int64
	attempt int
	valid   bool
	failure any // the error as JSON; nil for none
}

func (r *reporting) run(t *tx) error {
	for i := range r.reports {
		a, err := t.report(&r.reports[i])
		if err != nil {
			return err
		}
		r.answers[i] = a
	}
	return nil
}

var leaseLost = store.Answer{Status: store.LeaseLost}

func (t *tx) report(p *parsedReport) (store.Answer, error) {
	if !p.valid {
		return leaseLost, nil
	}
	l := t.w.state.running[p.seq]
	if l == nil || l.attempt != p.attempt {
		return t.settled(p)
	}
	if !p.sees(l.lane.key.Queue) {
		return leaseLost, nil
	}
	t.w.state.heard = t.now
	switch p.Type {
	case store.Start:
		return t.start(l)
	case store.Heartbeat:
		t.move(l)
		l.until = max(l.until, t.now+l.length)
		return t.holds(l)
	case store.AddLog:
		if err := t.addLog(l, p.Lines); err != nil {
			return leaseLost, err
		}
		return t.holds(l)
	case store.Complete, store.Fail, store.Release:
		return t.endBy(l, p)
	default:
		return leaseLost, nil
	}
}

// endBy ends an attempt as its worker reports. Of a job that was cancelled
// meanwhile what is reported is kept, and moves nothing.
func (t *tx) endBy(l *lease, p *parsedReport) (store.Answer, error) {
	if l.cancelledAt != 0 {
		return t.finish(l, job.DecideCancelled(t.runOf(l)), p)
	}
	switch p.Type {
	case store.Complete:
		if p.Refused != "" {
			return t.finish(l, job.DecideRefused(t.runOf(l)), p)
		}
		return t.finish(l, job.DecideComplete(t.runOf(l)), p)
	case store.Fail:
		run, err := t.runWithPolicy(l)
		if err != nil {
			return leaseLost, err
		}
		return t.finish(l, job.DecideFail(run, p.Failure, at(t.now), t.w.rand()), p)
	case store.Release:
		return t.finish(l, job.DecideRelease(t.runOf(l), p.After, at(t.now)), p)
	default:
		return leaseLost, nil
	}
}

// unlessCancelled is the decision on how an attempt ends, but that of a job that
// was cancelled meanwhile nothing moves.
func (t *tx) unlessCancelled(l *lease, x job.Transition) job.Transition {
	if l.cancelledAt != 0 {
		return job.DecideCancelled(t.runOf(l))
	}
	return x
}

// sees says whether who reports may do so on leases of the queue.
func (p *parsedReport) sees(queue string) bool {
	return p.Queues == nil || slices.Contains(p.Queues, queue)
}

// settled answers a report whose lease is not current: the one that ended it gets
// its answer again.
func (t *tx) settled(p *parsedReport) (store.Answer, error) {
	switch p.Type {
	case store.Complete, store.Fail, store.Release:
	default:
		return leaseLost, nil
	}
	answer := leaseLost
	_, err := t.one(sqlSettled, func(r *row) error {
		if !r.set(0) || !bytes.Equal(r.blob(0), p.Hash[:reportHash]) || !p.sees(r.text(3)) {
			return nil
		}
		answer = store.Answer{Status: store.ReportTaken, JobStatus: job.Queued, RunAt: at(r.int(1))}
		if r.set(2) {
			answer = store.Answer{Status: store.ReportTaken, JobStatus: job.Status(r.text(2))}
		}
		return nil
	}, p.seq, p.attempt)
	return answer, err
}

// start notes that the handler runs: the timeout counts from now on. Only the
// first report of it does.
func (t *tx) start(l *lease) (store.Answer, error) {
	if l.startedAt != 0 {
		return t.holds(l)
	}
	t.move(l)
	l.startedAt, l.heardAt, l.deadline = t.now, t.now, t.now+l.limit
	t.w.state.ends.put(l)
	if _, err := t.exec(sqlStart, l.startedAt, l.heardAt, l.deadline, l.seq); err != nil {
		return leaseLost, err
	}
	return answerOf(l), nil
}

// holds answers a report that leaves the lease as it is, or longer. Only the first
// one is written, for it tells a worker that fell silent from one that never got
// its job: after a restart every lease gets a full one more (see loadState), so
// where heartbeats had brought it to matters to nobody.
func (t *tx) holds(l *lease) (store.Answer, error) {
	t.move(l)
	first := l.heardAt == 0
	l.heardAt = t.now
	t.w.state.ends.put(l)
	if first {
		if _, err := t.exec(sqlHeard, l.heardAt, l.until, l.seq); err != nil {
			return leaseLost, err
		}
	}
	return answerOf(l), nil
}

// move keeps a lease as it was before its values change.
func (t *tx) move(l *lease) {
	if n := len(t.leases); n > 0 && t.leases[n-1].lease == l && t.leases[n-1].what == leaseMoved {
		return
	}
	t.leases = append(t.leases, leaseBefore{lease: l, what: leaseMoved, was: *l})
}

func answerOf(l *lease) store.Answer {
	a := store.Answer{Status: store.ReportTaken, JobStatus: job.Running, LeaseUntil: at(l.until)}
	if l.cancelledAt != 0 {
		a.JobStatus, a.Cancel = job.Cancelled, true
	}
	return a
}

// runOf is what decisions need of a lease; the policy only where runWithPolicy
// is asked.
func (t *tx) runOf(l *lease) job.Run {
	r := job.Run{Attempt: l.attempt, Counts: l.counts, Heard: at(l.heardAt), LeaseUntil: at(l.until), Deadline: at(l.deadline)}
	if l.lane.key.Synthetic {
		r.Kind = job.Synthetic
	}
	return r
}

func (t *tx) runWithPolicy(l *lease) (job.Run, error) {
	run := t.runOf(l)
	p, err := t.policy(l.policy)
	if err == nil {
		run.Policy, run.Repeat = p.Policy, p.Repeat
	}
	return run, err
}

// finish ends an attempt by its worker's report.
func (t *tx) finish(l *lease, x job.Transition, p *parsedReport) (store.Answer, error) {
	e := ending{report: p.Hash[:reportHash], note: p.Note, failure: p.failure}
	if p.Type == store.Complete {
		e.result = p.Result
	}
	if p.Type == store.Fail {
		e.said = &p.Failure
		if p.Error != nil {
			e.told = &job.Error{Type: p.Error.Type, Message: p.Error.Message}
		}
	}
	runAt, err := t.apply(l, x, e)
	return store.Answer{Status: store.ReportTaken, JobStatus: x.To, RunAt: at(runAt)}, err
}

// ending is what an attempt's end leaves beside the decision.
type ending struct {
	report  []byte // nil: no report ended it
	note    string
	failure any
	result  []byte
	said    *job.Failure // nil: no failure was reported
	told    *job.Error   // of a failure, without its stack
}

// apply makes a transition: the running row goes, the attempt is recorded, and
// the job stands ready again or is finished. It returns when it may run again.
func (t *tx) apply(l *lease, x job.Transition, e ending) (runAt int64, err error) {
	s := t.w.state
	if l.cancelledAt != 0 && x.To != job.Cancelled {
		return 0, t.diverge("job %d was cancelled and can't move to %s", l.seq, x.To)
	}
	if m := (job.Move{From: job.Running, Cause: x.Cause, To: x.To}); !m.Legal() {
		return 0, t.diverge("a job can't move from %s by %s to %s", m.From, m.Cause, m.To)
	}
	n, err := t.exec(sqlEnded, l.seq, l.attempt)
	if err != nil {
		return 0, err
	}
	if n != 1 {
		return 0, t.diverge("the running row of job %d, attempt %d, is gone", l.seq, l.attempt)
	}
	t.touch(l.lane)
	t.leases = append(t.leases, leaseBefore{lease: l, what: leaseRemoved})
	s.remove(l)
	cancelled := l.cancelledAt != 0 // counted already
	if !cancelled {
		l.lane.tally.running--
	}
	t.judged(l, x, e.said)
	t.regates(l.lane)

	var next, end, reason, finished any
	if x.To == job.Queued {
		runAt = ceilMillis(x.RunAt)
		next = runAt
	} else {
		end = string(x.To)
		if x.Reason != "" {
			reason = string(x.Reason)
		}
		if !cancelled {
			t.finished = append(t.finished, l.seq)
			if err := t.over(l.seq, x.To); err != nil {
				return 0, err
			}
		}
	}
	note := join(x.Note, e.note)
	if cancelled {
		finished = l.cancelledAt
		note = join(note, "the job was cancelled by "+l.canceller)
	}
	if x.Outcome == job.OutcomeReleased {
		if note, err = t.handBack(l, note); err != nil {
			return 0, err
		}
	}
	began := l.startedAt
	if began == 0 {
		began = l.claimedAt
	}
	s.attempt++
	if _, err := t.exec(sqlAttempt, s.attempt, l.seq, l.attempt, l.worker, began, t.now, string(x.Outcome), flag(x.Charged),
		x.Counts.Charged, x.Counts.Lost, x.Counts.LostInRow, x.Counts.Unreceived,
		next, end, reason, e.report, flag(l.log.cut), orNull(note), e.failure, e.result, finished); err != nil {
		return 0, err
	}
	if !cancelled {
		t.endEvent(l, x, e, runAt)
	}
	if err := t.traceEnd(l, x, e); err != nil {
		return 0, err
	}
	switch {
	case x.To == job.Queued:
		return runAt, t.ready(l.lane, runAt, l.seq, l.attempt, x.Counts, int64(l.policy), l.timeout, l.bytes)
	case !cancelled:
		t.tallyEnd(l.lane, x.To)
	}
	return 0, nil
}

// join joins two notes.
func join(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}

// flag is a column of 0 or 1.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// ceilMillis is a time in Unix milliseconds, not before it.
func ceilMillis(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}
