package sqlite

// What this would catch: an attempt whose end nobody is told of, however it ended;
// one that is told and was never committed; one that a start in between forgets.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite/faultvfs"
)

func TestEndsOfAttemptsAreTold(t *testing.T) {
	const trace job.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	f := faultvfs.New(t.Name())
	t.Cleanup(f.Close)
	began := time.Now()
	var passed time.Duration
	var told []store.Ended
	o := Options{
		Path: filepath.Join(t.TempDir(), "pawl.db"), VFS: f.Name(), Rand: func() float64 { return 0.5 },
		Wall:  func() time.Time { return began.Add(passed) },
		Mono:  func() time.Duration { return passed },
		Ended: func(e store.Ended) { told = append(told, e) },
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	n := newJob("q")
	n.Trace, n.Endpoint = trace, "mailer"
	id := put(t, s, n)[0]
	step := func(want string) {
		t.Helper()
		var got string
		for _, e := range told {
			if e.Job != id || e.Trace != trace || e.Queue != "q" || e.Task != n.Task || e.Version != n.Version || e.Endpoint != "mailer" || e.Worker != testWorker ||
				e.EndedAt.Sub(e.ClaimedAt) < time.Second {
				t.Errorf("%+v", e)
			}
			got += fmt.Sprintf("%d %s charged %t %s %s %v;", e.Number, e.Outcome, e.Charged, e.Status, e.Reason, e.Error)
		}
		if got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		told = nil
	}
	next := func() string {
		t.Helper()
		passed += time.Hour
		lease := take(t, s, "q", 1)[0].Lease
		passed += time.Second
		return lease
	}
	say := func(r store.Report) {
		t.Helper()
		if a, err := s.Report(t.Context(), []store.Report{r}); err != nil || a[0].Status != store.ReportTaken {
			t.Errorf("%+v %v", a, err)
		}
	}
	lease := next()
	f.Arm(faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full})
	if _, err := s.Report(t.Context(), []store.Report{{Type: store.Release, Lease: lease}}); err == nil {
		t.Error("it was written to a full disk")
	}
	step("") // nothing came of it
	f.Clear()
	failed := store.Report{Type: store.Fail, Lease: lease, Error: &job.Error{Type: "E", Message: "m", Stack: "s"}}
	say(failed)
	step("1 failed charged true queued  &{E m };")
	say(failed) // once more: the same end
	step("")
	next()
	for range 10 { // more seldom would be a gap, which makes leases longer
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		passed += 9 * time.Second
	}
	step("2 unreceived charged false queued  <nil>;")
	lease = next()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = testStore(t, o)
	say(store.Report{Type: store.Complete, Lease: lease})
	step("3 succeeded charged true succeeded  <nil>;")

	// A job without a trace, and the relay's own.
	put(t, s, newJob("q"))
	say(store.Report{Type: store.Complete, Lease: next()})
	put(t, s, n)
	w := want("q", 1, 0)
	w.Worker = store.RelayWorker + "in"
	got := claimNow(t, s, w)
	if got.err != nil || len(got.Jobs) != 1 {
		t.Fatalf("%+v", got)
	}
	say(store.Report{Type: store.Complete, Lease: got.Jobs[0].Lease})
	if len(told) > 0 {
		t.Errorf("told %+v", told)
	}
}

// Each job that came to its end is told once, whatever ended it, and none whose
// end was not committed.
func TestEndsOfJobsAreTold(t *testing.T) {
	f := faultvfs.New(t.Name())
	t.Cleanup(f.Close)
	var told []store.Finished
	s := testStore(t, Options{
		Path: filepath.Join(t.TempDir(), "pawl.db"), VFS: f.Name(),
		Finished: func(ends []store.Finished) { told = append(told, ends...) },
	})
	step := func(after string, want ...store.Finished) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("after %s: told %v, want %v", after, told, want)
		}
		told = nil
	}
	ids := put(t, s, newJob("q"), newJob("q"), newJob("q"), newJob("r"), newJob("r"), newJob("r"))
	a, b := take(t, s, "q", 3), take(t, s, "r", 1)
	done := func(lease string) store.Report { return store.Report{Type: store.Complete, Lease: lease} }
	gone := store.Report{Type: store.Fail, Lease: b[0].Lease, Failure: job.Failure{Permanent: true}}
	all := []store.Report{done(a[0].Lease), done(a[1].Lease), gone}

	f.Arm(faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full})
	if _, err := s.Report(t.Context(), all); err == nil {
		t.Error("it was written to a full disk")
	}
	f.Clear()
	step("a full disk")
	commits, operations := s.Vitals().Commits, s.Vitals().Operations
	say(t, s, all...)
	step("reports", store.Finished{Queue: "q", Status: job.Succeeded, Jobs: 2}, store.Finished{Queue: "r", Status: job.Failed, Jobs: 1})
	if v := s.Vitals(); v.Commits != commits+1 || v.Operations != operations+1 || v.CommitTimes.Count != uint64(v.Commits) {
		t.Errorf("one report made %d commits of %d operations, %d with a time", v.Commits-commits, v.Operations-operations, v.CommitTimes.Count)
	}
	say(t, s, all...)
	step("the same reports again")
	hand := func(_ *job.Job, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hand(s.Cancel(t.Context(), ids[2], "me")) // it runs
	hand(s.Cancel(t.Context(), ids[4], "me")) // it waits
	step("cancels", store.Finished{Queue: "q", Status: job.Cancelled, Jobs: 1}, store.Finished{Queue: "r", Status: job.Cancelled, Jobs: 1})
	say(t, s, store.Report{Type: store.Complete, Lease: a[2].Lease})
	step("a late result of a cancelled job")
	hand(s.Retry(t.Context(), ids[3], "me", false))
	if err := s.Delete(t.Context(), ids[0], "me"); err != nil {
		t.Fatal(err)
	}
	step("a retry and a delete")
	say(t, s, done(take(t, s, "r", 1)[0].Lease))
	step("the next end", store.Finished{Queue: "r", Status: job.Succeeded, Jobs: 1})
}

// The sweep and a replay end jobs too.
func TestEndsOfJobsThatNobodyReportedAreTold(t *testing.T) {
	began := time.Now()
	var passed time.Duration
	told := map[string]int64{}
	s := testStore(t, Options{
		Path: filepath.Join(t.TempDir(), "pawl.db"),
		Wall: func() time.Time { return began.Add(passed) }, Mono: func() time.Duration { return passed },
		Finished: func(ends []store.Finished) {
			for _, e := range ends {
				told[e.Queue+" "+string(e.Status)] += e.Jobs
			}
		},
	})
	lost, late := newJob("lost"), newJob("late")
	lost.Policy.Repeat = job.RepeatUnsafe // its first loss is its end
	late.Policy.MaxAttempts, late.Timeout = 1, 5*time.Second
	put(t, s, lost, late, newJob("bulk"), newJob("bulk"), newJob("bulk"))
	take(t, s, "lost", 1)
	take(t, s, "late", 1)
	take(t, s, "bulk", 1)
	r := store.Replay{
		ID: "rpl_1", Action: store.ActionCancel, State: store.ReplayRunning, CreatedAt: began,
		Selection: store.Selection{Filter: store.Filter{Queue: "bulk"}, Before: began},
	}
	if err := s.AddReplay(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for r.State == store.ReplayRunning {
		var err error
		if r, err = s.StepReplay(t.Context(), r.ID, 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 { // more seldom would be a gap, which makes leases longer
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		passed += 9 * time.Second
	}
	if diff := cmp.Diff(map[string]int64{"lost failed": 1, "late failed": 1, "bulk cancelled": 3}, told); diff != "" {
		t.Error(diff)
	}
}

// Who reports into a file that is not in its place is told that nothing is certain,
// and reports again once it is back. The job has come to its end once all the same.
func TestEndsInAFileThatComesBackAreToldOnce(t *testing.T) {
	var told []store.Finished
	s := testStore(t, Options{Finished: func(ends []store.Finished) { told = append(told, ends...) }})
	put(t, s, newJob("q"))
	done := store.Report{Type: store.Complete, Lease: take(t, s, "q", 1)[0].Lease}
	aside := s.path + ".aside"
	errs := together(t, s,
		func() error { // behind the look at the file that comes before each group
			return s.writer.submit(t.Context(), 0, func(*tx) error { return os.Rename(s.path, aside) })
		},
		func() error { _, err := s.Report(t.Context(), []store.Report{done}); return err })
	if !errors.Is(errs[1], store.ErrUnknown) {
		t.Fatalf("a report while the file is away: %v, want ErrUnknown", errs[1])
	}
	if err := os.Rename(aside, s.path); err != nil {
		t.Fatal(err)
	}
	say(t, s, done)
	if want := []store.Finished{{Queue: "q", Status: job.Succeeded, Jobs: 1}}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
