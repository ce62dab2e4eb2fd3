// These tests would catch a job that comes back after it was cancelled, as a claim of
// it is undone; a claim that is undone twice; and a limit that a transaction which was
// rolled back leaves out of force, or counts twice.
package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/store"
)

// statuses fails the test unless the jobs have these statuses, in the file, in memory
// and in the counts.
func statuses(t *testing.T, s *Store, ids []string, want ...job.Status) {
	t.Helper()
	for i, id := range ids {
		if j, err := s.Job(t.Context(), id); err != nil || j.Status != want[i] {
			t.Errorf("job %d: %+v, %v; want it %s", i, j, err, want[i])
		}
	}
	checkMemory(t, s)
	recount(t, s)
}

// A job is claimed and cancelled in one transaction, before which the worker's
// connection goes: it stays cancelled. Another of the claim comes back.
func TestCancelBesideAClaimOfOneWhoIsGone(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	ids := put(t, s, newJob("q"), newJob("q"))
	ctx, gone := context.WithCancel(t.Context())
	errs := together(t, s,
		func() error { _, _ = s.Claim(ctx, want("q", 2, 0)); return nil },
		func() error { _, err := s.Cancel(t.Context(), ids[0], "ops"); return err },
		func() error { return s.writer.submit(t.Context(), 0, func(*tx) error { gone(); return nil }) })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	statuses(t, s, ids, job.Cancelled, job.Running)
	for range 20 { // no gap in which nobody swept
		h.step(5 * time.Second)
		sweep(t, s)
	}
	statuses(t, s, ids, job.Cancelled, job.Queued)
	gets(t, claimNow(t, s, want("q", 2, 0)), ids[1])
}

// What was claimed can't be read, and is cancelled before it is given back.
func TestCancelBesideAClaimThatIsGivenBack(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	ids := put(t, s, newJob("q"), newJob("q"))
	c := newClaim(t.Context(), want("q", 2, 0))
	if err := s.writer.enqueue(t.Context(), c.call); err != nil {
		t.Fatal(err)
	}
	if err := s.awaitClaim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), ids[0], "ops"); err != nil {
		t.Fatal(err)
	}
	why := errors.New("read failed")
	if err := s.giveBack(t.Context(), c, why, noteUnread); !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
	statuses(t, s, ids, job.Cancelled, job.Queued)
	h.step(unreadRest)
	gets(t, claimNow(t, s, want("q", 2, 0)), ids[1])
}

// A machine that stood still: the leases of a claim have ended, and were swept, in the
// transaction that gave them, when its caller is found gone.
func TestASweepBesideAClaimOfOneWhoIsGone(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	ids := put(t, s, newJob("q"), newJob("q"))
	ctx, gone := context.WithCancel(t.Context())
	errs := together(t, s,
		func() error { _, _ = s.Claim(ctx, want("q", 2, 0)); return nil },
		func() error {
			return s.writer.submit(t.Context(), 0, func(x *tx) error {
				gone()
				h.step(31 * time.Second)
				x.now = x.w.clock.now()
				_, err := x.sweep(gracesAsked)
				return err
			})
		})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	statuses(t, s, ids, job.Queued, job.Queued)
	if j, err := s.Job(t.Context(), ids[0]); err != nil || len(j.Attempts) != 1 || j.Attempts[0].Outcome != job.OutcomeUnreceived {
		t.Errorf("%+v, %v", j, err)
	}
}

// bad is an operation that takes its whole transaction back.
func bad(x *tx) error {
	_, err := x.exec("INSERT INTO tally VALUES (9, NULL, 0, 0, 0, 0)")
	return err
}

// A rate that is in force stays so, and no token is taken twice, where transactions
// are rolled back: by an operation that fails, and by a defect, after which the state
// is read anew.
func TestARateAfterARollback(t *testing.T) {
	rate := map[lane.Gate]store.Limits{{Kind: lane.EndpointGate, Name: "e"}: {Rate: &limit.Rate{PerSecond: 1, Burst: 3}}}
	jobs := make([]store.NewJob, 20)
	for i := range jobs {
		jobs[i] = newJob("q")
		jobs[i].Endpoint = "e"
	}
	claims := func(t *testing.T, s *Store, n int) []store.Claimed {
		t.Helper()
		c := claimNow(t, s, want("q", 20, 0))
		if c.err != nil || len(c.Jobs) != n {
			t.Errorf("%d claimed, %v; want %d", len(c.Jobs), c.err, n)
		}
		checkMemory(t, s)
		return c.Jobs
	}
	for name, fails := range map[string]func(x *tx) error{
		"an operation that fails": bad,
		"a defect":                func(*tx) error { panic("defect") },
	} {
		t.Run("it is set beside "+name, func(t *testing.T) {
			var h hand
			s := testStore(t, h.options(Options{}))
			put(t, s, jobs...)
			got := take(t, s, "q", 1)
			errs := together(t, s,
				func() error { // the gate is touched before it has a rate
					_, err := s.Report(t.Context(), []store.Report{{Type: store.Fail, Lease: got[0].Lease, Error: &job.Error{Message: "m"}}})
					return err
				},
				func() error { return s.SetLimits(t.Context(), rate) },
				func() error { return s.writer.submit(t.Context(), 0, fails) })
			if errs[0] != nil || errs[1] != nil || errs[2] == nil {
				t.Fatal(errs)
			}
			claims(t, s, 3)
			claims(t, s, 0)
			h.step(2 * time.Second)
			claims(t, s, 2)
		})
		t.Run("it is used beside "+name, func(t *testing.T) {
			var h hand
			s := testStore(t, h.options(Options{}))
			put(t, s, jobs...)
			if err := s.SetLimits(t.Context(), rate); err != nil {
				t.Fatal(err)
			}
			errs := together(t, s,
				func() error { _, err := s.Claim(t.Context(), want("q", 2, 0)); return err },
				func() error { return s.writer.submit(t.Context(), 0, fails) })
			if errs[0] != nil || errs[1] == nil {
				t.Fatal(errs)
			}
			claims(t, s, 1)
			claims(t, s, 0)
			h.step(2 * time.Second)
			claims(t, s, 2)
		})
		t.Run("it is taken away beside "+name, func(t *testing.T) {
			var h hand
			s := testStore(t, h.options(Options{}))
			put(t, s, jobs...)
			if err := s.SetLimits(t.Context(), rate); err != nil {
				t.Fatal(err)
			}
			claims(t, s, 3)
			if err := s.writer.submit(t.Context(), 0, func(x *tx) error {
				x.setLimits(x.w.state.gate(lane.Gate{Kind: lane.EndpointGate, Name: "e"}), store.Limits{})
				return fails(x)
			}); err == nil {
				t.Fatal("it was committed")
			}
			claims(t, s, 0)
			h.step(2 * time.Second)
			claims(t, s, 2)
		})
	}
}
