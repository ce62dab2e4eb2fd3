package metamorphic

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// selection is a choice of jobs for an action.
func (h *history) selection(a store.Action) store.Selection {
	s := store.Selection{Before: h.model.now}
	switch h.IntN(8) {
	case 0:
		s.Queue, s.Endpoint = "a", pick(h, "", "e")
	case 1:
		s.Task, s.Endpoint = "t", pick(h, "", "f")
	case 2:
		s.Tag = "x"
	}
	switch a {
	case store.ActionRetry:
		s.Status = pick(h, "", job.Failed)
	case store.ActionCancel:
		s.Status = pick(h, "", "", job.Queued, job.Running)
	case store.ActionDelete:
		s.Status = pick(h, "", job.Queued, job.Succeeded, job.Failed, job.Cancelled)
	}
	if a != store.ActionCancel && h.chance(0.3) {
		s.Reason = pick(h, job.ReasonUncertain, job.ReasonUncertain, job.ReasonExhausted, job.ReasonNonRetryable)
	}
	moment := func() time.Time { return h.model.now.Add(-time.Duration(h.IntN(100)) * time.Second) }
	switch h.IntN(12) {
	case 0:
		s.CreatedAfter = moment()
	case 1:
		s.CreatedBefore = moment()
	case 2:
		s.FailedAfter = moment()
	case 3:
		s.FailedBefore = moment()
	}
	return s
}

func (h *history) newReplay() {
	a := pick(h, store.ActionRetry, store.ActionRetry, store.ActionRetry, store.ActionCancel, store.ActionDelete)
	s, u := h.selection(a), store.RefuseUncertain
	if a == store.ActionRetry && h.chance(0.3) {
		s.Reason = job.ReasonUncertain
	}
	if a == store.ActionRetry && h.chance(0.6) {
		u = store.AcceptUncertain
	}
	h.addReplay(a, s, u, pick(h, store.ReplayRunning, store.ReplayRunning, store.ReplayReview), 0)
}

func (h *history) addReplay(a store.Action, s store.Selection, u store.Uncertainty, state store.ReplayState, stop float64) *modelReplay {
	want := h.model.preview(a, s, u)
	got, err := h.store.Preview(h.ctx, a, s, u)
	h.must(err)
	h.tell("preview %s of %+v, %v: %+v", a, s, u, want)
	h.same("the preview", want, got)
	if want.Uncertain > 0 {
		if want.ByReason[job.ReasonUncertain] > 0 {
			h.happened["uncertain ones that were named"]++
		} else {
			h.happened["uncertain ones left out"]++
		}
	}
	h.serial++
	r := &modelReplay{Replay: store.Replay{
		ID: fmt.Sprintf("rpl_%06d", h.serial), Action: a, Selection: s, Uncertainty: u, PerSecond: 2, StopShare: stop, State: state,
		CreatedBy: "ops", CreatedAt: h.model.now, Total: want.Jobs,
	}}
	h.must(h.store.AddReplay(h.ctx, r.Replay))
	h.model.replays[r.ID] = r
	h.model.tellReplay(r, "ops")
	return r
}

// anyReplay chooses one, of those in the states where there is one.
func (h *history) anyReplay(in ...store.ReplayState) *modelReplay {
	var prefer, all []*modelReplay
	for _, id := range sorted(h.model.replays) {
		r := h.model.replays[id]
		if all = append(all, r); slices.Contains(in, r.State) {
			prefer = append(prefer, r)
		}
	}
	switch {
	case len(prefer) > 0 && h.chance(0.95):
		return pick(h, prefer...)
	case len(all) > 0:
		return pick(h, all...)
	}
	return nil
}

func (h *history) stepReplay() {
	r := h.anyReplay(store.ReplayRunning)
	if r == nil {
		return
	}
	h.stepOf(r, pick(h, 1, 1, 2, 5))
	if r.State == store.ReplayRunning && h.chance(0.3) {
		h.move(r, store.ReplayPaused, "ops")
	}
}

// stepOf takes a step of a replay. How many jobs it does, up to n, is the store's,
// which has other callers too; but it comes on, and stops only where nothing is
// left.
func (h *history) stepOf(r *modelReplay, n int) {
	h.Helper()
	runs, before := r.State == store.ReplayRunning, r.Done+r.Skipped
	got, err := h.store.StepReplay(h.ctx, r.ID, n)
	if !runs {
		h.agree("a step of a replay that does not run", store.ErrStatus, err)
		return
	}
	h.must(err)
	did := int(got.Done + got.Skipped - before)
	h.tell("step %d of %s, a %s: %d", n, r.ID, r.Action, did)
	if ahead := len(h.model.ahead(r)); did > min(n, ahead) || did == 0 && ahead > 0 {
		h.Fatalf("a step of %d did %d of %d", n, did, ahead)
	}
	h.model.act(r, did)
	switch {
	case got.State == store.ReplayDone:
		if ahead := h.model.ahead(r); len(ahead) > 0 {
			h.Fatalf("%s is done, and %d jobs fit it still", r.ID, len(ahead))
		}
		h.model.replayIs(r, store.ReplayDone, "", "")
		h.happened["replays done"]++
	case did == 0:
		h.Fatalf("%s has nothing to do and does not end", r.ID)
	}
	h.sameReplay(r, got)
}

func (h *history) sameReplay(r *modelReplay, got store.Replay) {
	h.Helper()
	got.Cursor = 0 // the store's
	h.same("replay "+r.ID, r.Replay, got)
}

// moveReplay pauses a replay, resumes, approves or cancels it, whether or not that
// may be.
func (h *history) moveReplay() {
	r := h.anyReplay(pick(h, store.ReplayRunning, store.ReplayReview), store.ReplayPaused, store.ReplayStopped)
	if r == nil {
		return
	}
	to, by, was := pick(h, store.ReplayPaused, store.ReplayRunning, store.ReplayRunning, store.ReplayCancelled), pick(h, "ops", "boss"), r.State
	if was == store.ReplayRunning && h.chance(0.7) {
		to = store.ReplayPaused
	}
	if to == store.ReplayCancelled && h.chance(0.5) {
		to = store.ReplayRunning
	}
	h.move(r, to, by)
}

func (h *history) move(r *modelReplay, to store.ReplayState, by string) {
	h.Helper()
	was := r.State
	want := h.model.moveReplay(r, to, by, "")
	got, err := h.store.MoveReplay(h.ctx, r.ID, to, by, "")
	h.tell("%s, which is %s, becomes %s by %s: %v", r.ID, was, to, by, want)
	h.agree("a move of a replay", want, err)
	if err != nil {
		return
	}
	h.sameReplay(r, got)
	h.happened[fmt.Sprintf("replays from %s to %s", was, to)]++
	if to == store.ReplayPaused && r.Done > 0 && len(h.model.ahead(r)) > 0 {
		h.happened["replays paused half way"]++
	}
}

// disaster makes many dead letters, brings them back, and lets them fail again
// until the replay stops by itself.
func (h *history) disaster() {
	const many = 24
	h.clock.Pass(5 * time.Minute)
	h.time()
	h.sweep()
	if !h.room(many) {
		return
	}
	jobs := make([]store.NewJob, many)
	for i := range jobs {
		jobs[i] = h.plainJob()
		jobs[i].Queue, jobs[i].Endpoint, jobs[i].Policy.MaxAttempts = "a", "", 1
	}
	h.createAll(jobs)
	fail := func() {
		h.sayOf(store.Fail, slices.DeleteFunc(h.claimAll(), func(j *modelJob) bool { return j.Policy.MaxAttempts > 1 || j.Queue != "a" }))
	}
	fail()
	h.seconds(1)
	s := store.Selection{Before: h.model.now}
	s.Queue, s.Reason = "a", job.ReasonExhausted
	r := h.addReplay(store.ActionRetry, s, store.RefuseUncertain, store.ReplayRunning, 0.5)
	for range 60 {
		if r.State != store.ReplayRunning {
			break
		}
		h.stepOf(r, pick(h, 1, 5, 10))
		if h.chance(0.5) {
			h.seconds(1)
			fail()
		}
	}
}

func (h *history) checkReplays() {
	h.Helper()
	all, err := h.store.ListReplays(h.ctx, store.MaxPage, "")
	h.must(err)
	if len(all) != len(h.model.replays) {
		h.Fatalf("%d replays are listed of %d", len(all), len(h.model.replays))
	}
	for _, got := range all {
		h.sameReplay(h.model.replays[got.ID], got)
	}
}
