package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// The defaults of the suite's jobs and claims.
const (
	leaseFor = 30 * time.Second
	timeout  = 5 * time.Minute
	worker   = "worker-1"
)

// rig is an open store and what tests do with it. Its methods end the test where
// the store returns an error.
type rig struct {
	*testing.T
	store.Store
	h   Harness
	ctx context.Context
}

func newRig(t *testing.T, h Harness) *rig {
	r := &rig{T: t, h: h, ctx: t.Context()}
	r.Store = h.Open(t)
	t.Cleanup(func() {
		// The test's context has ended by now.
		if err := r.Store.Ready(context.Background()); err == nil {
			if err := CheckCounts(context.Background(), r.Store); err != nil {
				t.Errorf("recount: %v", err)
			}
		}
		if err := r.Store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// must ends the test at an error.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// restart closes the store, lets time pass, and opens it again.
func (r *rig) restart(away time.Duration) {
	r.Helper()
	r.must(r.Close())
	r.h.Clock.Pass(away)
	r.Store = r.h.Open(r.T)
}

// pass lets time pass, with a sweep each second as a server makes them, and
// returns what the sweeps ended.
func (r *rig) pass(d time.Duration) (all store.Swept) {
	r.Helper()
	for d > 0 {
		step := min(d, time.Second)
		r.h.Clock.Pass(step)
		d -= step
		s := r.sweep()
		all.Next = s.Next
		all.TimedOut += s.TimedOut
		all.Lost += s.Lost
		all.Unreceived += s.Unreceived
		all.Graced += s.Graced
	}
	return all
}

func (r *rig) sweep() store.Swept {
	r.Helper()
	s, err := r.Sweep(r.ctx)
	r.must(err)
	return s
}

// newJob is a job of task t in a queue.
func newJob(queue string) store.NewJob {
	return store.NewJob{
		Queue: queue, Task: "t", Version: "1", Content: job.Content{Payload: []byte(`{"n":1}`)},
		Policy: job.Resolve(), Timeout: timeout,
	}
}

// keyed is a job with an idempotency key and the hash of a request.
func keyed(queue, key string, hash byte) store.NewJob {
	j := newJob(queue)
	j.Key, j.Hash = key, [32]byte{hash}
	return j
}

func (r *rig) create(jobs ...store.NewJob) []store.Created {
	r.Helper()
	made, err := r.Create(r.ctx, jobs)
	r.must(err)
	if len(made) != len(jobs) {
		r.Fatalf("%d jobs made of %d", len(made), len(jobs))
	}
	return made
}

// put creates one job and returns its id.
func (r *rig) put(j store.NewJob) string {
	r.Helper()
	return r.create(j)[0].ID
}

// want asks for up to a hundred jobs of the queues.
func want(queues ...string) store.Want {
	w := store.Want{Worker: worker, Max: 100, MaxBytes: 8 << 20}
	for _, q := range queues {
		w.Queues = append(w.Queues, store.QueueLease{Queue: q, Lease: leaseFor})
	}
	return w
}

func (r *rig) claim(w store.Want) []store.Claimed {
	r.Helper()
	c, err := r.Claim(r.ctx, w)
	r.must(err)
	return c.Jobs
}

// take claims the one job that a queue has.
func (r *rig) take(queue string) store.Claimed {
	r.Helper()
	jobs := r.claim(want(queue))
	if len(jobs) != 1 {
		r.Fatalf("%d jobs claimed of %s, want 1", len(jobs), queue)
	}
	return jobs[0]
}

// begin creates a job and claims it.
func (r *rig) begin(j store.NewJob) store.Claimed {
	r.Helper()
	r.put(j)
	return r.take(j.Queue)
}

// say reports one thing.
func (r *rig) say(rep store.Report) store.Answer {
	r.Helper()
	return r.sayAll(rep)[0]
}

func (r *rig) sayAll(reports ...store.Report) []store.Answer {
	r.Helper()
	answers, err := r.Report(r.ctx, reports)
	r.must(err)
	if len(answers) != len(reports) {
		r.Fatalf("%d answers to %d reports", len(answers), len(reports))
	}
	return answers
}

func report(t store.ReportType, c store.Claimed) store.Report {
	rep := store.Report{Type: t, Lease: c.Lease}
	switch t {
	case store.Complete:
		rep.Result, rep.Hash = []byte(`{"ok":true}`), [32]byte{1}
	case store.Fail:
		rep.Error, rep.Hash = &job.Error{Type: "HttpError", Message: "503", Stack: "at x"}, [32]byte{2}
	case store.Release:
		rep.Hash = [32]byte{3}
	case store.AddLog:
		rep.Lines = []job.LogLine{{Seq: 1, At: Start, Level: "info", Message: "hello"}}
	case store.Start, store.Heartbeat:
	}
	return rep
}

// failure is a report of a failure, with what it asks for.
func failure(c store.Claimed, f job.Failure) store.Report {
	rep := report(store.Fail, c)
	rep.Failure = f
	return rep
}

func (r *rig) job(id string) *job.Job {
	r.Helper()
	j, err := r.Job(r.ctx, id)
	r.must(err)
	return j
}

func (r *rig) all(f store.Filter) []*job.Job {
	r.Helper()
	jobs, err := All(r.ctx, r.Store, f)
	r.must(err)
	return jobs
}

func (r *rig) status(id string, want job.Status) {
	r.Helper()
	if j := r.job(id); j.Status != want {
		r.Fatalf("%s is %s, want %s", id, j.Status, want)
	}
}

// same compares two values; times by their moment, and nothing and empty alike.
func (r *rig) same(what string, want, got any) {
	r.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		r.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// until waits for what another goroutine does.
func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("%s: not after 20 s", what)
		}
	}
}

// waiting parks a claim and returns where its end comes.
func (r *rig) waiting(ctx context.Context, w store.Want) <-chan parked {
	r.Helper()
	ch := make(chan parked, 1)
	before := r.Vitals().Parked
	go func() {
		c, err := r.Claim(ctx, w)
		ch <- parked{c, err}
	}()
	r.until("a claim waits", func() bool { return r.Vitals().Parked > before })
	return ch
}

// parked is the end of a claim that waited.
type parked struct {
	claim store.Claim
	err   error
}

// served is the jobs that a waiting claim got.
func (r *rig) served(ch <-chan parked) []store.Claimed {
	r.Helper()
	select {
	case p := <-ch:
		r.must(p.err)
		return p.claim.Jobs
	case <-time.After(20 * time.Second):
		r.Fatal("a claim that waits was not served for 20 s")
		return nil
	}
}

func ids(jobs []store.Claimed) (all []string) {
	for _, c := range jobs {
		all = append(all, c.Job.ID)
	}
	return all
}

// numbered is a job whose payload tells it from others.
func numbered(queue string, n int) store.NewJob {
	j := newJob(queue)
	j.Content.Payload = fmt.Appendf(nil, `{"n":%d}`, n)
	return j
}

func equal(a, b any) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }
