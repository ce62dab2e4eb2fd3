package storetest

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

func (r *rig) cancel(id string) *job.Job {
	r.Helper()
	j, err := r.Cancel(r.ctx, id, "ops")
	r.must(err)
	return j
}

// refused fails the test where the error is not the wanted one.
func (r *rig) refused(what string, err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%s: %v, want %v", what, err, want)
	}
}

// dead makes a dead letter and returns its id.
func (r *rig) dead() string {
	r.Helper()
	c := r.begin(newJob("q"))
	r.say(failure(c, job.Failure{Permanent: true}))
	r.status(c.Job.ID, job.Failed)
	return c.Job.ID
}

var handTests = []test{
	{"cancel a queued job", func(r *rig) {
		first, id, last := r.put(newJob("q")), r.put(newJob("q")), r.put(newJob("q"))
		r.h.Clock.Pass(time.Minute)
		j := r.cancel(id)
		if j.Status != job.Cancelled || !j.FinishedAt.Equal(Start.Add(time.Minute)) || j.Attempt != 0 || len(j.Attempts) != 0 {
			r.Errorf("%+v", j)
		}
		r.same("again", j, r.cancel(id))
		r.same("the others", []string{first, last}, ids(r.claim(want("q"))))
		head := r.put(newJob("q"))
		r.cancel(head)
		r.no("a line whose only job was cancelled", want("q"))
	}},
	{"cancel a job that waits for its next attempt", func(r *rig) {
		c := r.begin(newJob("q"))
		r.say(report(store.Fail, c))
		j := r.cancel(c.Job.ID)
		if j.Status != job.Cancelled || j.Attempt != 1 || len(j.Attempts) != 1 || j.LastError == nil {
			r.Errorf("%+v", j)
		}
		r.pass(time.Hour)
		r.no("after its time", want("q"))
	}},
	{"cancel a running job: its worker is told, and its report moves nothing", func(r *rig) {
		r.limits(map[lane.Gate]store.Limits{{Kind: lane.QueueGate, Name: "q"}: {Concurrency: 1}})
		c := r.begin(newJob("q"))
		id := c.Job.ID
		j := r.cancel(id)
		if j.Status != job.Cancelled || j.FinishedAt.IsZero() || len(j.Attempts) != 1 {
			r.Errorf("%+v", j)
		}
		r.same("waiting for its end", nil, r.AwaitEnd(r.ctx, id))
		r.put(newJob("q"))
		r.no("the attempt keeps its place", want("q"))
		if a := r.say(report(store.Heartbeat, c)); !a.Cancel || a.JobStatus != job.Cancelled {
			r.Errorf("a heartbeat is answered %+v", a)
		}
		r.restart(time.Second)
		r.limits(map[lane.Gate]store.Limits{{Kind: lane.QueueGate, Name: "q"}: {Concurrency: 1}})
		if a := r.say(report(store.Heartbeat, c)); !a.Cancel {
			r.Errorf("after a restart a heartbeat is answered %+v", a)
		}
		if a := r.say(report(store.Complete, c)); a.Status != store.ReportTaken || a.JobStatus != job.Cancelled {
			r.Errorf("a late result is answered %+v", a)
		}
		if a := r.say(report(store.Complete, c)); a.Status != store.ReportTaken || a.JobStatus != job.Cancelled {
			r.Errorf("the same again is answered %+v", a)
		}
		j = r.job(id)
		if j.Status != job.Cancelled || len(j.Attempts) != 1 || j.Attempts[0].Outcome != job.OutcomeCancelled || j.Attempts[0].Charged {
			r.Errorf("%+v", j)
		}
		r.take("q")
	}},
	{"a cancelled job whose worker is gone gives its place back", func(r *rig) {
		c := r.begin(newJob("q"))
		r.cancel(c.Job.ID)
		r.pass(2*leaseFor + 2*time.Second)
		j := r.job(c.Job.ID)
		if j.Status != job.Cancelled || len(j.Attempts) != 1 || j.Attempts[0].EndedAt.IsZero() || r.Vitals().Running != 0 {
			r.Errorf("%+v", j)
		}
	}},
	{"a cancelled job stays what it was at that moment, and nobody gets it again", func(r *rig) {
		w := want("q")
		w.ClaimID, w.Worker = "claim", store.RelayWorker+"source"
		var all []string
		for range 2 {
			all = append(all, r.put(newJob("q")))
		}
		got := r.claim(w)
		for _, id := range all {
			r.cancel(id)
		}
		r.h.Clock.Pass(time.Second)
		if again := r.claim(w); len(again) != 0 {
			r.Errorf("the same claim again got %v", ids(again))
		}
		r.say(report(store.Complete, got[0]))
		r.restart(time.Second) // which ends the relay's leases
		for _, id := range all {
			j := r.job(id)
			if j.Status != job.Cancelled || !j.FinishedAt.Equal(Start) || j.Attempts[0].Outcome != job.OutcomeCancelled || !j.Attempts[0].EndedAt.After(Start) {
				r.Errorf("%+v", j)
			}
		}
		r.no("what was cancelled", w)
	}},
	{"who was cancelled in the line has no attempt, and no log of one", func(r *rig) {
		id := r.put(newJob("q"))
		r.cancel(id)
		_, err := r.Logs(r.ctx, id, 1)
		r.refused("the log of an attempt that never was", err, store.ErrNotFound)
	}},
	{"a report again has the answer of the first, though the job was brought back", func(r *rig) {
		c := r.begin(newJob("q"))
		first := r.say(failure(c, job.Failure{Permanent: true}))
		_, err := r.Retry(r.ctx, c.Job.ID, "ops", store.RefuseUncertain)
		r.must(err)
		r.same("the answer", first, r.say(failure(c, job.Failure{Permanent: true})))
		r.restart(0)
		r.take("q")
		r.same("the answer while it runs again", first, r.say(failure(c, job.Failure{Permanent: true})))
	}},
	{"what is finished can't be cancelled", func(r *rig) {
		c := r.begin(newJob("q"))
		r.say(report(store.Complete, c))
		_, err := r.Cancel(r.ctx, c.Job.ID, "ops")
		r.refused("a success", err, store.ErrStatus)
		_, err = r.Cancel(r.ctx, r.dead(), "ops")
		r.refused("a dead letter", err, store.ErrStatus)
		_, err = r.Cancel(r.ctx, "job_00000000000000000000000000", "ops")
		r.refused("nothing", err, store.ErrNotFound)
	}},
	{"retry a dead letter: a full set of attempts, numbers go on", func(r *rig) {
		j := newJob("q")
		j.Policy.MaxAttempts = 2
		id := r.put(j)
		fail := func() {
			r.say(report(store.Fail, r.take("q")))
			r.h.Clock.Pass(time.Hour)
		}
		fail()
		fail()
		r.status(id, job.Failed)
		got, err := r.Retry(r.ctx, id, "ops", store.RefuseUncertain)
		r.must(err)
		if got.Status != job.Queued || got.Reason != "" || got.Counts != (job.Counts{}) || got.Attempt != 2 || !got.FinishedAt.IsZero() {
			r.Errorf("%+v", got)
		}
		r.restart(0)
		fail()
		r.status(id, job.Queued)
		fail()
		if got := r.job(id); got.Status != job.Failed || got.Attempt != 4 || got.Reason != job.ReasonExhausted || got.Counts.Charged != 2 {
			r.Errorf("%+v", got)
		}
		_, err = r.Retry(r.ctx, r.put(newJob("q")), "ops", store.RefuseUncertain)
		r.refused("a queued job", err, store.ErrStatus)
	}},
	{"an uncertain one needs a word", func(r *rig) {
		j := newJob("q")
		j.Policy.Repeat = job.RepeatUnsafe
		c := r.begin(j)
		r.say(failure(c, job.Failure{Effect: job.EffectUnknown}))
		if got := r.job(c.Job.ID); got.Reason != job.ReasonUncertain {
			r.Fatalf("%+v", got)
		}
		_, err := r.Retry(r.ctx, c.Job.ID, "ops", store.RefuseUncertain)
		r.refused("without it", err, store.ErrUncertain)
		r.status(c.Job.ID, job.Failed)
		_, err = r.Retry(r.ctx, c.Job.ID, "ops", store.AcceptUncertain)
		r.must(err)
		r.take("q")
	}},
	{"a result that does not fit", func(r *rig) {
		c := r.begin(newJob("q"))
		rep := report(store.Complete, c)
		rep.Refused = "at /total: want number"
		if a := r.say(rep); a.JobStatus != job.Failed {
			r.Errorf("%+v", a)
		}
		if j := r.job(c.Job.ID); j.Reason != job.ReasonOutputSchema || j.Attempts[0].Outcome != job.OutcomeFailed || !j.Attempts[0].Charged {
			r.Errorf("%+v", j)
		}
	}},
	{"delete", func(r *rig) {
		n := keyed("q", "k", 1)
		id := r.put(n)
		r.must(r.Delete(r.ctx, id, "ops"))
		_, err := r.Job(r.ctx, id)
		r.refused("a queued one", err, store.ErrNotFound)
		if again := r.put(n); again == id {
			r.Error("its key still leads to it")
		}
		running := r.take("q")
		r.refused("a running one", r.Delete(r.ctx, running.Job.ID, "ops"), store.ErrStatus)
		r.cancel(running.Job.ID)
		r.refused("a cancelled one with a worker", r.Delete(r.ctx, running.Job.ID, "ops"), store.ErrStatus)
		r.sayAll(report(store.AddLog, running), report(store.Complete, running))
		r.must(r.Delete(r.ctx, running.Job.ID, "ops"))
		dead := r.dead()
		r.must(r.Delete(r.ctx, dead, "ops"))
		r.refused("twice", r.Delete(r.ctx, dead, "ops"), store.ErrNotFound)
		if left := r.all(store.Filter{Limit: 10}); len(left) != 0 {
			r.Errorf("%d jobs are left", len(left))
		}
	}},
	{"one of a kind", func(r *rig) {
		u := newJob("q")
		u.Unique = "nightly"
		first := r.create(u)[0]
		if again := r.create(u)[0]; !again.Found || again.ID != first.ID {
			r.Errorf("a second one: %+v, want %s", again, first.ID)
		}
		other := u
		other.Task = "t2"
		if r.create(other)[0].Found {
			r.Error("of another task")
		}
		two := r.create(newJob("q"), u, u)
		if !two[1].Found || !two[2].Found || two[1].ID != first.ID {
			r.Errorf("in a batch: %+v", two)
		}
		r.restart(0)
		if again := r.create(u)[0]; !again.Found {
			r.Error("after a restart")
		}
		if j := r.job(first.ID); j.Unique != "nightly" {
			r.Errorf("it says %q", j.Unique)
		}
		r.cancel(first.ID)
		next := r.create(u)[0]
		if next.Found {
			r.Error("after it was cancelled")
		}
		keys := u
		keys.Key, keys.Hash = "k", [32]byte{1}
		if both := r.create(keys)[0]; !both.Found || both.ID != next.ID {
			r.Errorf("with another key beside: %+v", both)
		}
		r.must(r.Delete(r.ctx, next.ID, "ops"))
		if r.create(keys)[0].Found {
			r.Error("after it was deleted")
		}
	}},
	{"a dead letter can't come back beside another of its kind", func(r *rig) {
		u := newJob("q")
		u.Unique = "nightly"
		c := r.begin(u)
		r.say(failure(c, job.Failure{Permanent: true}))
		r.put(u)
		_, err := r.Retry(r.ctx, c.Job.ID, "ops", store.RefuseUncertain)
		r.refused("while another waits", err, store.ErrStatus)
		r.say(report(store.Complete, r.take("q")))
		_, err = r.Retry(r.ctx, c.Job.ID, "ops", store.RefuseUncertain)
		r.must(err)
		if !r.create(u)[0].Found {
			r.Error("what was brought back is the one")
		}
	}},
}
