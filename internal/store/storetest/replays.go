package storetest

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// died makes n dead letters of a queue, and returns their ids.
func (r *rig) died(queue string, n int) (all []string) {
	r.Helper()
	for i := range n {
		c := r.begin(numbered(queue, i))
		r.say(failure(c, job.Failure{Permanent: true}))
		all = append(all, c.Job.ID)
	}
	return all
}

// replay adds one that runs.
func (r *rig) replay(id string, a store.Action, sel store.Selection, change ...func(*store.Replay)) store.Replay {
	r.Helper()
	sel.Before = r.h.Clock.Wall()
	rp := store.Replay{ID: id, Action: a, Selection: sel, State: store.ReplayRunning, CreatedBy: "ops", CreatedAt: r.h.Clock.Wall()}
	for _, c := range change {
		c(&rp)
	}
	r.must(r.AddReplay(r.ctx, rp))
	return rp
}

// steps works on a replay until it is over, or stands.
func (r *rig) steps(id string, n int) store.Replay {
	r.Helper()
	for range 10_000 {
		rp, err := r.StepReplay(r.ctx, id, n)
		r.must(err)
		if rp.State != store.ReplayRunning {
			return rp
		}
	}
	r.Fatal("a replay without an end")
	return store.Replay{}
}

var replayTests = []test{
	{"dead letters come back, each once, over restarts", func(r *rig) {
		want := r.died("q", 25)
		other := r.died("other", 3)
		r.h.Clock.Pass(time.Second)
		sel := store.Selection{Filter: store.Filter{Queue: "q"}}
		p, err := r.Preview(r.ctx, store.ActionRetry, sel, store.RefuseUncertain)
		r.must(err)
		if p.Jobs != 25 || p.Tasks["t@1"] != 25 || p.ByReason[job.ReasonNonRetryable] != 25 || p.AtLeast {
			r.Errorf("preview: %+v", p)
		}
		r.replay("rpl_1", store.ActionRetry, sel)
		done := int64(0)
		for range 5 {
			rp, err := r.StepReplay(r.ctx, "rpl_1", 4)
			r.must(err)
			if rp.Done-done > 4 {
				r.Fatalf("a step of 4 did %d", rp.Done-done)
			}
			done = rp.Done
			r.restart(time.Second)
		}
		end := r.steps("rpl_1", 100)
		if end.State != store.ReplayDone || end.Done != 25 || end.Skipped != 0 || end.EndedAt.IsZero() {
			r.Errorf("%+v", end)
		}
		for _, id := range want {
			r.status(id, job.Queued)
		}
		for _, id := range other {
			r.status(id, job.Failed)
		}
		_, err = r.StepReplay(r.ctx, "rpl_1", 1)
		r.refused("a step of one that is over", err, store.ErrStatus)
		for _, c := range r.claim(wantMany("q")) {
			r.say(report(store.Complete, c))
		}
		if rp, err := r.Replay(r.ctx, "rpl_1"); err != nil || rp.Succeeded != 25 || rp.FailedAgain != 0 {
			r.Errorf("afterwards: %+v, %v", rp, err)
		}
	}},
	{"it stops where too many fail again, and what died since is left", func(r *rig) {
		r.died("q", 40)
		r.h.Clock.Pass(time.Second)
		r.replay("rpl_1", store.ActionRetry, store.Selection{}, func(rp *store.Replay) { rp.StopShare = 0.5 })
		for range 40 { // a step may do fewer than it may, but one at least
			rp, err := r.Replay(r.ctx, "rpl_1")
			r.must(err)
			if rp.State != store.ReplayRunning {
				break
			}
			_, err = r.StepReplay(r.ctx, "rpl_1", 4)
			r.must(err)
			r.h.Clock.Pass(time.Second)
			for _, c := range r.claim(wantMany("q")) {
				r.say(failure(c, job.Failure{Permanent: true}))
			}
		}
		rp, err := r.Replay(r.ctx, "rpl_1")
		r.must(err)
		if rp.State != store.ReplayStopped || rp.Why == "" || rp.FailedAgain < store.StopAfter || rp.FailedAgain > store.StopAfter+4 {
			r.Fatalf("%+v", rp)
		}
		again, err := r.MoveReplay(r.ctx, "rpl_1", store.ReplayRunning, "ops", "")
		r.must(err)
		if again.State != store.ReplayRunning {
			r.Errorf("%+v", again)
		}
		if end := r.steps("rpl_1", 100); end.State != store.ReplayDone || end.Done != 40 {
			r.Errorf("those that failed again are not taken again: %+v", end)
		}
	}},
	{"uncertain ones only where they are named and accepted", func(r *rig) {
		j := newJob("q")
		j.Policy.Repeat = job.RepeatUnsafe
		c := r.begin(j)
		r.say(failure(c, job.Failure{Effect: job.EffectUnknown}))
		r.h.Clock.Pass(time.Second)
		named := store.Selection{Filter: store.Filter{Reason: job.ReasonUncertain}}
		for name, p := range map[string]struct {
			sel  store.Selection
			u    store.Uncertainty
			jobs int64
		}{
			"unnamed": {store.Selection{}, store.AcceptUncertain, 0}, "refused": {named, store.RefuseUncertain, 0}, "accepted": {named, store.AcceptUncertain, 1},
		} {
			got, err := r.Preview(r.ctx, store.ActionRetry, p.sel, p.u)
			r.must(err)
			if got.Jobs != p.jobs || got.Uncertain != 1 {
				r.Errorf("%s: %+v", name, got)
			}
			rp := r.replay("rpl_"+name, store.ActionRetry, p.sel, func(rp *store.Replay) { rp.Uncertainty = p.u })
			if name == "accepted" {
				continue
			}
			if end := r.steps(rp.ID, 10); end.Done != 0 {
				r.Errorf("%s: %+v", name, end)
			}
		}
		if end := r.steps("rpl_accepted", 10); end.Done != 1 {
			r.Errorf("accepted: %+v", end)
		}
	}},
	{"many are cancelled, and deleted", func(r *rig) {
		for i := range 10 {
			r.put(numbered("q", i))
		}
		running := r.take1("q")
		r.h.Clock.Pass(time.Second)
		r.replay("rpl_1", store.ActionCancel, store.Selection{Filter: store.Filter{Queue: "q"}})
		r.h.Clock.Pass(time.Millisecond)
		later := r.put(newJob("q"))
		if end := r.steps("rpl_1", 3); end.Done != 10 {
			r.Errorf("cancelled: %+v", end)
		}
		r.status(running.Job.ID, job.Cancelled)
		r.say(report(store.Complete, running))
		r.status(later, job.Queued)
		r.h.Clock.Pass(time.Second)
		r.replay("rpl_2", store.ActionDelete, store.Selection{Filter: store.Filter{Status: job.Cancelled}})
		if end := r.steps("rpl_2", 3); end.Done != 10 {
			r.Errorf("deleted: %+v", end)
		}
		if left := r.all(store.Filter{Limit: 100}); len(left) != 1 || left[0].ID != later {
			r.Errorf("%d are left", len(left))
		}
	}},
	{"what the relay keeps is cancelled and deleted only where its queue is named, and never without a trace", func(r *rig) {
		mine, kept := r.put(newJob("q")), r.put(newJob("relay:web"))
		r.h.Clock.Pass(time.Second)
		for i, a := range []store.Action{store.ActionCancel, store.ActionDelete} {
			p, err := r.Preview(r.ctx, a, store.Selection{}, store.RefuseUncertain)
			r.must(err)
			rp := r.replay(fmt.Sprint("rpl_all", i), a, store.Selection{})
			if end := r.steps(rp.ID, 10); p.Jobs != 1 || end.Done != 1 {
				r.Errorf("%s: %+v, %+v", a, p, end)
			}
		}
		_, err := r.Job(r.ctx, mine)
		r.refused("a look at what was deleted", err, store.ErrNotFound)
		r.status(kept, job.Queued)
		rp := r.replay("rpl_named", store.ActionDelete, store.Selection{Filter: store.Filter{Queue: "relay:web"}})
		if end := r.steps(rp.ID, 10); end.Done != 1 {
			r.Errorf("named: %+v", end)
		}
		told := false
		for _, e := range r.read(store.EventFilter{}, 0).Events {
			told = told || e.Type == store.JobDeleted && e.Job == kept
		}
		if !told {
			r.Error("no event tells of the deletion")
		}
	}},
	{"a reason, and when a job failed, choose dead letters for a delete too", func(r *rig) {
		dead := r.died("q", 3)
		r.h.Clock.Pass(time.Minute)
		waits, moment := r.put(newJob("q")), Start.Add(time.Minute)
		r.h.Clock.Pass(time.Second)
		later := r.died("other", 1)[0]
		for name, sel := range map[string]store.Selection{
			"another reason": {Filter: store.Filter{Reason: job.ReasonExhausted}}, "before": {FailedBefore: Start}, "after": {FailedAfter: moment.Add(time.Hour)},
		} {
			p, err := r.Preview(r.ctx, store.ActionDelete, sel, store.RefuseUncertain)
			r.must(err)
			rp := r.replay("rpl_"+name, store.ActionDelete, sel)
			if end := r.steps(rp.ID, 10); p.Jobs != 0 || end.Done != 0 || end.Skipped != 0 {
				r.Errorf("%s: %+v, %+v", name, p, end)
			}
		}
		sel := store.Selection{Filter: store.Filter{Reason: job.ReasonNonRetryable}, FailedBefore: moment}
		r.replay("rpl_1", store.ActionDelete, sel)
		if end := r.steps("rpl_1", 2); end.Done != int64(len(dead)) {
			r.Errorf("%+v", end)
		}
		r.status(waits, job.Queued)
		r.status(later, job.Failed)
	}},
	{"what does not fit costs a replay nothing of its rate", func(r *rig) {
		for range 5 {
			r.say(report(store.Complete, r.begin(newJob("q"))))
		}
		r.put(newJob("q"))
		r.h.Clock.Pass(time.Second)
		r.replay("rpl_1", store.ActionCancel, store.Selection{})
		rp, err := r.StepReplay(r.ctx, "rpl_1", 1)
		r.must(err)
		if rp.Done != 1 || rp.Skipped != 0 {
			r.Errorf("a step of one job: %+v", rp)
		}
	}},
	{"states, who approved, and the list", func(r *rig) {
		r.replay("rpl_1", store.ActionRetry, store.Selection{}, func(rp *store.Replay) { rp.State = store.ReplayReview })
		_, err := r.StepReplay(r.ctx, "rpl_1", 1)
		r.refused("a step before the review", err, store.ErrStatus)
		_, err = r.MoveReplay(r.ctx, "rpl_1", store.ReplayPaused, "ops", "")
		r.refused("a pause before the review", err, store.ErrStatus)
		rp, err := r.MoveReplay(r.ctx, "rpl_1", store.ReplayRunning, "boss", "")
		r.must(err)
		if rp.ApprovedBy != "boss" {
			r.Errorf("%+v", rp)
		}
		_, err = r.MoveReplay(r.ctx, "rpl_1", store.ReplayPaused, "ops", "")
		r.must(err)
		_, err = r.StepReplay(r.ctx, "rpl_1", 1)
		r.refused("a step of one that rests", err, store.ErrStatus)
		_, err = r.MoveReplay(r.ctx, "rpl_1", store.ReplayCancelled, "ops", "")
		r.must(err)
		_, err = r.MoveReplay(r.ctx, "rpl_1", store.ReplayRunning, "ops", "")
		r.refused("one that was cancelled", err, store.ErrStatus)
		_, err = r.MoveReplay(r.ctx, "nobody", store.ReplayRunning, "ops", "")
		r.refused("none", err, store.ErrNotFound)
		for i := range store.MaxReplays {
			r.replay(fmt.Sprintf("rpl_x%03d", i), store.ActionRetry, store.Selection{}, func(rp *store.Replay) { rp.State = store.ReplayReview })
		}
		r.refused("one too many", r.AddReplay(r.ctx, store.Replay{ID: "more", State: store.ReplayRunning}), store.ErrTooMany)
		if running, err := r.RunningReplays(r.ctx); err != nil || len(running) != 0 {
			r.Errorf("running: %+v, %v", running, err)
		}
		for _, id := range []string{"rpl_x007", "rpl_x003"} {
			_, err = r.MoveReplay(r.ctx, id, store.ReplayRunning, "ops", "")
			r.must(err)
		}
		r.restart(0)
		running, err := r.RunningReplays(r.ctx)
		r.must(err)
		if len(running) != 2 || running[0].ID != "rpl_x003" || running[1].ID != "rpl_x007" {
			r.Errorf("running: %+v", running)
		}
		list, err := r.ListReplays(r.ctx, 2, "")
		r.must(err)
		if len(list) != 2 || list[0].ID != "rpl_x099" {
			r.Errorf("%+v", list)
		}
		_, err = r.ListReplays(r.ctx, 500, "rpl_none")
		r.refused("a list behind a replay that is not there", err, store.ErrNotFound)
		next, err := r.ListReplays(r.ctx, 500, list[1].ID)
		r.must(err)
		if len(next) != 99 || next[98].ID != "rpl_1" || next[98].State != store.ReplayCancelled {
			r.Errorf("%d follow", len(next))
		}
	}},
}

// wantMany asks for up to a thousand jobs of a queue.
func wantMany(queue string) store.Want {
	w := want(queue)
	w.Max = 1000
	return w
}

// take1 claims one job of a queue that has more.
func (r *rig) take1(queue string) store.Claimed {
	r.Helper()
	w := want(queue)
	w.Max = 1
	return r.claim(w)[0]
}
