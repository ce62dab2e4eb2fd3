package storetest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// retain removes until nothing is left to remove.
func (r *rig) retain(finished, dead time.Duration) {
	r.Helper()
	for range 1000 {
		more, err := r.Retain(r.ctx, store.Retention{Finished: finished, DeadLetters: dead})
		r.must(err)
		if !more {
			return
		}
	}
	r.Fatal("retention has no end")
}

var upkeepTests = []test{
	{"retention", func(r *rig) {
		done := r.begin(keyed("q", "done", 1))
		r.log(done, line(1, 10))
		r.say(report(store.Complete, done))
		dead := r.begin(keyed("q", "dead", 1))
		r.say(failure(dead, job.Failure{Permanent: true}))
		check := newJob("q")
		check.Kind = job.Synthetic
		failed := r.begin(check)
		r.say(failure(failed, job.Failure{Permanent: true}))
		retried := r.begin(newJob("q"))
		r.say(failure(retried, job.Failure{RetryAfter: new(1000 * time.Hour)}))
		running := r.begin(newJob("q"))
		waits := r.put(newJob("waits"))
		r.h.Clock.Pass(time.Hour - time.Millisecond)
		r.retain(time.Hour, 2*time.Hour)
		if n := len(r.all(store.Filter{})); n != 6 {
			r.Fatalf("%d jobs a millisecond early, want 6", n)
		}
		r.h.Clock.Pass(time.Millisecond)
		r.retain(time.Hour, 2*time.Hour)
		gone := func(id, key string) {
			if _, err := r.Job(r.ctx, id); !errors.Is(err, store.ErrNotFound) {
				r.Errorf("%s: %v", key, err)
			}
			if _, err := r.Logs(r.ctx, id, 1); !errors.Is(err, store.ErrNotFound) {
				r.Errorf("the logs of %s: %v", key, err)
			}
			r.must(r.AwaitEnd(r.ctx, id))
			if made := r.create(keyed("again", key, 9))[0]; made.Found || made.ID == id {
				r.Errorf("the key of %s is still taken: %+v", key, made)
			}
		}
		gone(done.Job.ID, "done")
		if _, err := r.Job(r.ctx, failed.Job.ID); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("a check that failed is kept as a dead letter: %v", err)
		}
		r.status(dead.Job.ID, job.Failed)
		r.h.Clock.Pass(time.Hour)
		r.retain(time.Hour, 2*time.Hour)
		gone(dead.Job.ID, "dead")
		r.h.Clock.Pass(500 * time.Hour)
		r.retain(time.Hour, 2*time.Hour)
		r.status(retried.Job.ID, job.Queued)
		r.status(running.Job.ID, job.Running)
		r.status(waits, job.Queued)
	}},
	{"retention in steps", func(r *rig) {
		for i := range 3 {
			jobs := make([]store.NewJob, 200)
			for k := range jobs {
				jobs[k] = numbered("q", 1000*i+k)
			}
			r.create(jobs...)
			w := want("q")
			w.Max = 1000
			var reports []store.Report
			for _, c := range r.claim(w) {
				reports = append(reports, report(store.Complete, c))
			}
			r.sayAll(reports...)
		}
		kept := r.put(newJob("kept"))
		r.h.Clock.Pass(2 * time.Hour)
		calls := 0
		for more := store.More(true); more; calls++ {
			var err error
			more, err = r.Retain(r.ctx, store.Retention{Finished: time.Hour, DeadLetters: time.Hour})
			r.must(err)
			if calls == 0 {
				r.must(CheckCounts(r.ctx, r.Store))
			}
		}
		if calls < 2 {
			r.Errorf("600 jobs were removed in %d call", calls)
		}
		if left := r.all(store.Filter{}); len(left) != 1 || left[0].ID != kept {
			r.Errorf("%d jobs are left, want 1", len(left))
		}
	}},
	{"an id is never given twice", func(r *rig) {
		seen := map[string]bool{}
		for range 4 {
			c := r.begin(newJob("q"))
			if seen[c.Job.ID] || seen[c.Lease] {
				r.Fatalf("%s or its token was there before", c.Job.ID)
			}
			seen[c.Job.ID], seen[c.Lease] = true, true
			r.say(report(store.Complete, c))
			r.h.Clock.Pass(time.Second)
			r.retain(time.Millisecond, time.Millisecond)
			if n := len(r.all(store.Filter{})); n != 0 {
				r.Fatalf("%d jobs are left", n)
			}
			r.restart(0)
			if a := r.say(report(store.Complete, c)); a.Status != store.LeaseLost {
				r.Errorf("the token of a job that is gone: %+v", a)
			}
		}
	}},
	{"counts of each lane", func(r *rig) {
		n := newJob("q")
		n.Endpoint, n.Priority = "e", 3
		r.put(n)
		r.put(n)
		r.say(report(store.Complete, r.begin(newJob("done"))))
		r.say(failure(r.begin(newJob("dead")), job.Failure{Permanent: true}))
		r.begin(newJob("runs"))
		later := newJob("q")
		later.Delay = time.Hour
		r.put(later)
		counts := map[lane.Key]store.LaneCount{}
		all, err := r.Counts(r.ctx)
		r.must(err)
		for _, c := range all {
			counts[c.Lane] = c
		}
		at := func(queue string) lane.Key { return lane.Key{Queue: queue, Task: "t", Version: "1"} }
		high := lane.Key{Queue: "q", Task: "t", Version: "1", Endpoint: "e", Priority: 3}
		r.same("the counts", map[lane.Key]store.LaneCount{
			high: {Lane: high, Ready: 2}, at("q"): {Lane: at("q"), Ready: 1}, at("done"): {Lane: at("done"), Succeeded: 1},
			at("dead"): {Lane: at("dead"), Failed: 1}, at("runs"): {Lane: at("runs"), Running: 1},
		}, counts)
		if v := r.Vitals(); v.Running != 1 || v.Lanes != 5 || v.Parked != 0 || v.Bytes <= 0 || v.Commits <= 0 || v.Operations < v.Commits {
			r.Errorf("%+v", v)
		}
	}},
	{"a backup is a store", func(r *rig) {
		for i := range 30 {
			r.put(numbered("q", i))
		}
		r.put(keyed("keyed", "k", 1))
		r.say(report(store.Complete, r.takeOne("q")))
		r.say(report(store.Fail, r.takeOne("q")))
		held := r.takeOne("q")
		r.log(held, line(1, 10))
		r.must(r.AddKey(r.ctx, key("key_a", "first", 1)))
		r.must(r.AddLetter(r.ctx, letter("l1", "m1", "d", 0)))
		r.must(r.Pause(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "paused"}, "ops"))
		file := filepath.Join(r.TempDir(), "backup")
		r.must(r.Backup(r.ctx, file))
		if err := r.Backup(r.ctx, file); err == nil {
			r.Error("a backup was written over another")
		}
		before := r.all(store.Filter{})
		r.put(newJob("later"))

		copied := r.backup(file)
		r.must(CheckCounts(r.ctx, copied))
		r.same("the jobs", before, copied.all(store.Filter{}))
		for _, j := range before {
			r.same("a job", r.job(j.ID), copied.job(j.ID))
		}
		r.same("the logs", r.logs(held.Job.ID, 1), copied.logs(held.Job.ID, 1))
		for what, look := range map[string]func(store.Store) (any, error){
			"keys":    func(s store.Store) (any, error) { return s.Keys(r.ctx) },
			"letters": func(s store.Store) (any, error) { return s.Letters(r.ctx, store.LetterFilter{}, 0) },
			"pauses":  func(s store.Store) (any, error) { return s.Paused(r.ctx) },
		} {
			a, err := look(r.Store)
			r.must(err)
			b, err := look(copied.Store)
			r.must(err)
			r.same(what, a, b)
		}
		if made := copied.create(keyed("keyed", "k", 1))[0]; !made.Found {
			r.Error("the copy has forgotten a key")
		}
		if a := copied.say(report(store.Complete, held)); a.Status != store.LeaseLost {
			r.Errorf("a lease on the copy: %+v", a)
		}
		copied.status(held.Job.ID, job.Running)
		r.status(held.Job.ID, job.Running)
	}},
	{"what came after a backup is nothing in it", func(r *rig) {
		before := r.put(keyed("q", "before", 1))
		settled := r.begin(newJob("settled"))
		r.say(report(store.Complete, settled))
		file := filepath.Join(r.TempDir(), "backup")
		r.must(r.Backup(r.ctx, file))
		r.h.Clock.Pass(time.Second)
		// Two leases that the copy will give to others, too: of a job that it
		// does not have, and of one that it has.
		old, taken := r.begin(newJob("later")), r.take("q")
		r.log(old, line(1, 10))

		r.h.Clock.Pass(time.Minute)
		copied := r.backup(file)
		made := copied.begin(newJob("later"))
		copied.log(made, line(1, 20))
		again := copied.take("q")
		if made.Job.ID == old.Job.ID || again.Job.ID != before || again.Lease == taken.Lease || made.Lease == old.Lease {
			r.Fatalf("the copy gave %+v and %+v, the original %+v and %+v", made, again, old, taken)
		}
		if _, err := copied.Job(r.ctx, old.Job.ID); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("a job that is not in the copy: %v", err)
		}
		if _, err := copied.Logs(r.ctx, old.Job.ID, 1); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("its logs: %v", err)
		}
		ended, cancel := context.WithTimeout(r.ctx, 20*time.Second)
		defer cancel()
		r.must(copied.AwaitEnd(ended, old.Job.ID))
		for what, c := range map[string]store.Claimed{"of a job that is not there": old, "of one that is": taken, "that was settled": settled} {
			for _, kind := range []store.ReportType{store.Heartbeat, store.AddLog, store.Complete} {
				if a := copied.say(report(kind, c)); a.Status != store.LeaseLost {
					r.Errorf("a %s under a lease %s: %+v", kind, what, a)
				}
			}
		}
		copied.status(made.Job.ID, job.Running)
		copied.status(before, job.Running)
		if found := copied.create(keyed("q", "before", 1))[0]; !found.Found || found.ID != before {
			r.Errorf("its key leads to %+v, want %s", found, before)
		}
		// A copy's own tokens outlive its restart, and the original's the backup.
		second := filepath.Join(r.TempDir(), "second")
		r.must(copied.Backup(r.ctx, second))
		if a := r.backup(second).say(report(store.Complete, made)); a.Status != store.LeaseLost {
			r.Errorf("a copy of the copy: %+v", a)
		}
		r.must(copied.Close())
		copied.Store = r.h.OpenBackup(r.T, file)
		for _, answer := range []store.Answer{copied.say(report(store.Complete, made)), r.say(report(store.Complete, old))} {
			if answer.Status != store.ReportTaken {
				r.Errorf("a token after a restart, or a backup: %+v", answer)
			}
		}
	}},
	{"a backup while jobs come", func(r *rig) {
		ctx, stop := context.WithCancel(r.ctx)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if _, err := r.Create(r.ctx, []store.NewJob{numbered("q", i), numbered("q", i)}); err != nil {
						r.Error(err)
						return
					}
				}
			})
		}
		r.until("jobs", func() bool { return r.Vitals().Operations > 20 })
		file := filepath.Join(r.TempDir(), "backup")
		err := r.Backup(r.ctx, file)
		stop()
		wg.Wait()
		r.must(err)
		copied := r.backup(file)
		r.must(CheckCounts(r.ctx, copied))
		if n := len(copied.all(store.Filter{})); n == 0 || n%2 != 0 {
			r.Errorf("%d jobs, of batches of two", n)
		}
	}},
	{"a backup that is given up", func(r *rig) {
		r.put(newJob("q"))
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		file := filepath.Join(r.TempDir(), "backup")
		if err := r.Backup(ctx, file); !errors.Is(err, context.Canceled) {
			r.Errorf("err = %v", err)
		}
		r.must(r.Backup(r.ctx, file))
	}},
	{"after the end", func(r *rig) {
		c := r.begin(newJob("q"))
		r.must(r.Close())
		r.must(r.Close())
		for name, do := range operations(c) {
			if err := do(r.ctx, r.Store); !errors.Is(err, store.ErrClosed) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if err := r.Ready(r.ctx); !errors.Is(err, store.ErrClosed) {
			r.Errorf("ready: %v", err)
		}
	}},
	{"ready", func(r *rig) { r.must(r.Ready(r.ctx)) }},
}

// backup opens a backup, until the test ends.
func (r *rig) backup(file string) *rig {
	r.Helper()
	b := &rig{T: r.T, Store: r.h.OpenBackup(r.T, file), h: r.h, ctx: r.ctx}
	r.Cleanup(func() {
		if err := b.Close(); err != nil {
			r.Errorf("close of the backup: %v", err)
		}
	})
	return b
}

// operations are one of each that writes, c being a lease.
func operations(c store.Claimed) map[string]func(context.Context, store.Store) error {
	say := func(rep store.Report) func(context.Context, store.Store) error {
		return func(ctx context.Context, s store.Store) error {
			answers, err := s.Report(ctx, []store.Report{rep})
			if err == nil && answers[0].Status != store.ReportTaken {
				return fmt.Errorf("%s: %+v", rep.Type, answers[0])
			}
			return err
		}
	}
	return map[string]func(context.Context, store.Store) error{
		"create": func(ctx context.Context, s store.Store) error {
			_, err := s.Create(ctx, []store.NewJob{keyed("made", "made", 1), numbered("made", 2)})
			return err
		},
		"claim": func(ctx context.Context, s store.Store) error {
			w := want("claimed")
			w.ClaimID = "claim-1"
			_, err := s.Claim(ctx, w)
			return err
		},
		"start": say(report(store.Start, c)), "log": say(report(store.AddLog, c)), "complete": say(report(store.Complete, c)),
		"fail": say(report(store.Fail, c)), "release": say(report(store.Release, c)),
		"pause": func(ctx context.Context, s store.Store) error {
			return s.Pause(ctx, lane.Gate{Kind: lane.QueueGate, Name: "paused"}, "ops")
		},
		"reset circuit": func(ctx context.Context, s store.Store) error {
			_, err := s.ResetCircuit(ctx, "e", "ops")
			return err
		},
		"step replay": func(ctx context.Context, s store.Store) error {
			_, err := s.StepReplay(ctx, "rpl_1", 1)
			return err
		},
		"move replay": func(ctx context.Context, s store.Store) error {
			_, err := s.MoveReplay(ctx, "rpl_1", store.ReplayPaused, "ops", "")
			return err
		},
		"hand over": func(ctx context.Context, s store.Store) error {
			return s.HandOver(ctx, "reader", 0, 7, []store.NewJob{newJob("handed")})
		},
		"add key":    func(ctx context.Context, s store.Store) error { return s.AddKey(ctx, key("key_x", "x", 7)) },
		"add letter": func(ctx context.Context, s store.Store) error { return s.AddLetter(ctx, letter("lx", "m", "d", 0)) },
	}
}
