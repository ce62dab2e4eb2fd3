package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// callers is how many goroutines create, claim and report at once.
const callers = 16

var togetherTests = []test{
	{"no job under two leases", func(r *rig) { oneHolder(r) }},
	{"reports of one lease", func(r *rig) {
		c := r.begin(newJob("q"))
		var taken, other atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				rep := report(store.Complete, c)
				rep.Hash = [32]byte{byte(i)}
				answers, err := r.Report(r.ctx, []store.Report{rep})
				switch {
				case err != nil:
					r.Error(err)
				case answers[0].Status == store.ReportTaken:
					taken.Add(1)
				default:
					other.Add(1)
				}
			})
		}
		wg.Wait()
		if taken.Load() != 1 {
			r.Errorf("%d of %d different ends of one lease were taken", taken.Load(), callers)
		}
	}},
	{"sweeps at once end each lease once", func(r *rig) {
		for i := range 8 {
			r.put(numbered("q", i))
		}
		r.claim(want("q"))
		r.pass(leaseFor - time.Second)
		r.h.Clock.Pass(time.Second)
		var ended atomic.Int64
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				s, err := r.Sweep(r.ctx)
				if err != nil {
					r.Error(err)
				}
				ended.Add(int64(s.Unreceived))
			})
		}
		wg.Wait()
		if ended.Load() != 8 {
			r.Errorf("%d leases were ended, want 8", ended.Load())
		}
	}},
}

// oneHolder lets callers create jobs, work them, hand them back and fail them,
// some waiting for work, until each has succeeded.
func oneHolder(r *rig) {
	const jobs = 40 // of each caller
	var mu sync.Mutex
	holder, attempts, done := map[string]string{}, map[string]int{}, map[string]bool{}
	ctx, stop := context.WithCancel(r.ctx)
	var makers, workers sync.WaitGroup
	for i := range callers {
		makers.Go(func() {
			for n := range jobs {
				if _, err := r.Create(r.ctx, []store.NewJob{keyed(fmt.Sprint("q", n%3), fmt.Sprint(i, "/", n), byte(n))}); err != nil {
					r.Error(err)
				}
			}
		})
		workers.Go(func() {
			w := want("q0", "q1", "q2")
			w.Worker, w.Max, w.Wait = fmt.Sprintf("worker-%d", i), 1+i%5, time.Minute
			for n := 0; ctx.Err() == nil; n++ {
				c, err := r.Claim(ctx, w)
				if err != nil {
					if ctx.Err() == nil {
						r.Error(err)
					}
					return
				}
				var reports []store.Report
				mu.Lock()
				for _, got := range c.Jobs {
					if other := holder[got.Job.ID]; other != "" || done[got.Job.ID] || got.Job.Attempt <= attempts[got.Job.ID] {
						r.Errorf("%s, attempt %d, was given to %s while %q had it after attempt %d", got.Job.ID, got.Job.Attempt, w.Worker, other, attempts[got.Job.ID])
					}
					holder[got.Job.ID], attempts[got.Job.ID] = w.Worker, got.Job.Attempt
					rep := report([]store.ReportType{store.Complete, store.Release, store.Complete, store.Fail}[(n+i)%4], got)
					rep.Failure.RetryIn = new(time.Duration(0))
					reports = append(reports, rep)
				}
				// What ends here may be claimed by another as soon as it is said.
				for k, got := range c.Jobs {
					delete(holder, got.Job.ID)
					if got.Job.Counts.Charged == 7 || reports[k].Type == store.Complete {
						reports[k].Type = store.Complete
						done[got.Job.ID] = true
					}
				}
				all := len(done) == callers*jobs
				mu.Unlock()
				answers, err := r.Report(r.ctx, reports)
				if err != nil {
					r.Error(err)
					return
				}
				for k, a := range answers {
					if a.Status != store.ReportTaken {
						r.Errorf("%s of %s: %+v", reports[k].Type, c.Jobs[k].Job.ID, a)
					}
				}
				if all {
					stop()
				}
			}
		})
	}
	makers.Wait()
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		r.Errorf("%d of %d jobs are done after a minute", len(done), callers*jobs)
		stop()
	}
	workers.Wait()
	stop()
	for _, j := range r.all(store.Filter{}) {
		if j.Status != job.Succeeded {
			r.Errorf("%s is %s", j.ID, j.Status)
		}
	}
}
