package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// claimed makes the jobs of a claim, after its commit. What the writer knows of
// them is not read again.
func (s *Store) claimed(ctx context.Context, c *claim) ([]store.Claimed, error) {
	all := make([]store.Claimed, len(c.got))
	var first, again []*readJob
	for i := range c.got {
		g := &c.got[i]
		j := g.job()
		all[i] = store.Claimed{
			Job: j, Lease: s.tokens.Make(g.seq, g.attempt), LeaseFor: time.Duration(g.length) * time.Millisecond,
			LeaseUntil: at(g.until), Deadline: at(g.deadline),
		}
		switch {
		case g.made.job != nil:
			g.made.carry(s.ids, g.seq, j)
		case g.attempt == 1:
			first = append(first, &readJob{seq: g.seq, job: j})
		default:
			again = append(again, &readJob{seq: g.seq, job: j})
		}
	}
	// The caller may be gone by now; what it has claimed is read all the same, or
	// given back.
	ctx = context.WithoutCancel(ctx)
	if err := s.readContents(ctx, sqlContents, first); err != nil {
		return nil, err
	}
	if err := s.readContents(ctx, sqlContentsErrors, again); err != nil {
		return nil, err
	}
	return all, nil
}

// job is what the writer knows of the job.
func (g *granted) job() *job.Job {
	k := g.lane
	return &job.Job{
		Queue: k.Queue, Task: k.Task, Version: k.Version, Endpoint: k.Endpoint, Priority: k.Priority, Kind: job.Kind(kindColumn(k)),
		Policy: *g.policy, Timeout: time.Duration(g.timeout) * time.Millisecond,
		Status: job.Running, Attempt: g.attempt, Counts: g.counts, RunAt: at(g.runAt),
	}
}

// carry puts on a job what it carries.
func (m createdJob) carry(ids job.IDs, seq int64, j *job.Job) {
	n := m.job
	j.ID, j.CreatedAt = ids.Make(at(m.at), seq), at(m.at)
	j.Content, j.Tags, j.Trace, j.Unique = n.Content, n.Tags, n.Trace, n.Unique
}

// contentChunk is how many jobs one statement of contents reads.
const contentChunk = 32

const (
	contentColumns = "SELECT j.seq, j.created_at, j.trace, j.tags, j.head, j.payload, j.uniq"
	lastError      = ", (SELECT a.error FROM attempt a WHERE a.seq = j.seq AND a.error IS NOT NULL ORDER BY a.number DESC LIMIT 1)"
)

var (
	ofChunk           = " FROM job j WHERE j.seq IN (" + strings.Repeat("?, ", contentChunk-1) + "?)"
	sqlContents       = contentColumns + ofChunk
	sqlContentsErrors = contentColumns + lastError + ofChunk // for jobs that had an attempt before
)

// readJob is a job that lacks what its row has.
type readJob struct {
	seq  int64
	job  *job.Job
	read bool
}

// readContents puts on jobs what they carry, and their last error. Each chunk is a
// read of its own: what they read does not change.
func (s *Store) readContents(ctx context.Context, text string, jobs []*readJob) error {
	for chunk := range slices.Chunk(jobs, contentChunk) {
		args := make([]any, contentChunk) // NULL matches nothing
		for i, j := range chunk {
			args[i] = j.seq
		}
		err := s.readers.use(ctx, func(c *conn) error {
			return c.each(text, func(r *row) error {
				seq := r.int(0)
				j := chunk[slices.IndexFunc(chunk, func(j *readJob) bool { return j.seq == seq })]
				j.read = true
				return s.scanContent(r, j.job)
			}, args...)
		})
		if err != nil {
			return err
		}
		for _, j := range chunk {
			if !j.read {
				return fmt.Errorf("%w: job %d has no row", ErrDamaged, j.seq)
			}
		}
	}
	return nil
}

func (s *Store) scanContent(r *row, j *job.Job) (err error) {
	j.CreatedAt = at(r.int(1))
	j.ID = s.ids.Make(j.CreatedAt, r.int(0))
	j.Trace, j.Unique = job.Trace(r.text(2)), r.text(6)
	j.Content = job.Content{Head: r.blob(4), Payload: r.blob(5)}
	if j.Tags, err = decodeTags(r.text(3)); err != nil {
		return fmt.Errorf("%s: %w", j.ID, err)
	}
	if len(r.values) > 7 && r.set(7) {
		err = decodeError(r.text(7), &j.LastError)
		// What a claim's answer may hold does not count errors: of 1,000 jobs the
		// stacks alone are four times as much.
		j.LastError.Stack = ""
	}
	return err
}

// unreadRest is how long jobs rest that could not be read: who claims them at once
// meets the same trouble, and what can be read comes first meanwhile.
const unreadRest = time.Second

// Why a job was given back, as its attempt tells it.
const (
	noteUnread = "the store could not read its content"
	noteNoRoom = "there was no room to read its content"
)

// giveBack hands back what a claim got and could not read, as far as nobody else
// has its tokens: a claim of the same id may have been answered with the leases,
// before or since. Those of a claim that nobody heard of lapse by themselves.
// The note tells it in the attempt.
func (s *Store) giveBack(ctx context.Context, c *claim, why error, note string) error {
	err := s.writer.submit(context.WithoutCancel(ctx), 0, func(t *tx) error {
		for _, g := range c.got {
			l := t.w.state.running[g.seq]
			if l == nil || l.attempt != g.attempt || l.repeated || l.heardAt != 0 {
				continue
			}
			x := t.unlessCancelled(l, job.DecideRelease(t.runOf(l), unreadRest, at(t.now)))
			if _, err := t.apply(l, x, ending{note: note}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: what was claimed could not be read: %w", store.ErrUnknown, errors.Join(why, err))
	}
	return fmt.Errorf("what was claimed could not be read: %w", why)
}
