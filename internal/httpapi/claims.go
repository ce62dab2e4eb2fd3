package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// What a claim gets that does not say.
const (
	// DefaultWait is shorter than the half minute after which proxies and
	// clients often give up.
	DefaultWait = 20 * time.Second
	// defaultMax is one job: who works several at once says how many.
	defaultMax = 1
)

var claimMembers = []string{"worker", "queues", "tasks", "max", "wait", "claim_id"}

func readClaim(r *wirejson.Reader) jobserver.Want {
	w := jobserver.Want{Max: defaultMax, Wait: DefaultWait}
	r.Object(claimMembers, func(member string) {
		switch member {
		case "worker":
			w.Worker = r.Text()
		case "queues":
			r.Array(jobserver.MaxQueues, "queues", func(int) { w.Queues = append(w.Queues, r.Text()) })
		case "tasks":
			r.Choice(jobserver.MaxTasks, "tasks", func(int) { w.Tasks = append(w.Tasks, readTask(r)) })
		case "max":
			w.Max = int(r.Int(1, jobserver.MaxBatch))
		case "wait":
			if d := r.Duration(); d != nil {
				w.Wait = *d
			}
		case "claim_id":
			w.ClaimID = said(r)
		}
	})
	return w
}

// readTask reads name or name@version.
func readTask(r *wirejson.Reader) lane.Task {
	name, version, versioned := strings.Cut(r.Text(), "@")
	if versioned && version == "" {
		r.Wrong("has no version after @; the name alone is every version")
	}
	return lane.Task{Name: name, Version: version}
}

// claim gives a worker jobs under leases.
func (a *api) claim(q *request) error {
	var w jobserver.Want
	if err := q.read(wirejson.Refuse, func(r *wirejson.Reader) { w = readClaim(r) }); err != nil {
		return err
	}
	if err := q.sees(w.Queues...); err != nil {
		return err
	}
	if a.stopping.Err() != nil {
		return errStopping
	}
	w.By = q.who
	asked := q.hold.bytes
	w.Room = func(ctx context.Context, jobs, bytes int) error { // of the jobs, and of their JSON
		return q.hold.grow(ctx, asked+2*int64(bytes)+jobMembers*int64(jobs))
	}
	ctx, end := a.polling(q, min(w.Wait, MaxWait))
	defer end()
	got, err := a.server.Claim(ctx, w)
	if err != nil {
		if !a.stopped(q, err) {
			return err
		}
		got = store.Claim{Now: a.store.Now()} // nothing came: the worker asks the next server
	}
	if err := a.stillGood(q, &w, got.Jobs); err != nil {
		return err
	}
	size := 64
	for i := range got.Jobs {
		size += 512 + jobSize(got.Jobs[i].Job)
	}
	return q.answer(http.StatusOK, a.appendClaim(make([]byte, 0, size), &got))
}

// stillGood hands the leases back and returns the error where the key became bad
// while its claim waited, revoked or expired.
func (a *api) stillGood(q *request, w *jobserver.Want, jobs []store.Claimed) error {
	if len(jobs) == 0 {
		return nil
	}
	ctx := context.WithoutCancel(q.Context()) // the leases are given, whoever is gone
	bad := a.good(ctx, q)
	if bad == nil {
		return nil
	}
	back := make([]store.Report, len(jobs))
	for i := range jobs {
		back[i] = store.Report{Type: store.Release, Lease: jobs[i].Lease}
	}
	if _, err := a.server.Report(ctx, w.Worker, back); err != nil {
		a.log.Warn("jobs claimed with a key that is not good any more could not be handed back; they come back when their leases lapse",
			"jobs", len(jobs), "worker", w.Worker, "error", err)
	}
	return bad
}

// stopped reports whether the call was ended by the server's stop alone.
func (a *api) stopped(q *request, err error) bool {
	return a.stopping.Err() != nil && q.Context().Err() == nil && isDone(err)
}
