package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// line is a log line of a size.
func line(seq int64, bytes int) job.LogLine {
	return job.LogLine{Seq: seq, At: Start.Add(time.Duration(seq) * time.Millisecond), Level: "info", Message: strings.Repeat("x", bytes)}
}

func (r *rig) log(c store.Claimed, lines ...job.LogLine) {
	r.Helper()
	rep := report(store.AddLog, c)
	rep.Lines = lines
	if a := r.say(rep); a.Status != store.ReportTaken {
		r.Fatalf("%+v", a)
	}
}

func (r *rig) logs(id string, attempt int) store.Log {
	r.Helper()
	log, err := r.Logs(r.ctx, id, attempt)
	r.must(err)
	return log
}

var logTests = []test{
	{"lines by their seq, each once", func(r *rig) {
		c := r.begin(newJob("q"))
		r.log(c, line(3, 5), line(1, 5))
		r.log(c, line(1, 9), line(2, 5), line(3, 9), line(2, 9))
		want := store.Log{Lines: []job.LogLine{line(1, 5), line(2, 5), line(3, 5)}}
		r.same("while it runs", want, r.logs(c.Job.ID, 1))
		r.say(report(store.Release, c))
		r.same("after its end", want, r.logs(c.Job.ID, 1))
		second := r.take("q")
		r.same("the next attempt", store.Log{}, r.logs(c.Job.ID, 2))
		r.log(second, line(1, 2))
		r.same("the next attempt", store.Log{Lines: []job.LogLine{line(1, 2)}}, r.logs(c.Job.ID, 2))
		r.restart(0)
		r.same("after a restart", want, r.logs(c.Job.ID, 1))
		r.log(second, line(1, 8), line(2, 2))
		r.same("and on", store.Log{Lines: []job.LogLine{line(1, 2), line(2, 2)}}, r.logs(c.Job.ID, 2))
	}},
	{"cut at the bound, and marked", func(r *rig) {
		c := r.begin(newJob("q"))
		n := int64(0)
		for ; n < store.MaxLog/4096; n++ {
			r.log(c, line(n, 4096))
		}
		if log := r.logs(c.Job.ID, 1); log.Cut || len(log.Lines) != int(n) {
			r.Fatalf("%d lines of %d at the bound, cut %t", len(log.Lines), n, log.Cut)
		}
		r.log(c, line(0, 4096), line(3, 4096))
		if log := r.logs(c.Job.ID, 1); log.Cut {
			r.Error("a repeat of what is there counts as too much")
		}
		r.log(c, line(n, 1))
		r.restart(0)
		r.log(c, line(n, 1), line(n+1, 1))
		check := func(when string) {
			log := r.logs(c.Job.ID, 1)
			size := 0
			for _, l := range log.Lines {
				size += len(l.Message)
			}
			if !log.Cut || size > store.MaxLog || len(log.Lines) != int(n) {
				r.Errorf("%s: %d lines of %d bytes, cut %t", when, len(log.Lines), size, log.Cut)
			}
		}
		check("while it runs")
		if a := r.say(report(store.Complete, c)); a.Status != store.ReportTaken {
			r.Errorf("the end, after too much log: %+v", a)
		}
		check("after its end")
	}},
	{"of what is not there", func(r *rig) {
		id := r.put(newJob("q"))
		for _, attempt := range []int{0, 1, -1} {
			if _, err := r.Logs(r.ctx, id, attempt); !errors.Is(err, store.ErrNotFound) {
				r.Errorf("attempt %d: %v", attempt, err)
			}
		}
		if _, err := r.Logs(r.ctx, "job_00000000000000000000000000", 1); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("no job: %v", err)
		}
	}},
}

var readTests = []test{
	{"what is no job", func(r *rig) {
		id := r.put(newJob("q"))
		for _, no := range []string{"", "job_", "nonsense", "job_00000000000000000000000000", strings.ToUpper(id), id + "0", flip(id, 20), flip(id, 28), "job_\x00"} {
			if _, err := r.Job(r.ctx, no); !errors.Is(err, store.ErrNotFound) {
				r.Errorf("%q: %v", no, err)
			}
			if err := r.AwaitEnd(r.ctx, no); err != nil {
				r.Errorf("the end of %q: %v", no, err)
			}
		}
	}},
	{"a list by each filter", func(r *rig) {
		var made []*job.Job
		for i := range 24 {
			n := numbered([]string{"a", "b"}[i%2], i)
			n.Task, n.Endpoint = []string{"t", "u", "v"}[i%3], []string{"", "e"}[i/2%2]
			n.Tags = [][]string{nil, {"x"}, {"x", "y"}, {"xy"}}[i%4]
			n.Policy.MaxAttempts, n.Priority = 1, i // so that this one is claimed
			id := r.put(n)
			switch i % 6 {
			case 1:
				r.say(report(store.Complete, r.takeOne(n.Queue)))
			case 2:
				r.say(report(store.Fail, r.takeOne(n.Queue)))
			case 3:
				r.say(failure(r.takeOne(n.Queue), job.Failure{Permanent: true}))
			case 4:
				r.takeOne(n.Queue)
			}
			j := r.job(id)
			j.Attempts = nil
			made = append(made, j)
			r.h.Clock.Pass(time.Second)
		}
		slices.Reverse(made)
		for name, c := range map[string]struct {
			filter store.Filter
			pass   func(*job.Job) bool
		}{
			"everything":                  {store.Filter{}, func(*job.Job) bool { return true }},
			"a queue":                     {store.Filter{Queue: "a"}, func(j *job.Job) bool { return j.Queue == "a" }},
			"no such queue":               {store.Filter{Queue: "A"}, func(*job.Job) bool { return false }},
			"a task":                      {store.Filter{Task: "u"}, func(j *job.Job) bool { return j.Task == "u" }},
			"an endpoint":                 {store.Filter{Endpoint: "e"}, func(j *job.Job) bool { return j.Endpoint == "e" }},
			"a tag":                       {store.Filter{Tag: "x"}, func(j *job.Job) bool { return slices.Contains(j.Tags, "x") }},
			"a reason":                    {store.Filter{Reason: job.ReasonExhausted}, func(j *job.Job) bool { return j.Reason == job.ReasonExhausted }},
			"a reason and another status": {store.Filter{Reason: job.ReasonExhausted, Status: job.Queued}, func(*job.Job) bool { return false }},
			"after":                       {store.Filter{CreatedAfter: Start.Add(7 * time.Second)}, func(j *job.Job) bool { return !j.CreatedAt.Before(Start.Add(7 * time.Second)) }},
			"before":                      {store.Filter{CreatedBefore: Start.Add(7 * time.Second)}, func(j *job.Job) bool { return j.CreatedAt.Before(Start.Add(7 * time.Second)) }},
			"between": {store.Filter{CreatedAfter: Start.Add(3 * time.Second), CreatedBefore: Start.Add(9 * time.Second)}, func(j *job.Job) bool {
				return !j.CreatedAt.Before(Start.Add(3*time.Second)) && j.CreatedAt.Before(Start.Add(9*time.Second))
			}},
			"all of it": {store.Filter{Queue: "a", Task: "v", Status: job.Failed, Reason: job.ReasonExhausted, Tag: "x", CreatedAfter: Start}, func(j *job.Job) bool {
				return j.Queue == "a" && j.Task == "v" && j.Reason == job.ReasonExhausted && slices.Contains(j.Tags, "x")
			}},
		} {
			r.list(name, made, c.filter, c.pass)
		}
		for _, s := range job.Statuses() {
			r.list(string(s), made, store.Filter{Status: s}, func(j *job.Job) bool { return j.Status == s })
		}
	}},
	{"a list while jobs are created", func(r *rig) {
		var made []string
		for i := range 60 {
			made = append(made, r.put(numbered("q", i)))
		}
		slices.Reverse(made)
		var got []string
		f := store.Filter{Limit: 7, Queue: "q"}
		for i := 0; ; i++ {
			page, err := r.List(r.ctx, f)
			r.must(err)
			if len(page.Jobs) > f.Limit {
				r.Fatalf("%d jobs in a page of %d", len(page.Jobs), f.Limit)
			}
			for _, j := range page.Jobs {
				got = append(got, j.ID)
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
			r.put(numbered("q", 100+i))
			r.takeOne("q")
		}
		r.same("each job that was there, once", made, got)
	}},
	{"a cursor outlives a restart", func(r *rig) {
		var made []string
		for i := range 5 {
			made = append(made, r.put(numbered("q", i)))
		}
		page, err := r.List(r.ctx, store.Filter{Limit: 2})
		r.must(err)
		r.restart(0)
		var got []string // a page may be short
		for _, j := range append(page.Jobs, r.all(store.Filter{Limit: 2, Cursor: page.Next})...) {
			got = append(got, j.ID)
		}
		slices.Reverse(made)
		r.same("the list", made, got)
	}},
	{"a cursor that is none", func(r *rig) {
		for i := range 3 {
			r.put(numbered("q", i))
		}
		page, err := r.List(r.ctx, store.Filter{Limit: 1})
		r.must(err)
		for _, c := range []string{"x", "!", flip(page.Next, 0), flip(page.Next, len(page.Next)/2), page.Next + "A", page.Next[1:], "\x00", strings.Repeat("A", 5000)} {
			if _, err := r.List(r.ctx, store.Filter{Limit: 1, Cursor: c}); !errors.Is(err, store.ErrBadCursor) {
				r.Errorf("%q: %v", c, err)
			}
		}
	}},
	{"no page over its limit", func(r *rig) {
		jobs := make([]store.NewJob, store.MaxPage+1)
		for i := range jobs {
			jobs[i] = newJob("q")
		}
		r.create(jobs...)
		f, seen := store.Filter{Limit: store.MaxPage}, 0
		for seen < len(jobs) {
			page, err := r.List(r.ctx, f)
			r.must(err)
			seen += len(page.Jobs)
			if len(page.Jobs) > store.MaxPage || page.Next == "" && seen < len(jobs) {
				r.Fatalf("%d jobs in a page, %d of %d in all, next %q", len(page.Jobs), seen, len(jobs), page.Next)
			}
			f.Cursor = page.Next
		}
	}},
	{"waiting for an end", func(r *rig) {
		c := r.begin(newJob("q"))
		other := r.put(newJob("other"))
		wait := func(ctx context.Context, id string) <-chan error {
			ch := make(chan error, 1)
			go func() { ch <- r.AwaitEnd(ctx, id) }()
			return ch
		}
		ctx, cancel := context.WithCancel(r.ctx)
		first, second, never := wait(r.ctx, c.Job.ID), wait(r.ctx, c.Job.ID), wait(ctx, other)
		r.say(report(store.Heartbeat, c))
		r.say(report(store.Release, c))
		c = r.take("q")
		select {
		case err := <-first:
			r.Fatalf("ended before the job: %v", err)
		default:
		}
		r.say(report(store.Complete, c))
		r.must(<-first)
		r.must(<-second)
		r.must(r.AwaitEnd(r.ctx, c.Job.ID))
		cancel()
		if err := <-never; !errors.Is(err, context.Canceled) {
			r.Errorf("err = %v", err)
		}
		// A failure is an end too, and so is one by the sweep.
		n := newJob("last")
		n.Policy.MaxAttempts, n.Timeout = 1, time.Second
		dead := r.begin(n)
		ended := wait(r.ctx, dead.Job.ID)
		r.pass(time.Second)
		r.must(<-ended)
		r.status(dead.Job.ID, job.Failed)
	}},
	{"a close ends who waits for an end", func(r *rig) {
		id := r.put(newJob("q"))
		ch := make(chan error, 1)
		go func() { ch <- r.AwaitEnd(r.ctx, id) }()
		r.must(r.Close())
		if err := <-ch; !errors.Is(err, store.ErrClosed) {
			r.Errorf("err = %v", err)
		}
	}},
}

// takeOne claims one job of a queue that may have more.
func (r *rig) takeOne(queue string) store.Claimed {
	r.Helper()
	w := want(queue)
	w.Max = 1
	jobs := r.claim(w)
	if len(jobs) != 1 {
		r.Fatalf("%d jobs claimed of %s, want 1", len(jobs), queue)
	}
	return jobs[0]
}

// list compares a list with those of the made jobs that pass, in pages of every
// size.
func (r *rig) list(name string, made []*job.Job, f store.Filter, pass func(*job.Job) bool) {
	r.Helper()
	var want []*job.Job
	for _, j := range made {
		if pass(j) {
			want = append(want, j)
		}
	}
	for _, limit := range []int{1, 5, 500} {
		f.Limit = limit
		r.same(fmt.Sprintf("%s, by %d", name, limit), want, r.all(f))
	}
}
