package storetest

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

var reportTests = []test{
	{"complete", func(r *rig) {
		c := r.begin(newJob("q"))
		r.h.Clock.Pass(time.Second)
		rep := report(store.Complete, c)
		rep.Note = "the result was cleaned"
		r.same("the answer", store.Answer{Status: store.ReportTaken, JobStatus: job.Succeeded}, r.say(rep))
		j, now := r.job(c.Job.ID), Start.Add(time.Second)
		if j.Status != job.Succeeded || string(j.Result) != `{"ok":true}` || !j.FinishedAt.Equal(now) || j.Reason != "" || j.LastError != nil {
			r.Errorf("%+v", j)
		}
		r.same("the attempts", []job.Attempt{{
			Number: 1, Worker: worker, StartedAt: Start, EndedAt: now, Outcome: job.OutcomeSucceeded, Charged: true, Note: rep.Note,
		}}, j.Attempts)
		r.same("the counts", job.Counts{Charged: 1}, j.Counts)
		r.restart(0)
		r.same("after a restart", j, r.job(j.ID))
	}},
	{"complete without a result", func(r *rig) {
		c := r.begin(newJob("q"))
		rep := report(store.Complete, c)
		rep.Result = nil
		r.say(rep)
		if j := r.job(c.Job.ID); j.Result != nil {
			r.Errorf("result %q", j.Result)
		}
	}},
	{"fail and be retried", func(r *rig) {
		c := r.begin(newJob("q"))
		r.h.Clock.Pass(time.Second)
		now := Start.Add(time.Second)
		due := now.Add(10 * time.Second)
		rep := report(store.Fail, c)
		r.same("the answer", store.Answer{Status: store.ReportTaken, JobStatus: job.Queued, RunAt: due}, r.say(rep))
		j := r.job(c.Job.ID)
		if j.Status != job.Queued || !j.RunAt.Equal(due) || !j.FinishedAt.IsZero() || j.Attempt != 1 {
			r.Errorf("%+v", j)
		}
		r.same("the last error", rep.Error, j.LastError)
		r.same("the attempts", []job.Attempt{{
			Number: 1, Worker: worker, StartedAt: Start, EndedAt: now, Outcome: job.OutcomeFailed, Charged: true, Error: rep.Error, NextRunAt: due,
		}}, j.Attempts)
		r.h.Clock.Pass(10*time.Second - time.Millisecond)
		if got := r.claim(want("q")); len(got) != 0 {
			r.Error("retried a millisecond early")
		}
		r.h.Clock.Pass(time.Millisecond)
		again := r.take("q")
		if again.Job.Attempt != 2 || again.Job.Counts.Charged != 1 || !again.Job.RunAt.Equal(due) {
			r.Errorf("the second attempt: %+v", again.Job)
		}
		r.same("its last error, without the stack", &job.Error{Type: rep.Error.Type, Message: rep.Error.Message}, again.Job.LastError)
		r.say(report(store.Complete, again))
		j = r.job(c.Job.ID)
		r.same("the last error stays", rep.Error, j.LastError)
		if len(j.Attempts) != 2 || j.Attempts[1].Number != 2 || !j.RunAt.Equal(due) {
			r.Errorf("%+v", j)
		}
	}},
	{"the whole schedule", func(r *rig) {
		id := r.put(newJob("q"))
		var waits []time.Duration
		for {
			c := r.take("q")
			a := r.say(report(store.Fail, c))
			if a.JobStatus == job.Failed {
				break
			}
			wait := a.RunAt.Sub(r.Now())
			waits = append(waits, wait)
			r.h.Clock.Pass(wait)
		}
		s := time.Second
		r.same("the waits", []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 640 * s}, waits)
		j := r.job(id)
		if j.Status != job.Failed || j.Reason != job.ReasonExhausted || j.Counts.Charged != 8 || len(j.Attempts) != 8 || j.FinishedAt.IsZero() {
			r.Errorf("%+v", j)
		}
		if last := j.Attempts[7]; !last.NextRunAt.IsZero() {
			r.Errorf("the last attempt promises another: %+v", last)
		}
	}},
	{"a failure for good", func(r *rig) {
		c := r.begin(newJob("q"))
		a := r.say(failure(c, job.Failure{Permanent: true, RetryIn: new(time.Second)}))
		r.same("the answer", store.Answer{Status: store.ReportTaken, JobStatus: job.Failed}, a)
		if j := r.job(c.Job.ID); j.Reason != job.ReasonNonRetryable || j.LastError == nil {
			r.Errorf("%+v", j)
		}
	}},
	{"what a failure asks for", func(r *rig) {
		for name, c := range map[string]struct {
			in, after *time.Duration
			want      time.Duration
			note      bool
		}{
			"a wait":                  {new(3 * time.Second), nil, 3 * time.Second, false},
			"at once":                 {new(time.Duration(0)), nil, 0, false},
			"a longer pause":          {nil, new(time.Hour), time.Hour, false},
			"a shorter pause":         {nil, new(time.Second), 10 * time.Second, false},
			"both, the later":         {new(time.Minute), new(time.Second), time.Minute, false},
			"more than there is":      {new(1000 * time.Hour), nil, job.MaxDelay, true},
			"more than there is, too": {nil, new(1000 * time.Hour), job.MaxDelay, true},
		} {
			k := r.begin(newJob("q"))
			rep := failure(k, job.Failure{RetryIn: c.in, RetryAfter: c.after})
			rep.Note = "cleaned"
			if got := r.say(rep).RunAt.Sub(r.Now()); got != c.want {
				r.Errorf("%s: in %v, want %v", name, got, c.want)
			}
			if note := r.job(k.Job.ID).Attempts[0].Note; (note != "cleaned") != c.note {
				r.Errorf("%s: note %q", name, note)
			}
			if c.want == 0 {
				r.say(report(store.Complete, r.take("q")))
			}
		}
	}},
	{"release", func(r *rig) {
		c := r.begin(newJob("q"))
		r.h.Clock.Pass(time.Second)
		now := Start.Add(time.Second)
		r.same("the answer", store.Answer{Status: store.ReportTaken, JobStatus: job.Queued, RunAt: now}, r.say(report(store.Release, c)))
		j := r.job(c.Job.ID)
		r.same("the attempts", []job.Attempt{{
			Number: 1, Worker: worker, StartedAt: Start, EndedAt: now, Outcome: job.OutcomeReleased, NextRunAt: now,
		}}, j.Attempts)
		r.same("nothing is counted", job.Counts{}, j.Counts)
		second := r.take("q")
		rep := report(store.Release, second)
		rep.After = time.Minute
		if a := r.say(rep); !a.RunAt.Equal(now.Add(time.Minute)) {
			r.Errorf("rests until %v", a.RunAt)
		}
		if got := r.claim(want("q")); len(got) != 0 {
			r.Error("claimed while it rests")
		}
		r.h.Clock.Pass(time.Minute)
		if third := r.take("q"); third.Job.Attempt != 3 {
			r.Errorf("attempt %d, want 3", third.Job.Attempt)
		}
	}},
	{"heartbeats lengthen the lease", func(r *rig) {
		c := r.begin(newJob("q"))
		for i := range 10 {
			r.pass(20 * time.Second)
			want := store.Answer{Status: store.ReportTaken, JobStatus: job.Running, LeaseUntil: Start.Add(time.Duration(i+1)*20*time.Second + leaseFor)}
			r.same("the answer", want, r.say(report(store.Heartbeat, c)))
		}
		r.status(c.Job.ID, job.Running)
		if got := r.pass(leaseFor - time.Second); got.Lost != 0 {
			r.Error("lost early")
		}
		if got := r.pass(time.Second); got.Lost != 1 {
			r.Error("not lost at the lease's end")
		}
	}},
	{"start begins the timeout, once", func(r *rig) {
		n := newJob("q")
		n.Timeout = 20 * time.Second
		c := r.begin(n)
		r.pass(10 * time.Second)
		r.same("the answer", store.Answer{Status: store.ReportTaken, JobStatus: job.Running, LeaseUntil: Start.Add(leaseFor)}, r.say(report(store.Start, c)))
		if at := r.job(c.Job.ID).Attempts[0].StartedAt; !at.Equal(Start.Add(10 * time.Second)) {
			r.Errorf("started at %v", at)
		}
		r.pass(9 * time.Second)
		r.say(report(store.Start, c))
		r.say(report(store.Heartbeat, c))
		if got := r.pass(10 * time.Second); got.TimedOut != 0 {
			r.Error("the timeout counts from the claim")
		}
		if got := r.pass(time.Second); got.TimedOut != 1 {
			r.Error("a second start began the timeout again")
		}
		if at := r.job(c.Job.ID).Attempts[0].StartedAt; !at.Equal(Start.Add(10 * time.Second)) {
			r.Errorf("started at %v", at)
		}
	}},
	{"what is not a lease", func(r *rig) {
		c := r.begin(newJob("q"))
		before := r.job(c.Job.ID)
		for _, token := range []string{
			"", "lse_", "nonsense", c.Job.ID, c.Lease + "A", c.Lease[:len(c.Lease)-1], flip(c.Lease, 5), flip(c.Lease, len(c.Lease)-2),
			"\x00\xff", string(make([]byte, 10_000)),
		} {
			for _, kind := range reportTypes {
				rep := report(kind, c)
				rep.Lease = token
				r.same(fmt.Sprintf("%s under %q", kind, token), store.Answer{Status: store.LeaseLost}, r.say(rep))
			}
		}
		r.same("the job", before, r.job(c.Job.ID))
	}},
	{"of other queues", func(r *rig) {
		c := r.begin(newJob("q"))
		for _, t := range []store.ReportType{store.Start, store.Heartbeat, store.AddLog, store.Complete, store.Fail, store.Release} {
			for _, queues := range [][]string{{"other"}, {}} {
				rep := report(t, c)
				rep.Queues = queues
				if a := r.say(rep); a.Status != store.LeaseLost {
					r.Errorf("%s by who may report on %v: %+v", t, queues, a)
				}
			}
		}
		j := r.job(c.Job.ID)
		if l, err := r.Logs(r.ctx, c.Job.ID, 1); err != nil || len(l.Lines) > 0 || j.Status != job.Running || len(j.Attempts) != 1 {
			r.Errorf("they changed something: %+v, %+v, %v", j, l, err)
		}
		rep := report(store.Complete, c)
		rep.Queues = []string{"other", "q"}
		if a := r.say(rep); a.Status != store.ReportTaken {
			r.Errorf("of its own queue: %+v", a)
		}
		if a := r.say(rep); a.Status != store.ReportTaken {
			r.Errorf("again: %+v", a)
		}
		if rep.Queues = []string{"other"}; r.say(rep).Status != store.LeaseLost {
			r.Error("the answer again, for who may not see it")
		}
	}},
	{"a type of report that is none", func(r *rig) {
		c := r.begin(newJob("q"))
		before := r.job(c.Job.ID)
		r.say(store.Report{Type: "explode", Lease: c.Lease})
		r.same("the job", before, r.job(c.Job.ID))
	}},
	{"a lease that lapsed is stale", func(r *rig) {
		old := r.begin(newJob("q"))
		r.say(report(store.AddLog, old))
		r.pass(leaseFor)
		stale := func(when string) {
			before := r.job(old.Job.ID)
			for _, kind := range reportTypes {
				r.same(string(kind)+" "+when, store.Answer{Status: store.LeaseLost}, r.say(report(kind, old)))
			}
			late := report(store.AddLog, old)
			late.Lines[0].Seq = 2
			r.say(late)
			r.same("the job, "+when, before, r.job(old.Job.ID))
			if log, err := r.Logs(r.ctx, old.Job.ID, 1); err != nil || len(log.Lines) != 1 {
				r.Errorf("%d lines of the lapsed attempt %s, %v", len(log.Lines), when, err)
			}
		}
		stale("while it waits")
		current := r.take("q")
		stale("while another has it")
		if a := r.say(report(store.Heartbeat, current)); a.Status != store.ReportTaken {
			r.Errorf("the current lease: %+v", a)
		}
		r.restart(0)
		stale("after a restart")
		r.say(report(store.Complete, current))
		stale("after the end")
	}},
	{"a report that settled gets its answer again", func(r *rig) {
		for _, kind := range []store.ReportType{store.Complete, store.Fail, store.Release} {
			c := r.begin(newJob("q"))
			rep := report(kind, c)
			answer := r.say(rep)
			check := func(when string) {
				before := r.job(c.Job.ID)
				r.same(string(kind)+", "+when, answer, r.say(rep))
				other := rep
				other.Hash = [32]byte{99}
				r.same("another "+string(kind)+", "+when, store.Answer{Status: store.LeaseLost}, r.say(other))
				for _, small := range []store.ReportType{store.Start, store.Heartbeat, store.AddLog} {
					r.same(string(small)+" after "+string(kind)+", "+when, store.Answer{Status: store.LeaseLost}, r.say(report(small, c)))
				}
				r.same("the job", before, r.job(c.Job.ID))
			}
			check("at once")
			r.h.Clock.Pass(time.Hour)
			check("an hour later")
			r.restart(0)
			check("after a restart")
			if answer.JobStatus == job.Queued {
				again := r.take("q")
				check("while the next attempt runs")
				r.say(report(store.Complete, again))
				check("after the job's end")
			}
		}
	}},
	{"each report of a batch by itself", func(r *rig) {
		var leases []store.Claimed
		for i := range 4 {
			leases = append(leases, r.begin(numbered("q", i)))
		}
		bad := report(store.Complete, leases[0])
		bad.Lease = "garbage"
		other := report(store.Fail, leases[1])
		answers := r.sayAll(
			bad, report(store.Complete, leases[0]), report(store.Heartbeat, leases[1]), report(store.Complete, leases[1]),
			report(store.Complete, leases[1]), other, report(store.Start, leases[2]), report(store.Release, leases[3]),
		)
		lost, done := store.Answer{Status: store.LeaseLost}, store.Answer{Status: store.ReportTaken, JobStatus: job.Succeeded}
		holds := store.Answer{Status: store.ReportTaken, JobStatus: job.Running, LeaseUntil: Start.Add(leaseFor)}
		r.same("the answers", []store.Answer{
			lost, done, holds, done, done, lost, holds, {Status: store.ReportTaken, JobStatus: job.Queued, RunAt: Start},
		}, answers)
	}},
	{"no reports", func(r *rig) {
		if answers, err := r.Report(r.ctx, nil); err != nil || len(answers) != 0 {
			r.Errorf("%v, %v", answers, err)
		}
	}},
}

var reportTypes = []store.ReportType{store.Start, store.Heartbeat, store.AddLog, store.Complete, store.Fail, store.Release}

// flip changes one character.
func flip(text string, at int) string {
	b := []byte(text)
	if b[at]++; b[at] == '{' || b[at] == '[' || b[at] == ':' {
		b[at] = '0'
	}
	return string(b)
}
