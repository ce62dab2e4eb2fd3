package jobserver

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// Want is what a worker asks for.
type Want struct {
	// By is whose key it is. Another key's claim with the same Worker and ClaimID
	// is another claim. That it sees the queues is checked before.
	By Principal
	// Worker is MinWorker to MaxName characters of a name. ClaimID makes a
	// repeat of the claim return the same leases; "" for none.
	Worker, ClaimID string
	Queues          []string    // 1 to MaxQueues; one that is there twice counts once
	Tasks           []lane.Task // up to MaxTasks; empty is every task
	Max             int         // 1 to MaxBatch
	Wait            time.Duration
	// Room is asked for so many jobs, and the bytes of their contents, before those are read;
	// its error gives the jobs back. nil has room for all.
	Room func(ctx context.Context, jobs, bytes int) error
}

// Claim takes due jobs under leases, MaxAnswer bytes of content at most. Where
// there are none it waits for some, up to w.Wait, and returns an empty Claim
// after it. A claim whose ctx ends before its commit takes nothing.
//
// Errors: *InvalidError tells everything that is wrong; the rest are the
// store's, and ctx.Err().
func (s *Server) Claim(ctx context.Context, w Want) (store.Claim, error) {
	now := s.settings.Load()
	var c checker
	if bad := badWorker(w.Worker); bad != "" {
		c.add("/worker", "%s", bad)
	}
	if bad := badKey(w.ClaimID); bad != "" {
		c.add("/claim_id", "%s", bad)
	}
	queues := c.queues(now, w)
	c.tasks(w.Tasks)
	if w.Max < 1 || w.Max > MaxBatch {
		c.add("/max", "must be from 1 to %d, not %d", MaxBatch, w.Max)
	}
	if w.Wait < 0 || w.Wait > MaxClaimWait {
		c.add("/wait", "must be from 0s to %s, not %s", duration.Text(MaxClaimWait), duration.Text(w.Wait))
	}
	if err := c.err(); err != nil {
		return store.Claim{}, err
	}
	s.workers.claims(w.Worker, w.Queues, w.Tasks, s.store.Now())
	got, err := s.store.Claim(ctx, store.Want{
		Caller: w.By.ID, Worker: w.Worker, ClaimID: w.ClaimID, Queues: queues, Tasks: w.Tasks, Max: w.Max, MaxBytes: MaxAnswer,
		Wait: w.Wait, Room: w.Room,
	})
	s.claimed(w.Worker, got)
	return got, err
}

// claimed counts what a worker got, and says what trace each goes on from.
func (s *Server) claimed(worker string, got store.Claim) {
	s.totals.claimed.Add(int64(len(got.Jobs)))
	now := got.Now
	if now.IsZero() {
		now = s.store.Now()
	}
	s.workers.heard(worker, now)
	s.runs.begin(got.Jobs, now)
	for i := range got.Jobs {
		j := got.Jobs[i].Job
		if got.Jobs[i].Trace = j.Trace; s.trace != nil {
			got.Jobs[i].Trace = s.trace.Attempt(j)
		}
		s.totals.delay.ObserveTime(now.Sub(j.RunAt))
		if j.Policy.Output != (job.SchemaHash{}) {
			s.contracts.Store(true)
		}
	}
}

// queues checks the queues of a claim and returns each once with its lease.
func (c *checker) queues(now *settings, w Want) []store.QueueLease {
	names := w.Queues
	if len(names) == 0 || len(names) > MaxQueues {
		c.add("/queues", "must hold from 1 to %d queues, not %d", MaxQueues, len(names))
		return nil
	}
	leases := make([]store.QueueLease, 0, len(names))
	for i, name := range names {
		q, bad := now.find(name, w.By)
		if bad != "" {
			c.add("/queues/"+strconv.Itoa(i), "%s", bad)
			continue
		}
		if !slices.Contains(names[:i], name) {
			leases = append(leases, store.QueueLease{Queue: name, Lease: q.Lease})
		}
	}
	return leases
}

func (c *checker) tasks(tasks []lane.Task) {
	if len(tasks) > MaxTasks {
		c.add("/tasks", "holds %d tasks; at most %d are allowed", len(tasks), MaxTasks)
		return
	}
	for i, t := range tasks {
		if bad := job.BadName(t.Name); bad != "" {
			c.add("/tasks/"+strconv.Itoa(i), "the name %s", bad)
		}
		if t.Version == "" {
			continue
		}
		if bad := job.BadName(t.Version); bad != "" {
			c.add("/tasks/"+strconv.Itoa(i), "the version %s", bad)
		}
	}
}
