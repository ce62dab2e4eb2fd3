package storetest

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

var restartTests = []test{
	{"a restart after five minutes loses no result", func(r *rig) {
		begin := func(queue string) store.Claimed {
			n := newJob(queue)
			n.Timeout = time.Hour
			return r.begin(n)
		}
		kept, silent, never := begin("a"), begin("b"), begin("c")
		r.say(report(store.Start, kept))
		r.say(report(store.Start, silent))
		r.restart(5 * time.Minute)
		if got := r.sweep(); got.Lost+got.TimedOut+got.Unreceived != 0 {
			r.Fatalf("the first sweep: %+v", got)
		}
		if got := r.pass(leaseFor - time.Second); got.Lost+got.TimedOut+got.Unreceived != 0 {
			r.Fatalf("within a lease: %+v", got)
		}
		if a := r.say(report(store.Complete, kept)); a.JobStatus != job.Succeeded {
			r.Errorf("the kept result: %+v", a)
		}
		if got := r.pass(time.Second); got.Unreceived != 1 || got.Lost != 1 {
			r.Errorf("a lease later: %+v", got)
		}
		r.status(silent.Job.ID, job.Queued)
		r.status(never.Job.ID, job.Queued)
	}},
	{"leases that heartbeats kept go on", func(r *rig) {
		n := newJob("q")
		n.Timeout = time.Hour
		c := r.begin(n)
		for range 6 {
			r.pass(10 * time.Second)
			r.say(report(store.Heartbeat, c))
		}
		r.restart(2 * time.Second)
		r.pass(20 * time.Second)
		if a := r.say(report(store.Heartbeat, c)); a.Status != store.ReportTaken {
			r.Errorf("%+v", a)
		}
		r.pass(leaseFor)
		if j := r.job(c.Job.ID); j.Attempts[0].Outcome != job.OutcomeLost {
			r.Errorf("a worker that was heard of before the restart: %s", j.Attempts[0].Outcome)
		}
	}},
	{"who was heard of before is lost after", func(r *rig) {
		for _, kind := range []store.ReportType{store.Start, store.Heartbeat, store.AddLog} {
			c := r.begin(newJob(string(kind)))
			r.say(report(kind, c))
			r.restart(time.Second)
			r.pass(leaseFor)
			if j := r.job(c.Job.ID); j.Attempts[0].Outcome != job.OutcomeLost || j.Counts.Lost != 1 {
				r.Errorf("after a %s: %s", kind, j.Attempts[0].Outcome)
			}
		}
	}},
	{"the relay's own leases end with its process", func(r *rig) {
		id, other := r.put(newJob("relay")), r.put(newJob("other"))
		w := want("relay")
		w.Worker = "relay:source"
		old := r.claim(w)[0]
		r.take("other")
		r.restart(time.Second)
		j := r.job(id)
		if j.Status != job.Queued || j.Attempts[0].Outcome != job.OutcomeReleased || (j.Counts != job.Counts{}) {
			r.Errorf("%+v", j)
		}
		if a := r.say(report(store.Complete, old)); a.Status != store.LeaseLost {
			r.Errorf("its lease: %+v", a)
		}
		r.status(other, job.Running)
		r.same("claimed again", []string{id}, ids(r.claim(w)))
	}},
	{"everything is where it was", func(r *rig) {
		for i := range 40 {
			n := numbered([]string{"a", "b"}[i%2], i)
			n.Priority, n.Endpoint = i%3, []string{"", "e", "f"}[i%3]
			if i%5 == 0 {
				n.Delay = time.Hour
			}
			r.put(n)
			if i%4 == 3 {
				r.say(report([]store.ReportType{store.Complete, store.Fail, store.Release, store.Start}[i/4%4], r.takeOne(n.Queue)))
			}
		}
		look := func() (jobs []*job.Job) {
			for _, j := range r.all(store.Filter{}) {
				jobs = append(jobs, r.job(j.ID))
			}
			return jobs
		}
		before := look()
		for range 3 {
			r.restart(0)
			r.same("the jobs", before, look())
			r.must(CheckCounts(r.ctx, r.Store))
		}
		// And in the same order.
		a := ids(r.claim(want("a")))
		for i := range a[:len(a)-1] {
			x, y := r.job(a[i]), r.job(a[i+1])
			if x.Priority < y.Priority || x.Priority == y.Priority && x.RunAt.After(y.RunAt) {
				r.Errorf("%s with %d, %v came before %s with %d, %v", x.ID, x.Priority, x.RunAt, y.ID, y.Priority, y.RunAt)
			}
		}
	}},
	{"the clock goes on", func(r *rig) {
		r.h.Clock.Pass(time.Hour)
		r.put(newJob("q"))
		before := r.Now()
		r.must(r.Close())
		r.h.Clock.Jump(-24 * time.Hour)
		r.Store = r.h.Open(r.T)
		if now := r.Now(); now.Before(before) {
			r.Errorf("%v before the restart, %v after it", before, now)
		}
		r.take("q")
		r.h.Clock.Pass(time.Minute)
		if passed := r.Now().Sub(before); passed < 54*time.Second || passed > 66*time.Second {
			r.Errorf("%v passed in the minute after the restart", passed)
		}
	}},
}
