package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// claimed makes the jobs of a claim, after its commit.
func (s *Store) claimed(ctx context.Context, c *claim) ([]store.Claimed, error) {
	var read []int64
	for i := range c.got {
		if c.got[i].made.job == nil {
			read = append(read, c.got[i].seq)
		}
	}
	var found map[int64]*job.Job
	if len(read) > 0 {
		var err error
		// The caller may be gone by now; what it has claimed is read all the
		// same, or given back.
		if found, err = s.contents(context.WithoutCancel(ctx), read); err != nil {
			return nil, err
		}
	}
	jobs := make([]store.Claimed, len(c.got))
	for i := range c.got {
		g := &c.got[i]
		j := found[g.seq]
		if g.made.job != nil {
			j = g.made.reading(s.ids, g)
		}
		if j == nil {
			return nil, fmt.Errorf("%w: job %d has no row", ErrDamaged, g.seq)
		}
		j.Status, j.Attempt, j.Counts, j.RunAt = job.Running, g.attempt, g.counts, at(g.runAt)
		jobs[i] = store.Claimed{
			Job: j, Lease: s.tokens.Make(g.seq, g.attempt), LeaseFor: time.Duration(g.length) * time.Millisecond,
			LeaseUntil: at(g.until), Deadline: at(g.deadline),
		}
	}
	return jobs, nil
}

// reading is the job as a read would return it.
func (m createdJob) reading(ids job.IDs, g *granted) *job.Job {
	n := m.job
	return &job.Job{
		ID: ids.Make(at(m.at), g.seq), Queue: n.Queue, Task: n.Task, Version: n.Version, Endpoint: n.Endpoint, Priority: n.Priority,
		Content: n.Content, Tags: n.Tags, Trace: n.Trace, Policy: *g.policy, Timeout: time.Duration(g.timeout) * time.Millisecond,
		Kind: n.Kind, Unique: n.Unique, CreatedAt: at(m.at),
	}
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
