package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// tellLeft warns of jobs that nobody can work: those of queues that neither the
// configuration nor the API names, and messages of sources that the configuration
// has no more. They stay where they are.
func (a *App) tellLeft(c *config.Config, waiting map[string]int64) {
	defined := a.jobs.server.Queues()
	for _, queue := range slices.Sorted(maps.Keys(waiting)) {
		if _, known := defined[queue]; known {
			continue
		}
		name, own := strings.CutPrefix(queue, job.RelayPrefix)
		if !own {
			a.log.Warn("jobs wait in a queue that neither jobs.queues nor the API names: nobody can work them until one does",
				"queue", queue, "jobs", waiting[queue])
			continue
		}
		if sub, events := strings.CutPrefix(queue, store.EventQueue); events {
			if !a.jobs.server.HasSubscription(sub) {
				a.log.Warn("deliveries of events wait for a subscription that is not there any more: they are kept, and made once one has that name",
					"subscription", sub, "queue", queue, "deliveries", waiting[queue])
			}
			continue
		}
		if _, there := c.Source(name); !there {
			a.log.Warn("stored messages wait for a source that is not configured any more: they are kept, and delivered once a source has that name",
				"source", name, "queue", queue, "messages", waiting[queue])
		}
	}
}

// snapshot is the job server's state for a scrape; nil without one.
func (j *Jobs) snapshot() *telemetry.JobState {
	if j == nil {
		return nil
	}
	labels := j.names.labels(slices.Sorted(maps.Keys(j.server.Queues()))) // before what ended is read by them
	t, v := j.server.Totals(), j.store.Vitals()
	s := &telemetry.JobState{
		Created: t.Created, Found: t.Found, Claimed: t.Claimed, LeaseLost: t.LeaseLost, Invalid: t.Invalid, Graced: t.Graced,
		Ended: map[job.Outcome]int64{
			job.OutcomeSucceeded: t.Succeeded, job.OutcomeFailed: t.Failed, job.OutcomeReleased: t.Released,
			job.OutcomeTimedOut: t.TimedOut, job.OutcomeLost: t.Lost, job.OutcomeUnreceived: t.Unreceived,
		},
		Cancelled: t.Cancelled, Retried: t.Retried, Deleted: t.Deleted, Delivered: t.Delivered, Undelivered: t.DeliveriesFailed,
		Delay: t.Delay, Run: t.Run, Finished: j.ends.read(), Circuits: map[circuit.State]int64{},
		Parked: v.Parked, Bytes: v.Bytes, WALBytes: v.WALBytes, CommitTimes: v.CommitTimes, CommitSizes: v.CommitSizes,
		Lanes: v.Lanes,
	}
	counts := map[string]map[job.Status]int64{}
	for name := range labels {
		counts[name] = map[job.Status]int64{}
	}
	// Where the store can't be read the counts are left out; readyz says why.
	lanes, err := j.store.Counts(context.Background())
	if err != nil {
		return s
	}
	for _, l := range lanes {
		name := j.names.label(l.Lane.Queue)
		n := counts[name]
		if n == nil {
			n = map[job.Status]int64{}
			counts[name] = n
		}
		n[job.Queued] += l.Ready
		n[job.Running] += l.Running
		n[job.Succeeded] += l.Succeeded
		n[job.Failed] += l.Failed
		n[job.Cancelled] += l.Cancelled
	}
	for name, n := range counts {
		s.Queues = append(s.Queues, telemetry.QueueState{Name: name, Jobs: n})
	}
	j.addWaits(s)
	return s
}

// addWaits adds how long due jobs wait and which circuits are not closed, as far
// as the store can be read.
func (j *Jobs) addWaits(s *telemetry.JobState) {
	if oldest, err := j.server.OldestDue(context.Background()); err == nil {
		for name, d := range oldest {
			s.Queues = append(s.Queues, telemetry.QueueState{Name: j.names.label(name), Oldest: d})
		}
	}
	if open, err := j.server.OpenCircuits(context.Background()); err == nil {
		for _, c := range open {
			s.Circuits[c.State]++
		}
	}
}

// status is how the job server stands.
func (j *Jobs) status(ctx context.Context, c *config.Config) (s adminapi.JobsStatus, err error) {
	if s.Queues, err = j.queues(ctx, c); err != nil {
		return s, err
	}
	open, err := j.server.OpenCircuits(ctx)
	if err != nil {
		return s, err
	}
	if n := len(open) - adminapi.MaxCircuits; n > 0 {
		s.CircuitsLeft, open = n, open[:adminapi.MaxCircuits]
	}
	for _, o := range open {
		s.Circuits = append(s.Circuits, adminapi.CircuitStatus{Endpoint: o.Endpoint, State: string(o.State),
			OpenedAt: o.OpenedAt, RetryAt: o.RetryAt, HeldUntil: o.HeldUntil})
	}
	return s, nil
}

// queues is how the queues stand that the configuration names, the relay's own
// of stored sources included, and every other that has jobs.
func (j *Jobs) queues(ctx context.Context, c *config.Config) ([]adminapi.QueueStatus, error) {
	lanes, err := j.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	gates, err := j.store.Paused(ctx)
	if err != nil {
		return nil, err
	}
	by := map[string]*adminapi.QueueStatus{}
	queue := func(name string) *adminapi.QueueStatus {
		if by[name] == nil {
			by[name] = &adminapi.QueueStatus{Name: name}
		}
		return by[name]
	}
	for name := range configuredQueues(c) {
		queue(name)
	}
	for _, l := range lanes {
		if l.Ready+l.Running+l.Failed == 0 && by[l.Lane.Queue] == nil {
			continue
		}
		q := queue(l.Lane.Queue)
		q.Queued += l.Ready
		q.Running += l.Running
		q.Failed += l.Failed
	}
	for _, g := range gates {
		if g.Gate.Kind == lane.QueueGate {
			queue(g.Gate.Name).Paused = &adminapi.Pull{By: g.By, Since: g.Since}
		}
	}
	defined := j.server.Queues()
	all := make([]adminapi.QueueStatus, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		_, known := defined[name]
		by[name].Undefined = !known && !job.OfRelay(name)
		all = append(all, *by[name])
	}
	return all, nil
}

// waiting counts the jobs of each queue that are not finished; queues without
// any are left out.
func (j *Jobs) waiting(ctx context.Context) (map[string]int64, error) {
	all, err := j.store.Counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("jobs: counting: %w", err)
	}
	n := map[string]int64{}
	for _, l := range all {
		if open := l.Ready + l.Running; open > 0 {
			n[l.Lane.Queue] += open
		}
	}
	return n, nil
}
