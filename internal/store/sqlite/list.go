package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// The bounds of one page's work: no read transaction lasts over 100 ms.
const (
	listStep  = 1000                  // rows that one statement looks at
	listRows  = 10_000                // rows that one page looks at
	listTime  = 50 * time.Millisecond // when the page ends though it is short
	listBytes = 8 << 20               // of contents and results, as much as a claim's answer
	listLanes = 5000                  // lanes that are looked at beforehand; of more, each when it is met
)

// Each looks at the next rows down from a seq; where the page is about one
// status, at the rows of that status alone.
const (
	sqlListJobs   = `SELECT seq, lane, created_at, tags FROM job WHERE seq < ? ORDER BY seq DESC LIMIT +?`
	sqlListFailed = `SELECT j.seq, j.lane, j.created_at, j.tags FROM attempt a CROSS JOIN job j ON j.seq = a.seq
		WHERE a.seq < ? AND a."end" = 'failed' ORDER BY a.seq DESC LIMIT +?`
	sqlListRunning = `SELECT j.seq, j.lane, j.created_at, j.tags FROM running r CROSS JOIN job j ON j.seq = r.seq
		WHERE r.seq < ? ORDER BY r.seq DESC LIMIT +?`
	// The lanes that a filter may let through, with how many jobs each has.
	selectLanes = `SELECT l.lane, l.queue, l.task, l.endpoint, t.ready, t.running, t.succeeded, t.failed, t.cancelled
		FROM lane l CROSS JOIN tally t ON t.lane = l.lane`
	sqlListLanes   = selectLanes + ` ORDER BY l.lane LIMIT +?`
	sqlListLanesOf = selectLanes + ` WHERE l.queue = ? LIMIT +?`
	sqlListLane    = selectLanes + ` WHERE l.lane = ?`
	// seq grows with created_at: a time is found by halving.
	sqlListNext = `SELECT seq, created_at FROM job WHERE seq >= ? ORDER BY seq LIMIT 1`
	sqlListLast = `SELECT max(seq) FROM job`
)

// List returns jobs without their attempts, newest first.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	before := int64(1<<63 - 1)
	if f.Cursor != "" {
		var err error
		if before, err = s.cursors.read(f.Cursor, f); err != nil {
			return store.Page{}, err
		}
	}
	f.Limit = min(max(f.Limit, 1), store.MaxPage)
	l := lister{store: s, filter: f, began: time.Now()}
	err := s.readers.view(ctx, func(c *conn) error {
		l.conn = c
		return l.page(ctx, before)
	})
	if err != nil {
		return store.Page{}, err
	}
	p := store.Page{Jobs: l.jobs}
	if !l.end {
		p.Next = s.cursors.make(l.at, f)
	}
	return p, nil
}

// lister makes one page.
type lister struct {
	store  *Store
	filter store.Filter
	conn   *conn
	began  time.Time
	lanes  map[int64]bool // whether the filter lets a lane through, where known
	known  bool           // of every lane
	jobs   []*job.Job
	bytes  int
	rows   int
	at     int64 // the last seq that was looked at
	end    bool  // nothing follows
}

// status is the one that the filter is about; a reason is a dead letter's.
func (l *lister) status() job.Status {
	if l.filter.Reason != "" {
		return job.Failed
	}
	return l.filter.Status
}

func (l *lister) page(ctx context.Context, before int64) error {
	if l.filter.Reason != "" && l.filter.Status != "" && l.filter.Status != job.Failed {
		l.end = true
		return nil
	}
	if err := l.findLanes(); err != nil || l.end {
		return err
	}
	if !l.filter.CreatedBefore.IsZero() {
		seq, err := l.firstSince(l.filter.CreatedBefore)
		if err != nil {
			return err
		}
		before = min(before, seq)
	}
	l.at = before
	var rows []listed
	for {
		var err error
		if rows, err = l.step(rows[:0]); err != nil {
			return err
		}
		for _, r := range rows {
			if l.spent(ctx) {
				return ctx.Err()
			}
			if err := l.look(r); err != nil || l.end {
				return err
			}
			l.at = r.seq
		}
		if len(rows) < listStep {
			l.end = true
			return nil
		}
	}
}

// spent reports whether the page ends here. On however slow a machine, each page
// looks at one row: the next one begins behind it, so a list comes to its end.
func (l *lister) spent(ctx context.Context) bool {
	return len(l.jobs) >= l.filter.Limit || l.bytes >= listBytes || l.rows >= listRows ||
		l.rows > 0 && time.Since(l.began) > listTime || ctx.Err() != nil
}

// listed is a row as far as a filter looks at it before the job is read.
type listed struct {
	seq, lane, created int64
	tags               string
}

func (l *lister) step(rows []listed) ([]listed, error) {
	text := sqlListJobs
	switch l.status() {
	case job.Failed:
		text = sqlListFailed
	case job.Running:
		text = sqlListRunning
	case job.Queued, job.Succeeded, job.Cancelled: // no table is theirs alone
	}
	err := l.conn.each(text, func(r *row) error {
		rows = append(rows, listed{r.int(0), r.int(1), r.int(2), r.text(3)})
		return nil
	}, l.at, listStep)
	return rows, err
}

// look takes the job of a row into the page if the filter lets it through.
func (l *lister) look(r listed) error {
	l.rows++
	f := l.filter
	if !f.CreatedAfter.IsZero() && at(r.created).Before(f.CreatedAfter) {
		l.end = true // those that follow are older still
		return nil
	}
	if through, err := l.wantsLane(r.lane); err != nil || !through {
		return err
	}
	if f.Tag != "" {
		tags, err := decodeTags(r.tags)
		if err != nil {
			return err
		}
		if !slices.Contains(tags, f.Tag) {
			return nil
		}
	}
	st, err := standingOf(l.conn, r.seq)
	if err != nil {
		return err
	}
	if f.Status != "" && st.status != f.Status || f.Reason != "" && st.reason != f.Reason {
		return nil
	}
	_, err = l.conn.one(sqlJob, func(row *row) error {
		j, err := l.store.scanJob(row)
		if err != nil {
			return err
		}
		st.apply(j)
		l.jobs = append(l.jobs, j)
		l.bytes += j.Content.Size() + len(j.Result)
		if e := j.LastError; e != nil {
			l.bytes += len(e.Message) + len(e.Stack)
		}
		return nil
	}, r.seq)
	return err
}

// findLanes looks at the lanes beforehand. Where none has a job that the filter
// can let through, the list is at its end, however many jobs there are of others.
func (l *lister) findLanes() error {
	l.lanes = make(map[int64]bool)
	text, args := sqlListLanes, []any{listLanes + 1}
	if l.filter.Queue != "" {
		text, args = sqlListLanesOf, []any{l.filter.Queue, listLanes + 1}
	}
	rows, some := 0, false
	if err := l.conn.each(text, func(r *row) error {
		rows++
		l.lanes[r.int(0)] = l.fits(r)
		some = some || l.fits(r)
		return nil
	}, args...); err != nil {
		return err
	}
	l.known = rows <= listLanes
	l.end = l.known && !some
	return nil
}

// fits reports whether the lane of a row of selectLanes can have jobs that the
// filter lets through.
func (l *lister) fits(r *row) bool {
	f := l.filter
	if f.Queue != "" && r.text(1) != f.Queue || f.Task != "" && r.text(2) != f.Task || f.Endpoint != "" && r.text(3) != f.Endpoint {
		return false
	}
	switch l.status() {
	case job.Queued:
		return r.int(4) > 0
	case job.Running:
		return r.int(5) > 0
	case job.Succeeded:
		return r.int(6) > 0
	case job.Failed:
		return r.int(7) > 0
	case job.Cancelled:
		return r.int(8) > 0
	default:
		return true
	}
}

// wantsLane reports whether the filter lets a lane through.
func (l *lister) wantsLane(id int64) (bool, error) {
	through, ok := l.lanes[id]
	if ok || l.known {
		return through, nil
	}
	_, err := l.conn.one(sqlListLane, func(r *row) error { through = l.fits(r); return nil }, id)
	l.lanes[id] = through
	return through, err
}

// firstSince is the first seq made at the time or after it; where there is none,
// one that no job has yet.
func (l *lister) firstSince(t time.Time) (int64, error) {
	var high int64
	if _, err := l.conn.one(sqlListLast, func(r *row) error { high = r.int(0) + 1; return nil }); err != nil {
		return 0, err
	}
	low := int64(0) // the answer is in (low, high]
	for low+1 < high {
		middle := low + (high-low)/2
		later := true
		if _, err := l.conn.one(sqlListNext, func(r *row) error {
			later = !at(r.int(1)).Before(t)
			return nil
		}, middle); err != nil {
			return 0, err
		}
		if later {
			high = middle
		} else {
			low = middle
		}
	}
	return high, nil
}
