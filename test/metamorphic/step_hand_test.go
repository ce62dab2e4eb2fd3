package metamorphic

import (
	"errors"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// anyJob chooses a job, of those that a rule prefers where there is one.
func (h *history) anyJob(prefer func(*modelJob) bool) *modelJob {
	of := h.model.inOrder(prefer)
	if len(of) == 0 || h.chance(0.2) {
		of = h.model.inOrder(func(*modelJob) bool { return true })
	}
	if len(of) == 0 {
		return nil
	}
	return pick(h, of...)
}

// agree ends the history where a call's error is another than the model's.
func (h *history) agree(what string, want, got error) {
	h.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		h.Fatalf("%s: %v, the model says %v", what, got, want)
	}
}

func (h *history) cancel() {
	running := h.chance(0.6)
	if j := h.anyJob(func(j *modelJob) bool {
		return j.Status == job.Running && running || j.Status == job.Queued && !running
	}); j != nil {
		h.cancelOne(j)
	}
}

func (h *history) cancelOne(j *modelJob) {
	h.Helper()
	h.tell("cancel %s, which is %s", j.ID, j.Status)
	want := h.model.cancel(j, "ops")
	got, err := h.store.Cancel(h.ctx, j.ID, "ops")
	h.agree("cancel", want, err)
	if err == nil {
		h.same("the cancelled job", &j.Job, got)
		h.happened["cancels"]++
	}
}

func (h *history) retry() {
	j := h.anyJob(func(j *modelJob) bool { return j.Status == job.Failed })
	if j == nil {
		return
	}
	if j.Unique != "" && h.chance(0.5) && h.room(1) {
		twin := h.plainJob()
		twin.Queue, twin.Task, twin.Unique = j.Queue, j.Task, j.Unique
		h.createAll([]store.NewJob{twin})
		if h.model.jobs[j.ID] == nil {
			return // to make room for it
		}
	}
	u := pick(h, store.RefuseUncertain, store.AcceptUncertain)
	h.tell("retry %s, which is %s %s, %v", j.ID, j.Status, j.Reason, u)
	want := h.model.retry(j, "ops", u)
	got, err := h.store.Retry(h.ctx, j.ID, "ops", u)
	h.agree("retry", want, err)
	if err == nil {
		h.same("the job that was brought back", &j.Job, got)
		h.happened["dead letters retried"]++
	} else if errors.Is(want, store.ErrUncertain) {
		h.happened["uncertain ones refused"]++
	}
}

func (h *history) delete() {
	j := h.anyJob(func(j *modelJob) bool {
		return j.Status == job.Cancelled || j.Status == job.Failed || h.model.brought[j.ID] != ""
	})
	if j == nil {
		return
	}
	h.tell("delete %s, which is %s", j.ID, j.Status)
	want := h.model.delete(j, "ops")
	h.agree("delete", want, h.store.Delete(h.ctx, j.ID, "ops"))
	if want == nil {
		h.happened["deletes"]++
		_, err := h.store.Cancel(h.ctx, j.ID, "ops")
		h.agree("cancel of what is gone", store.ErrNotFound, err)
	}
}
