package sqlite

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

const sqlMeta = "SELECT value FROM meta WHERE name = ?"

func (s *Store) meta(ctx context.Context, name string) (value any, err error) {
	err = s.readers.use(ctx, func(c *conn) error {
		_, err := c.one(sqlMeta, func(r *row) error { value = r.values[0]; return nil }, name)
		return err
	})
	return value, err
}

// In this file and others +? stands where the library would prepare a statement
// anew for each value of a bare ?: where it compares one with the condition of a
// partial index, and in joins.

// selectJob reads what is written once of a job, by columns that scanJob takes.
const selectJob = `SELECT ` + jobColumns + fromJob

const jobColumns = `j.seq, j.lane, j.run_at, j.created_at, j.timeout_ms, j.trace, j.tags, j.head, j.payload,
	l.queue, l.task, l.version, l.endpoint, l.priority, p.body, l.kind, j.uniq`

const fromJob = ` FROM job j CROSS JOIN lane l ON l.lane = j.lane CROSS JOIN policy p ON p.policy = j.policy`

const sqlJob = selectJob + " WHERE j.seq = +?"

// scanJob makes the job of a row: what is written once.
func (s *Store) scanJob(r *row) (*job.Job, error) {
	created := at(r.int(3))
	j := &job.Job{
		ID: s.ids.Make(created, r.int(0)), CreatedAt: created, RunAt: at(r.int(2)),
		Timeout: time.Duration(r.int(4)) * time.Millisecond, Trace: job.Trace(r.text(5)),
		Content: job.Content{Head: r.blob(7), Payload: r.blob(8)},
		Queue:   r.text(9), Task: r.text(10), Version: r.text(11), Endpoint: r.text(12), Priority: int(r.int(13)),
		Status: job.Queued, Kind: job.Kind(r.text(15)), Unique: r.text(16),
	}
	var err error
	if j.Tags, err = decodeTags(r.text(6)); err != nil {
		return nil, fmt.Errorf("%s: %w", j.ID, err)
	}
	if j.Policy, err = s.snapshots.decode(r.text(14)); err != nil {
		return nil, fmt.Errorf("%w: the policy of %s: %w", ErrDamaged, j.ID, err)
	}
	return j, nil
}

// decodeTags reads the column of tags; "" is none.
func decodeTags(text string) (tags []string, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &tags); err != nil {
		return nil, fmt.Errorf("%w: tags: %w", ErrDamaged, err)
	}
	return tags, nil
}

// standing is where a job is and what its attempts left.
type standing struct {
	status   job.Status
	attempt  int
	counts   job.Counts
	runAt    time.Time // zero: the job's first
	finished time.Time
	reason   job.Reason
	result   []byte
	err      *job.Error
}

const (
	sqlStandingRunning = `SELECT attempt, charged, lost, lost_row, unreceived, cancelled FROM running WHERE seq = ?`
	sqlStandingLast    = `SELECT number, all_charged, lost, lost_row, unreceived, next_run_at, "end", reason, coalesce(finished_at, ended_at), result, error, worker
		FROM attempt WHERE seq = +? ORDER BY number DESC LIMIT 1`
	sqlStandingDue   = `SELECT next_run_at FROM attempt WHERE seq = +? AND next_run_at IS NOT NULL ORDER BY number DESC LIMIT 1`
	sqlStandingError = `SELECT error FROM attempt WHERE seq = +? AND error IS NOT NULL ORDER BY number DESC LIMIT 1`
)

// standingOf reads where a job is: a row in running; its last attempt's end;
// else it is queued. The caller is in a read transaction.
func standingOf(c *conn, seq int64) (standing, error) {
	s := standing{status: job.Queued}
	running, err := c.one(sqlStandingRunning, func(r *row) error {
		s.status, s.attempt = job.Running, int(r.int(0))
		s.counts = scanCounts(r, 1)
		if r.set(5) {
			s.status, s.finished = job.Cancelled, at(r.int(5))
		}
		return nil
	}, seq)
	if err != nil {
		return s, err
	}
	var wantDue, wantError bool
	_, err = c.one(sqlStandingLast, func(r *row) error {
		if !running {
			s.attempt, s.counts = int(r.int(0)), scanCounts(r, 1)
			if r.text(11) == "" { // it was cancelled before a worker had it again
				s.attempt--
			}
		}
		if r.set(6) {
			s.status, s.reason = job.Status(r.text(6)), job.Reason(r.text(7))
			s.finished, s.result = at(r.int(8)), r.blob(9)
		}
		if r.set(5) {
			s.runAt = at(r.int(5))
		}
		wantDue, wantError = !r.set(5) && r.int(0) > 1, !r.set(10) && r.int(0) > 1
		if r.set(10) {
			return decodeError(r.text(10), &s.err)
		}
		return nil
	}, seq)
	if err != nil {
		return s, err
	}
	if wantDue {
		if _, err := c.one(sqlStandingDue, func(r *row) error { s.runAt = at(r.int(0)); return nil }, seq); err != nil {
			return s, err
		}
	}
	if wantError {
		if _, err := c.one(sqlStandingError, func(r *row) error { return decodeError(r.text(0), &s.err) }, seq); err != nil {
			return s, err
		}
	}
	return s, nil
}

// apply puts the standing on a job.
func (s standing) apply(j *job.Job) {
	j.Status, j.Attempt, j.Counts = s.status, s.attempt, s.counts
	j.FinishedAt, j.Reason, j.Result, j.LastError = s.finished, s.reason, s.result, s.err
	if !s.runAt.IsZero() {
		j.RunAt = s.runAt
	}
}

func scanCounts(r *row, i int) job.Counts {
	return job.Counts{Charged: int(r.int(i)), Lost: int(r.int(i + 1)), LostInRow: int(r.int(i + 2)), Unreceived: int(r.int(i + 3))}
}

func decodeError(text string, e **job.Error) error {
	*e = new(job.Error)
	if err := json.Unmarshal([]byte(text), *e); err != nil {
		return fmt.Errorf("%w: an attempt's error: %w", ErrDamaged, err)
	}
	return nil
}

const (
	sqlAttempts = `SELECT number, worker, started_at, ended_at, outcome, charged, next_run_at, note, error
		FROM attempt WHERE seq = +? ORDER BY number DESC LIMIT +?`
	sqlAttemptRunning = `SELECT attempt, worker, coalesce(started_at, claimed_at) FROM running WHERE seq = ?`
)

const sqlMade = `SELECT created_at FROM job WHERE seq = ?`

// isThere returns nil for the job that was given a seq at the time: where an older
// backup was put in a store's place, seqs are given out again, and an id from
// before must not lead to another job.
func isThere(c *conn, seq int64, made time.Time) error {
	at := int64(-1)
	if _, err := c.one(sqlMade, func(r *row) error { at = r.int(0); return nil }, seq); err != nil {
		return err
	}
	if at != made.UnixMilli() {
		return store.ErrNotFound
	}
	return nil
}

// Job returns the job with every attempt.
func (s *Store) Job(ctx context.Context, id string) (*job.Job, error) {
	seq, made, ok := s.ids.Parse(id)
	if !ok {
		return nil, store.ErrNotFound
	}
	var j *job.Job
	err := s.readers.view(ctx, func(c *conn) error {
		if err := isThere(c, seq, made); err != nil {
			return err
		}
		if _, err := c.one(sqlJob, func(r *row) (err error) { j, err = s.scanJob(r); return err }, seq); err != nil {
			return err
		}
		st, err := standingOf(c, seq)
		if err != nil {
			return err
		}
		st.apply(j)
		if j.Attempts, err = attemptsOf(c, seq); err != nil {
			return err
		}
		_, err = c.one(sqlAttemptRunning, func(r *row) error {
			j.Attempts = append(j.Attempts, job.Attempt{Number: int(r.int(0)), Worker: r.text(1), StartedAt: at(r.int(2))})
			return nil
		}, seq)
		return err
	})
	if err != nil {
		return nil, err
	}
	return j, nil
}

// attemptsOf reads the newest attempts that have ended, oldest first.
func attemptsOf(c *conn, seq int64) ([]job.Attempt, error) {
	var all []job.Attempt
	err := c.each(sqlAttempts, func(r *row) error {
		if r.text(1) == "" {
			return nil
		}
		a := job.Attempt{
			Number: int(r.int(0)), Worker: r.text(1), StartedAt: at(r.int(2)), EndedAt: at(r.int(3)),
			Outcome: job.Outcome(r.text(4)), Charged: r.int(5) != 0, Note: r.text(7),
		}
		if r.set(6) {
			a.NextRunAt = at(r.int(6))
		}
		if r.set(8) {
			if err := decodeError(r.text(8), &a.Error); err != nil {
				return err
			}
		}
		all = append(all, a)
		return nil
	}, seq, store.MaxAttempts)
	slices.Reverse(all)
	return all, err
}

const (
	sqlLogs    = `SELECT n, at, level, message FROM log WHERE seq = +? AND attempt = +? ORDER BY n`
	sqlLogsEnd = `SELECT log_cut FROM attempt WHERE seq = +? AND number = ? AND worker <> ''` // where nobody had it, nobody logged
	sqlLogsRun = `SELECT log_cut FROM running WHERE seq = ? AND attempt = ?`
)

// Logs returns the lines of one attempt.
func (s *Store) Logs(ctx context.Context, id string, attempt int) (store.Log, error) {
	seq, made, ok := s.ids.Parse(id)
	if !ok {
		return store.Log{}, store.ErrNotFound
	}
	var log store.Log
	err := s.readers.view(ctx, func(c *conn) error {
		if err := isThere(c, seq, made); err != nil {
			return err
		}
		cut := func(r *row) error { log.Cut = r.int(0) != 0; return nil }
		there, err := c.one(sqlLogsEnd, cut, seq, attempt)
		if err == nil && !there {
			there, err = c.one(sqlLogsRun, cut, seq, attempt)
		}
		if err != nil {
			return err
		}
		if !there {
			return store.ErrNotFound
		}
		return c.each(sqlLogs, func(r *row) error {
			log.Lines = append(log.Lines, job.LogLine{Seq: r.int(0), At: at(r.int(1)), Level: r.text(2), Message: r.text(3)})
			return nil
		}, seq, attempt)
	})
	return log, err
}

// countsChunk is how many lanes one read of Counts takes.
const countsChunk = 5000

const sqlCounts = `SELECT l.queue, l.task, l.version, l.endpoint, l.priority, l.kind, t.ready, t.running, t.succeeded, t.failed, t.cancelled, t.lane
	FROM tally t CROSS JOIN lane l ON l.lane = t.lane WHERE t.lane > ? ORDER BY t.lane LIMIT +?`

// Counts returns the kept counts of every lane. With more than some thousand
// lanes, the counts of one and of another may be some milliseconds apart.
func (s *Store) Counts(ctx context.Context) ([]store.LaneCount, error) {
	var all []store.LaneCount
	last := int64(0)
	for {
		n := 0
		err := s.readers.use(ctx, func(c *conn) error {
			return c.each(sqlCounts, func(r *row) error {
				all = append(all, store.LaneCount{
					Lane:  laneKey(r, 0),
					Ready: r.int(6), Running: r.int(7), Succeeded: r.int(8), Failed: r.int(9), Cancelled: r.int(10),
				})
				last = r.int(11)
				n++
				return nil
			}, last, countsChunk)
		})
		if err != nil || n < countsChunk {
			return all, err
		}
	}
}
