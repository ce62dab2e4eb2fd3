package storetest

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

var lapseTests = []test{
	{"never received", func(r *rig) {
		c := r.begin(newJob("q"))
		if got := r.pass(leaseFor - time.Second); got != (store.Swept{Next: Start.Add(leaseFor)}) {
			r.Errorf("before the end: %+v", got)
		}
		if got := r.pass(time.Second); got != (store.Swept{Unreceived: 1}) {
			r.Errorf("at the end: %+v", got)
		}
		now := Start.Add(leaseFor)
		j := r.job(c.Job.ID)
		if j.Status != job.Queued || !j.RunAt.Equal(now) {
			r.Errorf("%+v", j)
		}
		r.same("the counts", job.Counts{Unreceived: 1}, j.Counts)
		r.same("the attempts", []job.Attempt{{
			Number: 1, Worker: worker, StartedAt: Start, EndedAt: now, Outcome: job.OutcomeUnreceived, NextRunAt: now,
		}}, j.Attempts)
	}},
	{"never received a hundred times", func(r *rig) {
		n := newJob("q")
		n.Policy.MaxAttempts = 1
		id := r.put(n)
		w := want("q")
		w.Queues[0].Lease = time.Second
		for range job.MaxUnreceived {
			if len(r.claim(w)) != 1 {
				r.Fatalf("not there at attempt %d", r.job(id).Attempt+1)
			}
			r.pass(time.Second)
		}
		r.status(id, job.Queued)
		r.claim(w)
		r.pass(time.Second)
		if j := r.job(id); j.Status != job.Failed || j.Reason != job.ReasonLost || j.Counts.Unreceived != job.MaxUnreceived+1 {
			r.Errorf("%s, %s, %+v", j.Status, j.Reason, j.Counts)
		}
	}},
	{"lost, though it may be tried once only", func(r *rig) {
		n := newJob("q")
		n.Policy.MaxAttempts = 1
		id := r.put(n)
		var waits []time.Duration
		for range job.MaxLost {
			c := r.take("q")
			r.say(report(store.Start, c))
			if got := r.pass(leaseFor); got.Lost != 1 {
				r.Fatalf("%+v", got)
			}
			j := r.job(id)
			if j.Status != job.Queued || j.Counts.Charged != 0 {
				r.Fatalf("%+v", j)
			}
			waits = append(waits, j.RunAt.Sub(r.Now()))
			r.h.Clock.Pass(waits[len(waits)-1])
			r.sweep()
		}
		s := time.Second
		r.same("the waits", []time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s}, waits)
		r.say(report(store.Start, r.take("q")))
		r.pass(leaseFor)
		j := r.job(id)
		if j.Status != job.Failed || j.Reason != job.ReasonLost || j.Counts.Lost != job.MaxLost+1 || j.Attempts[5].Outcome != job.OutcomeLost {
			r.Errorf("%+v", j)
		}
	}},
	{"losses in a row end with a report", func(r *rig) {
		id := r.put(newJob("q"))
		lose := func() time.Duration {
			r.say(report(store.Heartbeat, r.take("q")))
			r.pass(leaseFor)
			wait := r.job(id).RunAt.Sub(r.Now())
			r.h.Clock.Pass(wait)
			r.sweep()
			return wait
		}
		lose()
		if wait := lose(); wait != 10*time.Second {
			r.Errorf("the second loss waits %v", wait)
		}
		r.say(report(store.Release, r.take("q")))
		if wait := lose(); wait != 0 {
			r.Errorf("the first loss after a report waits %v", wait)
		}
		if j := r.job(id); j.Counts.Lost != 3 || j.Counts.LostInRow != 1 {
			r.Errorf("%+v", j.Counts)
		}
	}},
	{"timed out, whatever is heard", func(r *rig) {
		n := newJob("q")
		n.Timeout, n.Policy.MaxAttempts = 45*time.Second, 2
		id := r.put(n)
		for i := range 2 {
			c := r.take("q")
			claimed := r.Now()
			r.pass(25 * time.Second)
			if a := r.say(report(store.Heartbeat, c)); a.Status != store.ReportTaken {
				r.Fatalf("%+v", a)
			}
			if got := r.pass(20 * time.Second); got.TimedOut != 1 || got.Lost != 0 {
				r.Fatalf("%+v", got)
			}
			j := r.job(id)
			a := j.Attempts[i]
			if a.Outcome != job.OutcomeTimedOut || !a.Charged || !a.EndedAt.Equal(claimed.Add(45*time.Second)) || j.Counts.Charged != i+1 {
				r.Fatalf("%+v", j)
			}
			if i == 0 {
				if wait := j.RunAt.Sub(r.Now()); wait != 10*time.Second {
					r.Errorf("waits %v", wait)
				}
				r.pass(10 * time.Second)
			} else if j.Status != job.Failed || j.Reason != job.ReasonExhausted {
				r.Errorf("%s, %s", j.Status, j.Reason)
			}
		}
	}},
	{"the earlier end decides", func(r *rig) {
		short, long := newJob("q"), newJob("q")
		short.Timeout, long.Timeout = leaseFor-time.Second, leaseFor+time.Second
		a, b := r.put(short), r.put(long)
		for _, c := range r.claim(want("q")) {
			r.say(report(store.Heartbeat, c))
		}
		r.pass(leaseFor + 2*time.Second)
		if got := r.job(a).Attempts[0].Outcome; got != job.OutcomeTimedOut {
			r.Errorf("the timeout first: %s", got)
		}
		if got := r.job(b).Attempts[0].Outcome; got != job.OutcomeLost {
			r.Errorf("the lease first: %s", got)
		}
	}},
	{"a log line is a sign of life, not of a longer lease", func(r *rig) {
		c := r.begin(newJob("q"))
		r.pass(20 * time.Second)
		r.same("the answer", store.Answer{Status: store.ReportTaken, JobStatus: job.Running, LeaseUntil: Start.Add(leaseFor)}, r.say(report(store.AddLog, c)))
		if got := r.pass(10 * time.Second); got.Lost != 1 {
			r.Errorf("%+v", got)
		}
	}},
	{"sweeping again ends nothing again", func(r *rig) {
		c := r.begin(newJob("q"))
		r.pass(leaseFor)
		before := r.job(c.Job.ID)
		if got := r.sweep(); got != (store.Swept{}) {
			r.Errorf("%+v", got)
		}
		r.same("the job", before, r.job(c.Job.ID))
	}},
	{"hundreds at once", func(r *rig) {
		jobs := make([]store.NewJob, 300)
		for i := range jobs {
			jobs[i] = numbered("q", i)
		}
		r.create(jobs...)
		w := want("q")
		w.Max = 1000
		if got := r.claim(w); len(got) != 300 {
			r.Fatalf("%d claimed", len(got))
		}
		// Nobody was heard of since the store was opened, so there is no brake.
		if got := r.pass(leaseFor); got != (store.Swept{Unreceived: 300}) {
			r.Errorf("%+v", got)
		}
		if got := r.claim(w); len(got) != 300 || got[299].Job.Attempt != 2 {
			r.Errorf("%d claimed again", len(got))
		}
	}},
	{"a gap without sweeps lengthens leases and timeouts, once", func(r *rig) {
		silent := r.begin(newJob("silent"))
		n := newJob("slow")
		n.Timeout = 31 * time.Second
		slow := r.begin(n)
		r.pass(5 * time.Second)
		r.say(report(store.Heartbeat, silent))
		r.say(report(store.Heartbeat, slow))
		r.h.Clock.Pass(time.Minute)
		if got := r.sweep(); got.Graced != 2 || got.Lost+got.TimedOut != 0 {
			r.Fatalf("after the gap: %+v", got)
		}
		if got := r.pass(leaseFor - time.Second); got.Lost+got.TimedOut+got.Graced != 0 {
			r.Fatalf("within the grace: %+v", got)
		}
		if a := r.say(report(store.Complete, slow)); a.JobStatus != job.Succeeded {
			r.Errorf("the slow one: %+v", a)
		}
		if got := r.pass(time.Second); got.Lost != 1 {
			r.Errorf("after the grace: %+v", got)
		}
	}},
	{"a pause shorter than a third of the lease is no gap", func(r *rig) {
		r.begin(newJob("q"))
		r.pass(leaseFor - 10*time.Second)
		r.h.Clock.Pass(10 * time.Second)
		if got := r.sweep(); got.Graced != 0 || got.Unreceived != 1 {
			r.Errorf("%+v", got)
		}
	}},
	{"all workers silent at once is the path, once", func(r *rig) {
		for range 12 {
			r.put(newJob("q"))
		}
		claimed := r.claim(want("q"))
		r.pass(time.Second)
		for _, c := range claimed {
			r.say(report(store.Heartbeat, c))
		}
		if got := r.pass(leaseFor); got.Graced != 12 || got.Lost != 0 {
			r.Fatalf("at the leases' end: %+v", got)
		}
		if got := r.pass(leaseFor - time.Second); got.Lost != 0 {
			r.Fatalf("within the grace: %+v", got)
		}
		if a := r.say(report(store.Complete, claimed[0])); a.Status != store.ReportTaken {
			r.Errorf("a result that was kept meanwhile: %+v", a)
		}
		if got := r.pass(time.Second); got.Lost != 11 {
			r.Errorf("after the grace: %+v", got)
		}
	}},
	{"one worker of many that dies is lost in time", func(r *rig) {
		for range 40 {
			r.put(newJob("q"))
		}
		claimed := r.claim(want("q"))
		for range 3 {
			r.pass(10 * time.Second)
			for _, c := range claimed[12:] {
				r.say(report(store.Heartbeat, c))
			}
		}
		for id, want := range map[string]job.Status{claimed[0].Job.ID: job.Queued, claimed[39].Job.ID: job.Running} {
			r.status(id, want)
		}
	}},
	{"the clock never goes back and never jumps", func(r *rig) {
		c := r.begin(newJob("q"))
		n := newJob("later")
		n.Delay = 30 * time.Minute
		r.put(n)
		r.h.Clock.Jump(time.Hour)
		if got := r.sweep(); got.Unreceived != 0 || got.Graced != 0 {
			r.Errorf("a jump ahead: %+v", got)
		}
		if got := r.claim(want("later")); len(got) != 0 {
			r.Error("a jump ahead started a job early")
		}
		r.h.Clock.Jump(-3 * time.Hour)
		last := r.Now()
		for range 25 {
			r.pass(time.Second)
			if now := r.Now(); !now.After(last) || now.Sub(last) < 900*time.Millisecond || now.Sub(last) > 1100*time.Millisecond {
				r.Fatalf("%v passed in a second", now.Sub(last))
			}
			last = r.Now()
		}
		if a := r.say(report(store.Heartbeat, c)); a.Status != store.ReportTaken {
			r.Errorf("the lease, after jumps both ways: %+v", a)
		}
		r.restart(time.Second)
		if now := r.Now(); now.Before(last) {
			r.Errorf("%v before the restart, %v after it", last, now)
		}
		if a := r.say(report(store.Complete, c)); a.Status != store.ReportTaken {
			r.Errorf("the lease, after a restart: %+v", a)
		}
	}},
}
