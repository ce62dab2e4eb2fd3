package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

var createTests = []test{
	{"every value is kept", func(r *rig) {
		n := store.NewJob{
			Queue: "q", Task: "mail", Version: "2", Endpoint: "mailer", Priority: -7,
			Content: job.Content{Payload: []byte(" {\"a\": \"\x00 is not JSON, bytes are bytes\"} "), Head: []byte("head\x00")},
			Tags:    []string{"b", "a", `"`}, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			Policy: job.Resolve(job.Said{Level: job.LevelJob, Overlay: job.Overlay{
				MaxAttempts: new(3), Initial: new(1500 * time.Millisecond), Factor: new(1.7), MaxDelay: new(time.Minute), Jitter: new(0.1),
			}}),
			Timeout: 90 * time.Second, RunAt: Start.Add(time.Hour),
		}
		made := r.create(n)[0]
		if made.Found || !strings.HasPrefix(made.ID, "job_") || len(made.ID) != len("job_")+26 {
			r.Errorf("made %+v", made)
		}
		want := &job.Job{
			ID: made.ID, Queue: n.Queue, Task: n.Task, Version: n.Version, Endpoint: n.Endpoint, Priority: n.Priority, Content: n.Content,
			Tags: n.Tags, Trace: n.Trace, Policy: n.Policy, Timeout: n.Timeout, CreatedAt: Start, RunAt: n.RunAt, Status: job.Queued,
		}
		r.same("the job", want, r.job(made.ID))
		r.same("what Create says", store.Created{ID: made.ID, CreatedAt: Start, RunAt: n.RunAt}, made)
		r.restart(0)
		r.same("the job after a restart", want, r.job(made.ID))
		r.same("the job in a list", []*job.Job{want}, r.all(store.Filter{}))
	}},
	{"what is left out is kept as nothing", func(r *rig) {
		n := newJob("q")
		j := r.job(r.put(n))
		if j.Content.Head != nil || len(j.Tags) != 0 || j.Trace != "" || j.Endpoint != "" || j.Priority != 0 {
			r.Errorf("%+v", j)
		}
		n.Content.Payload = nil // the empty body of a message
		n.Content.Head = []byte("head")
		if c := r.job(r.put(n)).Content; len(c.Payload) != 0 || string(c.Head) != "head" {
			r.Errorf("%+v", c)
		}
	}},
	{"when it may run", func(r *rig) {
		for name, c := range map[string]struct {
			runAt time.Time
			delay time.Duration
			want  time.Duration
		}{
			"at once": {want: 0}, "a time": {runAt: Start.Add(time.Minute), want: time.Minute},
			"a time that is past":  {runAt: Start.Add(-time.Hour), want: 0},
			"a delay":              {delay: time.Minute, want: time.Minute},
			"both: the time holds": {runAt: Start.Add(time.Second), delay: time.Minute, want: time.Second},
		} {
			n := newJob("q")
			n.RunAt, n.Delay = c.runAt, c.delay
			made := r.create(n)[0]
			if got := made.RunAt.Sub(made.CreatedAt); got != c.want {
				r.Errorf("%s: in %v, want %v", name, got, c.want)
			}
			if j := r.job(made.ID); !j.RunAt.Equal(made.RunAt) {
				r.Errorf("%s: the job says %v, Create said %v", name, j.RunAt, made.RunAt)
			}
		}
	}},
	{"ids grow with time", func(r *rig) {
		last := ""
		for i := range 40 {
			for _, c := range r.create(newJob("q"), newJob("q")) {
				if c.ID <= last {
					r.Fatalf("%s came after %s", c.ID, last)
				}
				last = c.ID
			}
			if i%10 == 5 {
				r.h.Clock.Pass(time.Millisecond)
			}
		}
	}},
	{"a key makes a repeat the same job", func(r *rig) {
		first := r.create(keyed("q", "k", 1))[0]
		again := r.create(keyed("q", "k", 1))[0]
		if again.ID != first.ID || !again.Found {
			r.Errorf("again: %+v, first: %+v", again, first)
		}
		r.restart(time.Hour)
		if again = r.create(keyed("q", "k", 1))[0]; again.ID != first.ID || !again.Found {
			r.Errorf("after a restart: %+v", again)
		}
		c := r.take("q")
		r.say(report(store.Complete, c))
		if again = r.create(keyed("q", "k", 1))[0]; again.ID != first.ID || !again.Found {
			r.Errorf("after the job's end: %+v", again)
		}
		if jobs := r.all(store.Filter{}); len(jobs) != 1 {
			r.Errorf("%d jobs, want 1", len(jobs))
		}
		if other := r.put(keyed("q", "K", 1)); other == first.ID {
			r.Error("keys are compared without their case")
		}
	}},
	{"a key with another request is a conflict", func(r *rig) {
		first := r.put(keyed("q", "k", 1))
		_, err := r.Create(r.ctx, []store.NewJob{newJob("q"), keyed("q", "new", 1), keyed("q", "k", 2)})
		e, ok := errors.AsType[*store.ConflictError](err)
		if !ok || *e != (store.ConflictError{Index: 2, Key: "k", ID: first}) {
			r.Fatalf("err = %#v", err)
		}
		if jobs := r.all(store.Filter{}); len(jobs) != 1 {
			r.Errorf("%d jobs, want the first alone", len(jobs))
		}
		if made := r.create(keyed("q", "new", 9))[0]; made.Found {
			r.Error("a key of a batch that failed is taken")
		}
	}},
	{"keys within one batch", func(r *rig) {
		made := r.create(keyed("q", "a", 1), newJob("q"), keyed("q", "a", 1), keyed("q", "b", 1), newJob("q"))
		if made[2].ID != made[0].ID || !made[2].Found || made[0].Found || made[1].ID == made[4].ID {
			r.Errorf("%+v", made)
		}
		_, err := r.Create(r.ctx, []store.NewJob{keyed("q", "c", 1), keyed("q", "c", 2)})
		if e, ok := errors.AsType[*store.ConflictError](err); !ok || e.Index != 1 || e.Key != "c" || e.ID != "" || e.Twin == nil || *e.Twin != 0 {
			r.Errorf("two requests under one new key: %v", err)
		}
		if jobs := r.all(store.Filter{}); len(jobs) != 4 {
			r.Errorf("%d jobs, want 4", len(jobs))
		}
	}},
	{"a large batch", func(r *rig) {
		jobs := make([]store.NewJob, 1000)
		for i := range jobs {
			jobs[i] = numbered("q", i)
			jobs[i].Task, jobs[i].Priority = fmt.Sprint("t", i%7), i%3
			if i%2 == 0 {
				jobs[i].Key = fmt.Sprint("key", i)
			}
		}
		made := r.create(jobs...)
		for i, j := range r.all(store.Filter{}) {
			if at := len(jobs) - 1 - i; j.ID != made[at].ID || string(j.Content.Payload) != string(jobs[at].Content.Payload) {
				r.Fatalf("job %d is %s with %s", at, j.ID, j.Content.Payload)
			}
		}
		w := want("q")
		w.Max = 1000
		got, last := r.claim(w), 2
		if len(got) != 1000 {
			r.Fatalf("%d claimed at once", len(got))
		}
		for _, c := range got {
			j := r.job(c.Job.ID)
			if j.Attempts = nil; !equal(j, c.Job) || j.Priority > last {
				r.Fatalf("claimed %+v after one with priority %d; it is %+v", c.Job, last, j)
			}
			last = j.Priority
		}
	}},
	{"nothing for a caller who is gone", func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		if _, err := r.Create(ctx, []store.NewJob{newJob("q")}); !errors.Is(err, context.Canceled) {
			r.Errorf("err = %v", err)
		}
		if jobs := r.all(store.Filter{}); len(jobs) != 0 {
			r.Errorf("%d jobs were made", len(jobs))
		}
	}},
	{"one key, many callers", func(r *rig) {
		made := make([]store.Created, 16)
		var wg sync.WaitGroup
		for i := range made {
			wg.Go(func() {
				got, err := r.Create(r.ctx, []store.NewJob{keyed("q", "k", 1)})
				if err != nil {
					r.Error(err)
					return
				}
				made[i] = got[0]
			})
		}
		wg.Wait()
		fresh := 0
		for _, c := range made {
			if c.ID != made[0].ID {
				r.Errorf("two jobs: %s and %s", c.ID, made[0].ID)
			}
			if !c.Found {
				fresh++
			}
		}
		if fresh != 1 {
			r.Errorf("%d of them made it", fresh)
		}
	}},
}
