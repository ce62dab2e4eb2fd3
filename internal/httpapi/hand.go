package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

var retryMembersOfHand = []string{"accept_uncertain"}

// possible says what can be done to a job in each status.
var possible = map[job.Status]string{
	job.Queued:    "it can be cancelled or deleted",
	job.Running:   "it can be cancelled",
	job.Succeeded: "it can be deleted",
	job.Failed:    "it can be retried or deleted",
	job.Cancelled: "it can be deleted",
}

// byHand does something to a job that the key sees, and says why it can't be done.
func (a *api) byHand(q *request, word string, act func(ctx context.Context, by jobserver.Principal, id string) (*job.Job, error)) (*job.Job, error) {
	j, err := a.job(q)
	if err != nil {
		return nil, err
	}
	id := j.ID
	j, err = act(q.Context(), q.who, id)
	switch {
	case errors.Is(err, store.ErrStatus):
		return nil, a.notNow(q, err, word)
	case errors.Is(err, store.ErrUncertain):
		return nil, &refusal{problem.Document{Type: problem.Uncertain, Job: id,
			Detail: "nobody knows whether the effect of the job happened: reconcile it with the other side first, then retry with accept_uncertain: true"}}
	case errors.Is(err, store.ErrNotFound):
		return nil, notFound("there is no job %s, or not any more", cut(id))
	}
	return j, err
}

// notNow says why a job can't be what the word says, and what it can be.
func (a *api) notNow(q *request, refused error, word string) error {
	q.hold.shrink(0)
	j, err := a.job(q) // as it is now
	if err != nil {
		return err
	}
	why := strings.TrimPrefix(refused.Error(), store.ErrStatus.Error()+": ")
	detail := fmt.Sprintf("the job is %s and can't be %s", j.Status, word)
	switch {
	case why == "it is "+string(j.Status):
		detail += "; " + possible[j.Status]
	case why != refused.Error():
		detail += ": " + why
	}
	return &refusal{problem.Document{Type: problem.Status, Job: j.ID, Detail: detail}}
}

// cancel ends a job that is not finished.
func (a *api) cancel(q *request) error {
	if err := q.nothing(); err != nil {
		return err
	}
	j, err := a.byHand(q, "cancelled", a.server.Cancel)
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, a.appendJob(make([]byte, 0, jobSize(j)), j, withoutAttempts))
}

// retry queues a failed job again.
func (a *api) retry(q *request) error {
	accept := store.RefuseUncertain
	if q.ContentLength != 0 {
		err := q.read(wirejson.Refuse, func(r *wirejson.Reader) {
			r.Object(retryMembersOfHand, func(string) { accept = store.Uncertainty(r.Flag()) })
		})
		if err != nil {
			return err
		}
	}
	j, err := a.byHand(q, "retried", func(ctx context.Context, by jobserver.Principal, id string) (*job.Job, error) {
		return a.server.Retry(ctx, by, id, accept)
	})
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, a.appendJob(make([]byte, 0, jobSize(j)), j, withoutAttempts))
}

// remove deletes a job that is not running.
func (a *api) remove(q *request) error {
	if err := q.nothing(); err != nil {
		return err
	}
	_, err := a.byHand(q, "deleted", func(ctx context.Context, by jobserver.Principal, id string) (*job.Job, error) {
		return nil, a.server.Delete(ctx, by, id)
	})
	if err != nil {
		return err
	}
	return q.done()
}
