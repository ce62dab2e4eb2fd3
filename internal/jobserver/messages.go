package jobserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

// relayTask is the task of a message that is put without one.
const relayTask = "message"

// relayQueue is what each queue of the relay is like, relay:<source>: it is
// there without being named, and its jobs are given up by nobody lightly. The
// project's policy has no say in it.
//
// Such a job is a message that somebody was told is safe. What decides about it
// is the relay's own policy: how often a destination is tried, what its
// fallbacks are, and where its dead letters go. The job's attempts count only
// the passes in which a destination was tried and then a long wait came. Fifty
// of them, the most that a policy can say, at waits that grow from ten seconds to
// an hour are almost two days of a destination that is down. In the last of them
// the relay makes every wait itself, so that the message ends as its policies
// say: delivered, or a dead letter. One whose last attempt times out stays as a
// dead letter of the queue, and is not lost then either.
//
// The timeout is the longest there is: the relay's deadlines end a delivery,
// and it keeps its lease alive meanwhile.
func relayQueue() Queue {
	return Queue{Lease: DefaultLease, Timeout: MaxTimeout, Retry: job.Overlay{
		MaxAttempts: new(job.MaxAttempts), Initial: new(10 * time.Second), Factor: new(2.0), MaxDelay: new(time.Hour), Jitter: new(0.25),
	}}
}

// messages is the store as the relay uses it.
type messages struct{ s *Server }

// Messages returns the relay's way into the queues: those that the
// configuration names and the relay's own, relay:<source>.
//
// Workers of the relay have names that begin with job.RelayPrefix, so that their
// leases end with this process: the store gives them back, uncharged, when it
// is opened again.
func (s *Server) Messages() connector.Queues { return messages{s} }

// queue returns the queue of a name, the relay's own and those that are leaving
// too.
func (m messages) queue(name string) (*queue, error) {
	now := m.s.settings.Load()
	if job.OfRelay(name) && job.BadName(name) == "" {
		return now.relay, nil
	}
	q, bad := now.find(name, Principal{})
	if leaving := now.leaving[name]; bad != "" && leaving != nil {
		return leaving, nil
	}
	if bad != "" {
		return nil, fmt.Errorf("%w: %s", connector.ErrNoQueue, bad)
	}
	return q, nil
}

// Put stores the message as a job. Its content, to tell a repeat from another
// message with its key, is its body.
func (m messages) Put(ctx context.Context, p connector.Put) (connector.Kept, error) {
	q, err := m.queue(p.Queue)
	if err != nil {
		return connector.Kept{}, err
	}
	asked := store.NewJob{
		Queue: p.Queue, Task: p.Task, Version: p.Version, Priority: p.Priority,
		Content: job.Content{Payload: p.Message.Body, Head: message.AppendHead(nil, p.Message)},
		Trace:   traceOf(ctx, p.Message), Policy: q.policy, Timeout: q.Timeout,
	}
	if asked.Task == "" {
		asked.Task = relayTask
	}
	if asked.Version == "" {
		asked.Version = defaultVersion
	}
	var c checker
	for _, n := range []struct{ pointer, bad string }{{"/task", job.BadName(asked.Task)}, {"/version", job.BadName(asked.Version)}} {
		if n.bad != "" {
			c.add(n.pointer, "%s", n.bad)
		}
	}
	if p.Priority < -job.MaxPriority || p.Priority > job.MaxPriority {
		c.add("/priority", "must be from -%d to %d, not %d", job.MaxPriority, job.MaxPriority, p.Priority)
	}
	if err := c.err(); err != nil {
		return connector.Kept{}, err
	}
	if size := asked.Content.Size(); size > MaxMessage {
		return connector.Kept{}, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", connector.ErrTooLarge, size, MaxMessage)
	}
	if p.Key != "" {
		asked.Key, asked.Hash = relayKeys.key(p.Key), hashBody(p.Message.Body)
	}
	stored, err := m.s.store.Create(ctx, []store.NewJob{asked})
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		return connector.Kept{}, fmt.Errorf("%w: %s has it", connector.ErrKeyConflict, conflict.ID)
	}
	if err != nil {
		return connector.Kept{}, err
	}
	if stored[0].Found {
		m.s.totals.found.Add(1)
	} else {
		m.s.totals.created.Add(1)
		m.tellLeft(p.Queue, q, stored[0].ID)
	}
	return connector.Kept{Job: stored[0].ID, Found: stored[0].Found}, nil
}

// tellLeft tells once of a queue that is leaving and got a job all the same:
// those that waited there when it left were told of, this one came later.
func (m messages) tellLeft(name string, q *queue, id string) {
	if m.s.settings.Load().leaving[name] == q && q.left.CompareAndSwap(false, true) {
		m.s.log.Warn("a message of an earlier configuration is now a job in a queue that jobs.queues does not name any more: nobody can work it until it does",
			"queue", name, "job", id)
	}
}

// Take waits for messages. The longest timeout stands in the place of each job's
// own: the relay's deadlines end a delivery, and a job that was given up while its
// message was in hand would be a dead letter of a message that then arrives.
//
// One that can't be read, because a newer pawl wrote it
// or because it is damaged, becomes a dead letter of its queue: handed back it
// would come again and again.
func (m messages) Take(ctx context.Context, t connector.Take) ([]connector.Taken, error) {
	for {
		q, err := m.queue(t.Queue) // each time: the configuration may have changed
		if err != nil {
			return nil, err
		}
		worker := relayWorker(t.Worker)
		got, err := m.s.store.Claim(ctx, store.Want{
			Caller: worker, Worker: worker, Timeout: MaxTimeout, Queues: []store.QueueLease{{Queue: t.Queue, Lease: q.Lease}}, Tasks: t.Tasks,
			Max: min(max(t.Max, 1), MaxBatch), MaxBytes: MaxAnswer, Wait: MaxClaimWait,
		})
		if ctx.Err() != nil && len(got.Jobs) == 0 {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		m.s.totals.claimed.Add(int64(len(got.Jobs)))
		taken := make([]connector.Taken, 0, len(got.Jobs))
		for _, c := range got.Jobs {
			msg, err := messageOf(c.Job)
			if err != nil {
				m.bury(ctx, c, err)
				continue
			}
			taken = append(taken, connector.Taken{
				Message: msg, Job: c.Job.ID, Attempt: c.Job.Attempt,
				Left: c.Job.Policy.MaxAttempts - c.Job.Counts.Charged, Lease: c.Lease, LeaseFor: c.LeaseFor,
			})
		}
		if len(taken) > 0 {
			return taken, nil
		}
	}
}

// relayWorker returns the name of a worker with job.RelayPrefix, once.
func relayWorker(name string) string {
	return job.RelayPrefix + strings.TrimPrefix(name, job.RelayPrefix)
}

// messageOf returns the message that a job carries. A job that the API made has
// no source: who takes it gives it its own.
func messageOf(j *job.Job) (*message.Message, error) {
	if j.Content.Head != nil {
		m, err := message.DecodeHead(j.Content.Head, j.Content.Payload)
		if err == nil {
			putTrace(m, j.Trace)
		}
		return m, err
	}
	m := &message.Message{ID: j.ID, Time: j.CreatedAt, ContentType: "application/json", Body: j.Content.Payload}
	putTrace(m, j.Trace)
	return m, nil
}

// bury ends the job of a message that can't be read. Where that fails too, the
// lease ends by itself and the job comes again.
func (m messages) bury(ctx context.Context, c store.Claimed, why error) {
	r := store.Report{Type: store.Fail, Lease: c.Lease, Error: &job.Error{Type: "unreadable", Message: why.Error()}, Failure: job.Failure{Permanent: true}}
	log := m.s.log.With("job", c.Job.ID, "queue", c.Job.Queue, "error", why)
	switch status, err := m.report(ctx, r); {
	case err != nil:
		log.Error("a message can't be read, and its job could not be made a dead letter: it comes again when its lease ends", "report_error", err)
	case status == store.LeaseLost:
		log.Error("a message can't be read, and the lease of its job is over: it comes again")
	default:
		log.Error("a message can't be read, its job is a dead letter now")
	}
}

// Extend lengthens leases, in as few calls of the store as there can be.
func (m messages) Extend(ctx context.Context, leases []string) (lost []string, err error) {
	for len(leases) > 0 {
		some := leases[:min(len(leases), MaxBatch)]
		leases = leases[len(some):]
		reports := make([]store.Report, len(some))
		for i, lease := range some {
			reports[i] = store.Report{Type: store.Heartbeat, Lease: lease}
		}
		answers, err := m.s.store.Report(ctx, reports)
		if err != nil {
			return lost, err
		}
		for i, a := range answers {
			if a.Status == store.LeaseLost {
				lost = append(lost, some[i])
				m.s.totals.leaseLost.Add(1)
			}
		}
	}
	return lost, nil
}

// Settle ends a lease. The same ending again, of a lease that it has ended
// already, is no error.
func (m messages) Settle(ctx context.Context, lease string, e connector.Ending) error {
	r := store.Report{Lease: lease}
	switch e.How {
	case connector.Done:
		r.Type = store.Complete
		if e.As != "" { // a closed set of plain words
			r.Result = []byte(`{"status":"` + string(e.As) + `"}`)
		}
	case connector.Again:
		r.Type = store.Fail
		r.Error = &job.Error{Type: "deferred", Message: e.Error}
		if e.After > 0 {
			r.Failure.RetryIn = &e.After
		}
	case connector.Back:
		r.Type, r.After = store.Release, max(e.After, 0)
	default:
		return fmt.Errorf("unknown way %q to end a lease", e.How)
	}
	status, err := m.report(ctx, r)
	if err != nil {
		return err
	}
	if status == store.LeaseLost {
		return connector.ErrLeaseLost
	}
	return nil
}

// report hands one report to the store, and counts it.
func (m messages) report(ctx context.Context, r store.Report) (store.AnswerStatus, error) {
	status, err := m.s.reportOne(ctx, r)
	if err == nil {
		m.s.totals.answered(r.Type, status)
	}
	return status, err
}

func (s *Server) reportOne(ctx context.Context, r store.Report) (store.AnswerStatus, error) {
	if wrong := prepare(&r); wrong != "" {
		return "", errors.New(wrong)
	}
	answers, err := s.store.Report(ctx, []store.Report{r})
	if err != nil {
		return "", err
	}
	return answers[0].Status, nil
}
