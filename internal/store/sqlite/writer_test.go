// The tests of the writer would catch an answer that goes out before its commit
// or against it, one bad operation that takes its group along, memory that is
// otherwise than the file after a rollback, a failed commit that a crash brings
// back, and a store that does not heal.
package sqlite

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite/faultvfs"
)

// hold keeps the writer busy until the function it returns is called, so that
// what is submitted meanwhile becomes one group.
func hold(t *testing.T, s *Store) (release func()) {
	t.Helper()
	began, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var once sync.Once
		if err := s.writer.submit(context.Background(), maxGroupBytes, func(x *tx) error {
			x.w.work = forever // on a slow machine too it is one group
			once.Do(func() { close(began); <-end })
			return nil
		}); err != nil {
			t.Errorf("hold: %v", err)
		}
	}()
	<-began
	return func() { close(end); <-done }
}

// together runs operations in one group, in their order.
func together(t *testing.T, s *Store, ops ...func() error) []error {
	t.Helper()
	release := hold(t, s)
	errs := make([]error, len(ops))
	var wg sync.WaitGroup
	for i, op := range ops {
		wg.Go(func() { errs[i] = op() })
		until(t, func() bool { return len(s.writer.queue) == i+1 })
	}
	release()
	wg.Wait()
	return errs
}

func TestAGroupSharesOneCommit(t *testing.T) {
	s := testStore(t, Options{})
	before := s.Vitals().Commits
	var ops []func() error
	for range 50 {
		ops = append(ops, func() error { _, err := s.Create(t.Context(), []store.NewJob{newJob("q")}); return err })
	}
	if err := errors.Join(together(t, s, ops...)...); err != nil {
		t.Fatal(err)
	}
	if n := s.Vitals().Commits - before; n != 1 {
		t.Errorf("%d commits for one group", n)
	}
	checkMemory(t, s)
}

// A failed operation, and one that has a defect, fail alone.
func TestOneBadOperation(t *testing.T) {
	for name, bad := range map[string]func(*tx) error{
		"a constraint": func(x *tx) error {
			_, err := x.exec("INSERT INTO tally VALUES (9, NULL, 0, 0, 0, 0)")
			return err
		},
		"an error that is passed over": func(x *tx) error {
			_, _ = x.exec("INSERT INTO tally VALUES (9, NULL, 0, 0, 0, 0)")
			return nil
		},
		"a panic": func(*tx) error { panic("defect") },
		"a panic with half of it done": func(x *tx) error {
			if _, err := x.lane(newJobLane("half")); err != nil {
				return err
			}
			x.w.state.lanes[1].tally.ready += 7
			panic("defect")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t, Options{})
			put(t, s, newJob("q"))
			create := func() error { _, err := s.Create(t.Context(), []store.NewJob{newJob("q"), newJob("new")}); return err }
			errs := together(t, s, create, func() error { return s.writer.submit(t.Context(), 0, bad) }, create)
			if errs[0] != nil || errs[2] != nil {
				t.Errorf("the others: %v, %v", errs[0], errs[2])
			}
			if errs[1] == nil {
				t.Error("the bad one was answered ok")
			}
			counts, err := s.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var ready int64
			for _, c := range counts {
				ready += c.Ready
			}
			if ready != 5 {
				t.Errorf("%d jobs are ready, want 5", ready)
			}
			checkMemory(t, s)
		})
	}
}

// A defect in the last operation of a group takes no claim along that waits.
func TestDefectBesideParkedClaims(t *testing.T) {
	s := testStore(t, Options{})
	got := park(t, s, t.Context(), want("q", 1, forever))
	errs := together(t, s,
		func() error { _, err := s.Create(t.Context(), []store.NewJob{newJob("other")}); return err },
		func() error { return s.writer.submit(t.Context(), 0, func(*tx) error { panic("defect") }) })
	if errs[0] != nil || errs[1] == nil {
		t.Errorf("errs = %v", errs)
	}
	ids := put(t, s, newJob("q"))
	gets(t, <-got, ids...)
	checkMemory(t, s)
}

// A job whose group failed, and which was made alone, goes to the claim that
// waits for it all the same.
func TestParkedClaimsOfAGroupThatFailed(t *testing.T) {
	s := testStore(t, Options{})
	got := park(t, s, t.Context(), want("q", 1, forever))
	made := make(chan []store.Created, 1)
	errs := together(t, s,
		func() error {
			c, err := s.Create(t.Context(), []store.NewJob{newJob("q")})
			made <- c
			return err
		},
		func() error {
			return s.writer.submit(t.Context(), 0, func(x *tx) error { _, err := x.exec("INSERT INTO job(seq) VALUES (1)"); return err })
		})
	if errs[0] != nil || errs[1] == nil {
		t.Fatalf("errs = %v", errs)
	}
	gets(t, <-got, (<-made)[0].ID)
	checkMemory(t, s)
}

// What the callers of a group are told is about their own operation.
func TestAnswersOfAGroup(t *testing.T) {
	s := testStore(t, Options{})
	a, b := newJob("q"), newJob("q")
	a.Key, b.Key = "same", "same"
	b.Hash[0] = 1
	create := func(j store.NewJob) func() error {
		return func() error { _, err := s.Create(t.Context(), []store.NewJob{j}); return err }
	}
	errs := together(t, s, create(a), create(b), create(a))
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("the same request: %v, %v", errs[0], errs[2])
	}
	if e, ok := errors.AsType[*store.ConflictError](errs[1]); !ok || e.ID == "" {
		t.Errorf("another request: %v, want a ConflictError with the job's id", errs[1])
	}
	checkMemory(t, s)
}

// An operation whose caller went away before the writer took it did not happen;
// one that the writer had is answered by what happened.
func TestCallersThatGoAway(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := s.Create(ctx, []store.NewJob{newJob("q")}); done <- err }()
	until(t, func() bool { return len(s.writer.queue) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	release()

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	err := s.writer.submit(ctx, 0, func(x *tx) error {
		cancel()
		_, err := x.exec(sqlCount)
		return err
	})
	if err != nil {
		t.Errorf("taken and committed, and answered %v", err)
	}
	if page, err := s.List(t.Context(), store.Filter{Limit: 10}); err != nil || len(page.Jobs) != 0 {
		t.Errorf("the one that was given up: %v, %v", page.Jobs, err)
	}
}

func TestAfterClose(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error)
	go func() {
		_, err := s.Claim(context.Background(), want("q", 1, forever))
		waits <- err
	}()
	until(t, func() bool { return s.Vitals().Parked == 1 })
	release := hold(t, s)
	created := make(chan error)
	go func() { _, err := s.Create(context.Background(), []store.NewJob{newJob("other")}); created <- err }()
	until(t, func() bool { return len(s.writer.queue) == 1 })
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	<-s.writer.stop
	release()
	if err := <-waits; !errors.Is(err, store.ErrClosed) {
		t.Errorf("a claim that waits: %v", err)
	}
	if err := <-created; err != nil {
		t.Errorf("a create that stood in the queue: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := s.Create(context.Background(), []store.NewJob{newJob("q")}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := s.Claim(context.Background(), want("q", 1, forever)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a claim after the end: %v", err)
	}
}

// crashed opens a copy of what stands in the files now, as after kill -9.
func crashed(t *testing.T, s *Store) *Store {
	t.Helper()
	folder := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(s.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "pawl.db"+suffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return testStore(t, Options{Path: filepath.Join(folder, "pawl.db")})
}

// Whatever fails under a commit, the answer is the truth: now, after a crash at
// this very moment, and after the next commit.
func TestCommitsThatFail(t *testing.T) {
	type change struct {
		name  string
		do    func(t *testing.T, s *Store) error
		there func(t *testing.T, s *Store) bool
	}
	changes := []change{
		{"create", func(t *testing.T, s *Store) error {
			j := newJob("made")
			j.Key = "key"
			_, err := s.Create(t.Context(), []store.NewJob{j})
			return err
		}, func(t *testing.T, s *Store) bool { return len(listJobs(t, s, store.Filter{Queue: "made"})) == 1 }},
		{"claim", func(t *testing.T, s *Store) error {
			_, err := s.Claim(t.Context(), want("first", 1, 0))
			return err
		}, func(t *testing.T, s *Store) bool { return listJobs(t, s, store.Filter{Queue: "first"})[0].Attempt == 1 }},
		{"report", func(t *testing.T, s *Store) error {
			lease := s.tokens.Make(2, 1)
			_, err := s.Report(t.Context(), []store.Report{{Type: store.Complete, Lease: lease, Result: []byte("1")}})
			return err
		}, func(t *testing.T, s *Store) bool {
			return listJobs(t, s, store.Filter{Queue: "second"})[0].Status == job.Succeeded
		}},
	}
	faults := map[string]faultvfs.Fault{
		"a write":                       {Op: faultvfs.Write, On: faultvfs.WAL, Times: 1},
		"a later write":                 {Op: faultvfs.Write, On: faultvfs.WAL, Skip: 3, Times: 1},
		"a write that was done":         {Op: faultvfs.Write, On: faultvfs.WAL, Skip: 5, Times: 1, When: faultvfs.Afterwards},
		"a sync":                        {Op: faultvfs.Sync, On: faultvfs.WAL, Times: 1},
		"a sync that was done":          {Op: faultvfs.Sync, On: faultvfs.WAL, Times: 1, When: faultvfs.Afterwards},
		"every write":                   {Op: faultvfs.Write, On: faultvfs.WAL},
		"every sync":                    {Op: faultvfs.Sync, On: faultvfs.WAL},
		"every sync, done all the same": {Op: faultvfs.Sync, On: faultvfs.WAL, When: faultvfs.Afterwards},
		"a full disk":                   {Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full},
		"a disk that is full for once":  {Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full, Skip: 2, Times: 1},
	}
	for name, fault := range faults {
		for _, c := range changes {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				f := faultvfs.New(t.Name())
				t.Cleanup(f.Close)
				var logged bytes.Buffer
				s := testStore(t, Options{VFS: f.Name(), Log: slog.New(slog.NewTextHandler(&logged, nil))})
				put(t, s, newJob("first"))
				put(t, s, newJob("second"))
				if got := take(t, s, "second", 1); len(got) != 1 {
					t.Fatal("nothing to report")
				}
				f.Arm(fault)
				err := c.do(t, s)
				if f.Hits() == 0 {
					t.Fatal("nothing failed")
				}
				there, after := c.there(t, s), c.there(t, crashed(t, s))
				f.Clear()
				switch {
				case err == nil && !(there && after):
					t.Errorf("answered ok; there: %t, after a crash: %t", there, after)
				case errors.Is(err, store.ErrUnknown):
					if there {
						t.Error("it is there, so it was to be known")
					}
				case err != nil && (there || after):
					t.Errorf("answered %v; there: %t, after a crash: %t", err, there, after)
				}
				if err != nil && !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull) {
					t.Errorf("err = %v", err)
				}
				if fault.Code == faultvfs.Full && err != nil && !errors.Is(err, store.ErrFull) {
					t.Errorf("full disk: err = %v", err)
				}
				if fault.Times == 1 && errors.Is(err, store.ErrUnknown) {
					t.Errorf("the next commit worked, so it was to be known: %v", err)
				}
				// It heals, and then what was to be done can be done, once.
				until(t, func() bool { return s.writer.submit(t.Context(), 0, count) == nil })
				if err := s.Ready(t.Context()); err != nil {
					t.Errorf("healed, and not ready: %v", err)
				}
				checkMemory(t, s)
				if !c.there(t, s) {
					if err := c.do(t, s); err != nil {
						t.Fatalf("once more: %v", err)
					}
				}
				checkMemory(t, s)
				if !c.there(t, s) || !c.there(t, crashed(t, s)) {
					t.Error("done, and not there")
				}
				if t.Failed() {
					t.Log(logged.String())
				}
			})
		}
	}
}

// count is an operation that writes.
func count(x *tx) error { _, err := x.exec(sqlCount); return err }

// listJobs lists jobs over every page: on a slow machine one may be short.
func listJobs(t *testing.T, s *Store, f store.Filter) (jobs []*job.Job) {
	t.Helper()
	for f.Limit = 10; ; {
		page, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, page.Jobs...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return jobs
		}
	}
}

// On a full disk the operation that fits is done, the one that does not is not.
func TestFullDiskIsolatesOperations(t *testing.T) {
	f := faultvfs.New(t.Name())
	t.Cleanup(f.Close)
	s := testStore(t, Options{VFS: f.Name()})
	put(t, s, newJob("q"))
	lease := take(t, s, "q", 1)[0].Lease
	big := newJob("big")
	big.Content.Payload = make([]byte, 64<<10)
	// The group fails at its tenth frame; alone the create does so again.
	f.Arm(faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full, Skip: 20, Times: 1})
	var lost error
	errs := together(t, s,
		func() error { _, err := s.Create(t.Context(), []store.NewJob{big}); return err },
		func() error {
			a, err := s.Report(t.Context(), []store.Report{{Type: store.Complete, Lease: lease}})
			if err == nil && a[0].Status != store.ReportTaken {
				lost = errors.New(string(a[0].Status))
			}
			return err
		})
	if errs[1] != nil || lost != nil {
		t.Errorf("the report: %v, %v", errs[1], lost)
	}
	if f.Hits() == 0 {
		t.Error("nothing failed")
	}
	checkMemory(t, s)
}

// While the file can't be written at all, every call is told so, quickly, and no
// worker waits for ever.
func TestNothingCanBeWritten(t *testing.T) {
	f := faultvfs.New(t.Name())
	t.Cleanup(f.Close)
	s := testStore(t, Options{VFS: f.Name()})
	put(t, s, newJob("q"))
	lease := take(t, s, "q", 1)[0].Lease
	parked := make(chan error, 1)
	go func() { _, err := s.Claim(t.Context(), want("q", 1, forever)); parked <- err }()
	until(t, func() bool { return s.Vitals().Parked == 1 })
	f.Arm(faultvfs.Fault{Op: faultvfs.Sync})
	if _, err := s.Create(t.Context(), []store.NewJob{newJob("other")}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("the first: %v", err)
	}
	for i := range 10 {
		if _, err := s.Create(t.Context(), []store.NewJob{newJob("other")}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("create %d: %v", i, err)
		}
		if _, err := s.Report(t.Context(), []store.Report{{Type: store.Complete, Lease: lease}}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("report %d: %v", i, err)
		}
	}
	if err := s.Ready(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	f.Clear()
	until(t, func() bool { return s.writer.submit(t.Context(), 0, count) == nil })
	// The worker that waited all the time gets the next job.
	put(t, s, newJob("q"))
	if err := <-parked; err != nil {
		t.Errorf("the parked claim: %v", err)
	}
	checkMemory(t, s)
}
