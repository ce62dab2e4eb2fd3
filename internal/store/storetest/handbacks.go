package storetest

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

var handBackTests = []test{
	{"hand-backs for ever", func(r *rig) {
		c := r.begin(newJob("q"))
		r.say(failure(c, job.Failure{RetryIn: new(time.Duration(0))}))
		const n = 3 * store.HandBacks
		var last store.Report
		for range n {
			c = r.take("q")
			r.say(report(store.AddLog, c))
			last = report(store.Release, c)
			r.say(last)
		}
		j := r.job(c.Job.ID)
		if j.Attempt != n+1 || len(j.Attempts) != store.HandBacks+1 || j.Attempts[0].Number != 1 || j.Attempts[1].Number != n-store.HandBacks+2 {
			r.Fatalf("attempt %d, %d kept, from %+v", j.Attempt, len(j.Attempts), j.Attempts[:2])
		}
		if j.LastError == nil || j.Counts.Charged != 1 {
			r.Errorf("the one that failed is not counted: %+v", j)
		}
		for number, there := range map[int]bool{2: false, n - store.HandBacks + 1: false, n - store.HandBacks + 2: true, n + 1: true} {
			if l, err := r.Logs(r.ctx, j.ID, number); (err == nil) != there || there && len(l.Lines) != 1 {
				r.Errorf("the log of attempt %d: %+v, %v", number, l, err)
			}
		}
		if a := r.say(last); a.Status != store.ReportTaken {
			r.Errorf("the newest again: %+v", a)
		}
	}},
	{"hand-backs of the relay in a row", func(r *rig) {
		w := want("q")
		w.Worker = store.RelayWorker + "in"
		other := want("q")
		id := r.put(newJob("q"))
		claim := func(w store.Want) store.Claimed {
			r.Helper()
			r.h.Clock.Pass(time.Second)
			jobs := r.claim(w)
			if len(jobs) != 1 {
				r.Fatalf("%d jobs claimed, want 1", len(jobs))
			}
			return jobs[0]
		}
		back := func(w store.Want) (store.Report, store.Answer) {
			r.Helper()
			rep := report(store.Release, claim(w))
			rep.After = 500 * time.Millisecond
			a := r.say(rep)
			if a.Status != store.ReportTaken || a.JobStatus != job.Queued {
				r.Fatalf("%+v", a)
			}
			return rep, a
		}
		type kept struct {
			Number  int
			Worker  string
			Outcome job.Outcome
			Note    string
		}
		attempts := func() (all []kept) {
			for _, a := range r.job(id).Attempts {
				all = append(all, kept{a.Number, a.Worker, a.Outcome, a.Note})
			}
			return all
		}
		fails := func() {
			rep := failure(claim(w), job.Failure{RetryIn: new(time.Duration(0))})
			rep.Error = &job.Error{Message: "down"}
			r.say(rep)
		}
		fails()
		back(w)
		back(other) // another worker's are what they were
		back(other)
		var older, newest store.Report
		var answer store.Answer
		for range 40 {
			older = newest
			newest, answer = back(w)
		}
		want := []kept{
			{1, w.Worker, job.OutcomeFailed, ""}, {2, w.Worker, job.OutcomeReleased, ""},
			{3, worker, job.OutcomeReleased, ""}, {4, worker, job.OutcomeReleased, ""},
			{44, w.Worker, job.OutcomeReleased, "40 hand-backs in a row"},
		}
		r.same("the attempts", want, attempts())
		j := r.job(id)
		last := j.Attempts[len(j.Attempts)-1]
		if j.Attempt != 44 || j.Counts != (job.Counts{Charged: 1}) || j.LastError == nil || j.LastError.Message != "down" ||
			!j.RunAt.Equal(last.EndedAt.Add(500*time.Millisecond)) || !last.NextRunAt.Equal(j.RunAt) || !last.EndedAt.Equal(r.Now()) {
			r.Errorf("%+v", j)
		}
		r.same("the newest report again", answer, r.say(newest))
		if a := r.say(older); a.Status != store.LeaseLost {
			r.Errorf("an older one again: %+v", a)
		}
		if _, err := r.Logs(r.ctx, id, 43); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("the logs of an attempt that is not kept: %v", err)
		}
		// What was logged in is kept, and begins a count of its own.
		c := claim(w)
		r.log(c, line(1, 10))
		r.say(report(store.Release, c))
		back(w)
		back(w)
		want[4] = kept{45, w.Worker, job.OutcomeReleased, "41 hand-backs in a row"}
		want = append(want, kept{47, w.Worker, job.OutcomeReleased, "2 hand-backs in a row"})
		r.same("the attempts", want, attempts())
		if lines := r.logs(id, 45).Lines; len(lines) != 1 {
			r.Errorf("the log that was kept: %v", lines)
		}
		// A process that ends hands back, too; a failure ends the row.
		claim(w)
		r.restart(0)
		fails()
		back(w)
		want[5] = kept{48, w.Worker, job.OutcomeReleased, "3 hand-backs in a row; its process ended"}
		want = append(want, kept{49, w.Worker, job.OutcomeFailed, ""}, kept{50, w.Worker, job.OutcomeReleased, ""})
		r.same("the attempts", want, attempts())
		r.say(report(store.Complete, claim(w)))
		r.h.Clock.Pass(time.Hour)
		r.retain(time.Minute, time.Minute)
		if n := len(r.all(store.Filter{})); n != 0 {
			r.Errorf("%d jobs are left", n)
		}
	}},
}
