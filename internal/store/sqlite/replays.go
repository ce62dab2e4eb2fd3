package sqlite

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlReplayNew  = "INSERT INTO replay(id, state, body) VALUES (?, ?, ?)"
	sqlReplaySet  = "UPDATE replay SET state=?, body=? WHERE id=?"
	sqlReplay     = "SELECT body FROM replay WHERE id=?"
	sqlReplayOpen = "SELECT count(*) FROM replay WHERE state IN ('in_review', 'running', 'paused', 'stopped')"
	sqlReplayN    = "SELECT n FROM replay WHERE id=?"
	sqlReplays    = "SELECT body FROM replay WHERE n < ? ORDER BY n DESC LIMIT +?"
	sqlReplaysRun = "SELECT body FROM replay WHERE state='running' ORDER BY n LIMIT +?"
	sqlReplaysOld = "DELETE FROM replay WHERE n <= (SELECT max(n) FROM replay) - ? AND state IN ('done', 'cancelled')"
	sqlBrought    = "INSERT INTO brought(seq, replay) VALUES (?, ?) ON CONFLICT(seq) DO UPDATE SET replay=excluded.replay"
	sqlBroughtBy  = "DELETE FROM brought WHERE seq=? RETURNING replay"
	sqlBroughtAny = "SELECT EXISTS (SELECT 1 FROM brought)"
	// What a step, or a preview, looks at: dead letters, or all jobs.
	sqlReplayDead = `SELECT j.seq, j.lane, j.created_at, j.tags FROM attempt a CROSS JOIN job j ON j.seq = a.seq
		WHERE a.seq > ? AND a."end" = 'failed' AND a.reason IS NOT NULL ORDER BY a.seq LIMIT +?`
	sqlReplayJobs = `SELECT seq, lane, created_at, tags FROM job WHERE seq > ? ORDER BY seq LIMIT +?`
)

// The bounds of one step, which the writer does between two groups.
const (
	replayRows = 500 // rows that it looks at
	replayActs = 64  // jobs that it acts on: each is a handful of statements
)

// candidate is a row that a replay may be about.
type candidate struct {
	seq, lane, created int64
	tags               string
}

func scanCandidate(r *row) candidate {
	return candidate{r.int(0), r.int(1), r.int(2), r.text(3)}
}

// candidatesOf is the statement of the rows that an action looks at.
func candidatesOf(a store.Action) string {
	if a == store.ActionRetry {
		return sqlReplayDead
	}
	return sqlReplayJobs
}

// fits reports whether a selection has a job for an action, as far as what never
// changes tells. k is its lane.
func fits(a store.Action, sel *store.Selection, c candidate, k lane.Key) bool {
	made := at(c.created)
	switch {
	case sel.Queue == "" && a != store.ActionRetry && job.OfRelay(k.Queue):
		return false
	case sel.Queue != "" && sel.Queue != k.Queue, sel.Task != "" && sel.Task != k.Task, sel.Endpoint != "" && sel.Endpoint != k.Endpoint:
		return false
	case !sel.Before.IsZero() && made.After(sel.Before):
		return false
	case !sel.CreatedAfter.IsZero() && made.Before(sel.CreatedAfter), !sel.CreatedBefore.IsZero() && !made.Before(sel.CreatedBefore):
		return false
	}
	return sel.Tag == "" || hasTag(c.tags, sel.Tag)
}

func hasTag(text, tag string) bool {
	tags, err := decodeTags(text)
	return err == nil && slices.Contains(tags, tag)
}

// allows reports whether a selection has a job, and an action is for it, by what its
// attempts left. died is when it failed, zero where it did not.
func allows(a store.Action, sel *store.Selection, u store.Uncertainty, s job.Status, why job.Reason, died time.Time) bool {
	switch {
	case sel.Status != "" && sel.Status != s, sel.Reason != "" && sel.Reason != why:
		return false
	case !sel.Before.IsZero() && died.After(sel.Before):
		return false
	case !sel.FailedAfter.IsZero() && died.Before(sel.FailedAfter), !sel.FailedBefore.IsZero() && (died.IsZero() || !died.Before(sel.FailedBefore)):
		return false
	}
	switch a {
	case store.ActionRetry:
		return s == job.Failed && (why != job.ReasonUncertain || sel.Reason == job.ReasonUncertain && u == store.AcceptUncertain)
	case store.ActionCancel:
		return s == job.Queued || s == job.Running
	case store.ActionDelete:
		return s != job.Running
	}
	return false
}

// Preview counts what a selection has.
func (s *Store) Preview(ctx context.Context, a store.Action, sel store.Selection, u store.Uncertainty) (store.Preview, error) {
	p := store.Preview{Tasks: map[string]int64{}, ByReason: map[job.Reason]int64{}}
	lanes := map[int64]lane.Key{}
	last := int64(0)
	for looked := 0; ; {
		if looked >= store.PreviewRows {
			p.AtLeast = true
			return p, nil
		}
		rows := 0
		err := s.readers.view(ctx, func(c *conn) error {
			var page []candidate
			if err := c.each(candidatesOf(a), func(r *row) error { page = append(page, scanCandidate(r)); return nil }, last, listStep); err != nil {
				return err
			}
			rows = len(page)
			for _, row := range page {
				last = row.seq
				if err := countCandidate(c, &p, lanes, a, &sel, u, row); err != nil {
					return err
				}
			}
			return nil
		})
		looked += rows
		if err != nil || rows < listStep {
			return p, err
		}
	}
}

// maxPreviewTasks bounds the tasks that a preview names.
const maxPreviewTasks = 100

func countCandidate(c *conn, p *store.Preview, lanes map[int64]lane.Key, a store.Action, sel *store.Selection, u store.Uncertainty, at candidate) error {
	k, known := lanes[at.lane]
	if !known {
		if _, err := c.one(sqlLaneKey, func(r *row) error { k = laneKey(r, 0); return nil }, at.lane); err != nil {
			return err
		}
		lanes[at.lane] = k
	}
	if !fits(a, sel, at, k) {
		return nil
	}
	st, err := standingOf(c, at.seq)
	if err != nil {
		return err
	}
	var died time.Time
	if st.status == job.Failed {
		died = st.finished
	}
	// Those with an uncertain effect are counted apart, also where they are left out.
	if a == store.ActionRetry && st.reason == job.ReasonUncertain && (sel.Reason == "" || sel.Reason == job.ReasonUncertain) &&
		allows(a, withReason(sel), store.AcceptUncertain, st.status, st.reason, died) {
		p.Uncertain++
	}
	if !allows(a, sel, u, st.status, st.reason, died) {
		return nil
	}
	p.Jobs++
	if st.reason != "" {
		p.ByReason[st.reason]++
	}
	if t := taskText(k); p.Tasks[t] > 0 || len(p.Tasks) < maxPreviewTasks {
		p.Tasks[t]++
	}
	return nil
}

// withReason is the selection that names uncertain ones.
func withReason(sel *store.Selection) *store.Selection {
	named := *sel
	named.Reason = job.ReasonUncertain
	return &named
}

const sqlLaneKey = "SELECT queue, task, version, endpoint, priority, kind FROM lane WHERE lane=?"

// AddReplay stores one.
func (s *Store) AddReplay(ctx context.Context, r store.Replay) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("a replay: %w", err)
	}
	return s.writer.submit(ctx, len(body), func(t *tx) error {
		open := int64(0)
		if _, err := t.one(sqlReplayOpen, func(row *row) error { open = row.int(0); return nil }); err != nil {
			return err
		}
		if open >= store.MaxReplays {
			return fmt.Errorf("%w: %d replays that are not over; cancel some", store.ErrTooMany, open)
		}
		if _, err := t.exec(sqlReplayNew, r.ID, string(r.State), string(body)); err != nil {
			return err
		}
		if _, err := t.exec(sqlReplaysOld, store.KeptReplays); err != nil {
			return err
		}
		t.replayMoved(&r, r.CreatedBy)
		return nil
	})
}

func decodeReplay(text string) (r store.Replay, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("%w: a replay: %w", ErrDamaged, err)
	}
	return r, nil
}

// Replay returns one.
func (s *Store) Replay(ctx context.Context, id string) (r store.Replay, err error) {
	there := false
	err = s.readers.use(ctx, func(c *conn) error {
		there, err = c.one(sqlReplay, func(row *row) error { r, err = decodeReplay(row.text(0)); return err }, id)
		return err
	})
	if err == nil && !there {
		err = store.ErrNotFound
	}
	return r, err
}

// ListReplays returns the newest first.
func (s *Store) ListReplays(ctx context.Context, limit int, before string) (all []store.Replay, err error) {
	err = s.readers.view(ctx, func(c *conn) error {
		all = nil
		from := int64(math.MaxInt64)
		if before != "" {
			there, err := c.one(sqlReplayN, func(row *row) error { from = row.int(0); return nil }, before)
			if err == nil && !there {
				err = store.ErrNotFound
			}
			if err != nil {
				return err
			}
		}
		return c.each(sqlReplays, func(row *row) error {
			r, err := decodeReplay(row.text(0))
			all = append(all, r)
			return err
		}, from, min(max(limit, 1), store.MaxPage))
	})
	return all, err
}

// RunningReplays returns those that are worked on.
func (s *Store) RunningReplays(ctx context.Context) (all []store.Replay, err error) {
	err = s.readers.use(ctx, func(c *conn) error {
		all = nil
		return c.each(sqlReplaysRun, func(row *row) error {
			r, err := decodeReplay(row.text(0))
			all = append(all, r)
			return err
		}, store.MaxReplays)
	})
	return all, err
}

// replay reads one in the writer.
func (t *tx) replay(id string) (r store.Replay, err error) {
	there, err := t.one(sqlReplay, func(row *row) error { r, err = decodeReplay(row.text(0)); return err }, id)
	if err == nil && !there {
		err = store.ErrNotFound
	}
	return r, err
}

func (t *tx) setReplay(r store.Replay) error {
	body, err := json.Marshal(r)
	if err != nil {
		return t.diverge("a replay: %w", err)
	}
	_, err = t.exec(sqlReplaySet, string(r.State), string(body), r.ID)
	return err
}

// moveReplay puts a replay into a state.
func (t *tx) moveReplay(r *store.Replay, to store.ReplayState, by, why string) {
	r.State, r.Why = to, why
	if to == store.ReplayDone || to == store.ReplayCancelled {
		r.EndedAt = at(t.now)
	}
	t.replayMoved(r, by)
}

// MoveReplay sets the state where the move is legal.
func (s *Store) MoveReplay(ctx context.Context, id string, to store.ReplayState, by, why string) (r store.Replay, err error) {
	err = s.writer.submit(ctx, jobOverhead, func(t *tx) error {
		if r, err = t.replay(id); err != nil {
			return err
		}
		switch {
		case !r.State.MayBecome(to):
			return fmt.Errorf("%w: the replay is %s and can't become %s", store.ErrStatus, r.State, to)
		case r.State == store.ReplayReview && to == store.ReplayRunning:
			r.ApprovedBy = by
		case r.State == store.ReplayStopped && to == store.ReplayRunning:
			r.JudgedFrom, r.JudgedFailed = r.Succeeded+r.FailedAgain, r.FailedAgain
		}
		t.moveReplay(&r, to, by, why)
		return t.setReplay(r)
	})
	return r, err
}

// StepReplay does the next jobs of one that is running.
func (s *Store) StepReplay(ctx context.Context, id string, n int) (r store.Replay, err error) {
	err = s.writer.submit(ctx, jobOverhead*min(n, replayActs), func(t *tx) error {
		if r, err = t.replay(id); err != nil {
			return err
		}
		if r.State != store.ReplayRunning {
			return fmt.Errorf("%w: the replay is %s", store.ErrStatus, r.State)
		}
		if err := t.step(&r, min(n, replayActs)); err != nil {
			return err
		}
		return t.setReplay(r)
	})
	return r, err
}

func (t *tx) step(r *store.Replay, n int) error {
	var page []candidate
	err := t.each(candidatesOf(r.Action), func(row *row) error { page = append(page, scanCandidate(row)); return nil }, r.Cursor, replayRows)
	if err != nil {
		return err
	}
	began, acted := time.Now(), 0
	for _, c := range page {
		if acted >= n || acted > 0 && time.Since(began) > retainWork {
			return nil
		}
		r.Cursor = c.seq
		l := t.w.state.lanes[c.lane]
		if l == nil {
			return t.diverge("job %d is in lane %d, which is not there", c.seq, c.lane)
		}
		if !fits(r.Action, &r.Selection, c, l.key) {
			continue
		}
		h, err := t.findSeq(c.seq, anyTime)
		if err != nil {
			return err
		}
		if !allows(r.Action, &r.Selection, r.Uncertainty, h.status, h.reason, h.died()) {
			continue
		}
		acted++
		switch err := t.act(r, &h); {
		case errors.Is(err, store.ErrStatus):
			r.Skipped++
		case err != nil:
			return err
		default:
			r.Done++
		}
	}
	if len(page) < replayRows {
		t.moveReplay(r, store.ReplayDone, "", "")
	}
	return nil
}

// act does the replay's action to one job. store.ErrStatus says that it can't be
// done, and nothing was.
func (t *tx) act(r *store.Replay, h *found) error {
	by := "replay " + r.ID
	switch r.Action {
	case store.ActionCancel:
		return t.cancel(h, by)
	case store.ActionDelete:
		return t.delete(h, by)
	case store.ActionRetry:
	}
	if err := t.bringBack(h, by, r.Uncertainty); err != nil {
		return err
	}
	t.w.state.brought = true
	_, err := t.exec(sqlBrought, h.seq, r.ID)
	return err
}

// cameBack counts how a job that a replay brought back ended. Where no replay did
// since the store was opened, nothing is looked for.
func (t *tx) cameBack(seq int64, to job.Status) error {
	if !t.w.state.brought {
		return nil
	}
	if err := t.write(); err != nil {
		return err
	}
	id := ""
	if _, err := t.one(sqlBroughtBy, func(row *row) error { id = row.text(0); return nil }, seq); err != nil || id == "" {
		return err
	}
	r, err := t.replay(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil // it is forgotten, as so many came after it
	}
	if err != nil {
		return err
	}
	switch to {
	case job.Succeeded:
		r.Succeeded++
	case job.Failed:
		r.FailedAgain++
	case job.Cancelled:
		r.Withdrawn++
	case job.Queued, job.Running:
		return nil
	}
	ended, failed := r.Succeeded+r.FailedAgain-r.JudgedFrom, r.FailedAgain-r.JudgedFailed
	if r.State == store.ReplayRunning && r.StopShare > 0 && ended >= store.StopAfter && float64(failed) > r.StopShare*float64(ended) {
		t.moveReplay(&r, store.ReplayStopped, "", fmt.Sprintf("%d of %d failed again, more than the share of %v", failed, ended, r.StopShare))
	}
	return t.setReplay(r)
}
