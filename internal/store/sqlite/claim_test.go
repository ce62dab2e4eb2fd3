// These tests would catch claims that wait and are passed over, served in the
// wrong order or after another commit than the job's; that take something for a
// caller who is gone; repeats that take twice; and jobs that fall between ready
// and running.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// forever is how long a claim waits that is to be ended by something else.
const forever = time.Hour

func want(queue string, n int, wait time.Duration) store.Want {
	return store.Want{
		Worker: testWorker, Queues: []store.QueueLease{{Queue: queue, Lease: 30 * time.Second}}, Max: n, MaxBytes: 8 << 20, Wait: wait,
	}
}

func newJobLane(queue string) lane.Key {
	j := newJob(queue)
	return lane.Key{Queue: queue, Task: j.Task, Version: j.Version}
}

// claimed is what a claim in another goroutine came to.
type claimed struct {
	store.Claim
	err error
}

// park lets a claim wait and returns once it does.
func park(t *testing.T, s *Store, ctx context.Context, w store.Want) <-chan claimed {
	t.Helper()
	n := s.Vitals().Parked
	got := make(chan claimed, 1)
	go func() {
		c, err := s.Claim(ctx, w)
		got <- claimed{c, err}
	}()
	until(t, func() bool { return s.Vitals().Parked == n+1 })
	return got
}

// gets fails the test unless the claim got these jobs.
func gets(t *testing.T, c claimed, ids ...string) {
	t.Helper()
	if c.err != nil {
		t.Fatal(c.err)
	}
	var got []string
	for _, j := range c.Jobs {
		got = append(got, j.Job.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("claimed %v, want %v", got, ids)
	}
}

func claimNow(t *testing.T, s *Store, w store.Want) claimed {
	t.Helper()
	c, err := s.Claim(t.Context(), w)
	return claimed{c, err}
}

func TestParkedClaimsAreServedWithTheCreate(t *testing.T) {
	s := testStore(t, Options{})
	first, second := park(t, s, t.Context(), want("q", 1, forever)), park(t, s, t.Context(), want("q", 1, forever))
	other := park(t, s, t.Context(), want("other", 1, forever))
	before := s.Vitals().Commits
	j := newJob("q")
	j.Tags, j.Trace, j.Endpoint, j.Priority = []string{"a"}, "00-1", "mailer", 7
	id := put(t, s, j)[0]
	c := <-first
	gets(t, c, id)
	if n := s.Vitals().Commits - before; n != 1 {
		t.Errorf("%d commits for the create and the claim", n)
	}
	// The job was not read, and is what a read says.
	read, err := s.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	read.Attempts = nil
	if got := c.Jobs[0].Job; fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", *read) {
		t.Errorf("claimed %+v\n   read %+v", *got, *read)
	}
	ids := put(t, s, newJob("q"), newJob("other"))
	gets(t, <-second, ids[0])
	gets(t, <-other, ids[1])
	checkMemory(t, s)
}

// A job goes to the claim that wants its task, however many wait for another.
func TestParkedClaimsByTask(t *testing.T) {
	s := testStore(t, Options{})
	w := want("q", 1, forever)
	w.Tasks = []lane.Task{{Name: "mail", Version: "2"}, {Name: "mail", Version: "3"}}
	versions := park(t, s, t.Context(), w)
	w.Tasks = []lane.Task{{Name: "sms"}}
	sms := park(t, s, t.Context(), w)
	w.Tasks = nil
	any := park(t, s, t.Context(), w)
	w.Tasks = []lane.Task{{Name: "mail"}}
	mail := park(t, s, t.Context(), w)
	jobs := []store.NewJob{newJob("q"), newJob("q"), newJob("q"), newJob("q")}
	jobs[2].Version = "3"
	jobs[3].Task = "sms"
	for i, got := range []<-chan claimed{any, mail, versions, sms} {
		ids := put(t, s, jobs[i])
		gets(t, <-got, ids...)
	}
	if n := len(s.writer.state.parked.lines); n != 0 { // nobody waits: the writer is idle
		t.Errorf("%d lines are left", n)
	}
	checkMemory(t, s)
}

// What comes due, is given back, retried or let through again wakes those who
// wait, as a create does.
func TestWhatWakesParkedClaims(t *testing.T) {
	s := testStore(t, Options{})
	later := newJob("q")
	later.Delay = 20 * time.Millisecond
	got := park(t, s, t.Context(), want("q", 1, forever))
	id := put(t, s, later)[0]
	c := <-got
	gets(t, c, id)
	if c.Now.Before(c.Jobs[0].Job.RunAt) {
		t.Errorf("claimed at %v, due at %v", c.Now, c.Jobs[0].Job.RunAt)
	}

	got = park(t, s, t.Context(), want("q", 1, forever))
	say(t, s, store.Report{Type: store.Release, Lease: c.Jobs[0].Lease})
	c = <-got
	gets(t, c, id)

	got = park(t, s, t.Context(), want("q", 1, forever))
	soon := 10 * time.Millisecond
	say(t, s, store.Report{Type: store.Fail, Lease: c.Jobs[0].Lease, Failure: job.Failure{RetryIn: &soon}})
	c = <-got
	gets(t, c, id)
	say(t, s, store.Report{Type: store.Complete, Lease: c.Jobs[0].Lease})

	for _, g := range []lane.Gate{{Kind: lane.QueueGate, Name: "q"}, {Kind: lane.EndpointGate, Name: "mailer"}} {
		if err := s.Pause(t.Context(), g, "me"); err != nil {
			t.Fatal(err)
		}
		got = park(t, s, t.Context(), want("q", 1, forever))
		j := newJob("q")
		j.Endpoint = "mailer"
		id := put(t, s, j)[0]
		if n := s.Vitals().Parked; n != 1 {
			t.Errorf("%s: %d claims wait behind the gate, want 1", g.Kind, n)
		}
		if err := s.Resume(t.Context(), g, "ops"); err != nil {
			t.Fatal(err)
		}
		gets(t, <-got, id)
	}
	checkMemory(t, s)
}

// A claim ends with its wait or with its caller, and leaves nothing behind.
func TestParkedClaimsEnd(t *testing.T) {
	s := testStore(t, Options{})
	c := claimNow(t, s, want("q", 1, time.Millisecond))
	gets(t, c)
	if c.Now.IsZero() {
		t.Error("an empty claim has no time")
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := park(t, s, ctx, want("q", 1, forever))
	cancel()
	if c := <-got; !errors.Is(c.err, context.Canceled) {
		t.Errorf("err = %v", c.err)
	}
	if s.Vitals().Parked != 0 {
		t.Error("a claim waits for nobody")
	}
	put(t, s, newJob("q"))
	if n := s.Vitals().Running; n != 0 {
		t.Errorf("%d jobs run for nobody", n)
	}
}

// A claim whose caller goes while its group runs is taken back in it: the attempt
// never was.
func TestClaimOfOneWhoIsGone(t *testing.T) {
	s := testStore(t, Options{})
	ids := put(t, s, newJob("q"), newJob("q"), newJob("q"))
	ctx, cancel := context.WithCancel(t.Context())
	errs := together(t, s,
		func() error { _, err := s.Claim(ctx, want("q", 2, 0)); return err },
		func() error { return s.writer.submit(t.Context(), 0, func(*tx) error { cancel(); return nil }) },
	)
	if !errors.Is(errs[0], context.Canceled) {
		t.Errorf("err = %v", errs[0])
	}
	checkMemory(t, s)
	c := claimNow(t, s, want("q", 3, 0))
	gets(t, c, ids...)
	for _, j := range c.Jobs {
		if j.Job.Attempt != 1 {
			t.Errorf("%s: attempt %d", j.Job.ID, j.Job.Attempt)
		}
	}
	// What is taken back goes to who waits.
	got := park(t, s, t.Context(), want("q", 1, forever))
	ctx, cancel = context.WithCancel(t.Context())
	release := hold(t, s)
	gone := make(chan error)
	go func() { _, err := s.Claim(ctx, want("q", 1, 0)); gone <- err }()
	until(t, func() bool { return len(s.writer.queue) == 1 })
	go s.writer.submit(t.Context(), 0, func(*tx) error { cancel(); return nil })
	release()
	<-gone
	id := put(t, s, newJob("q"))[0]
	gets(t, <-got, id)
	checkMemory(t, s)
}

func TestClaimIDs(t *testing.T) {
	path := t.TempDir() + "/pawl.db"
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	ids := put(t, s, newJob("q"), newJob("q"), newJob("q"), newJob("q"))
	w := want("q", 2, 0)
	w.ClaimID = "c1"
	first := claimNow(t, s, w)
	gets(t, first, ids[:2]...)
	again := claimNow(t, s, w)
	gets(t, again, ids[:2]...)
	if first.Jobs[0].Lease != again.Jobs[0].Lease || again.Jobs[0].Job.Attempt != 1 {
		t.Errorf("the repeat got another lease: %+v", again.Jobs[0])
	}
	say(t, s, store.Report{Type: store.Complete, Lease: first.Jobs[0].Lease})
	gets(t, claimNow(t, s, w), ids[1])
	w.Worker = "worker-2"
	gets(t, claimNow(t, s, w), ids[2:]...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The id is known after a restart, too.
	s = testStore(t, Options{Path: path})
	w.Worker = testWorker
	c := claimNow(t, s, w)
	gets(t, c, ids[1])
	say(t, s, store.Report{Type: store.Complete, Lease: c.Jobs[0].Lease})
	gets(t, claimNow(t, s, w))

	// Of two that wait under one id the newer is served: the older's caller is
	// gone, or the same.
	w.Wait = forever
	older := park(t, s, t.Context(), w)
	newer := make(chan claimed, 1)
	go func() { c, err := s.Claim(t.Context(), w); newer <- claimed{c, err} }()
	gets(t, <-older)
	id := put(t, s, newJob("q"))[0]
	gets(t, <-newer, id)
	checkMemory(t, s)
}

// A claim that is asked again while the first one's commit is to come keeps its
// leases, though the first caller is gone.
func TestRepeatInOneGroup(t *testing.T) {
	s := testStore(t, Options{})
	ids := put(t, s, newJob("q"), newJob("q"))
	w := want("q", 1, 0)
	w.ClaimID = "c1"
	ctx, cancel := context.WithCancel(t.Context())
	again := make(chan claimed, 1)
	together(t, s,
		func() error { _, err := s.Claim(ctx, w); return err },
		func() error { c, err := s.Claim(t.Context(), w); again <- claimed{c, err}; return err },
		func() error { return s.writer.submit(t.Context(), 0, func(*tx) error { cancel(); return nil }) })
	c := <-again
	gets(t, c, ids[0])
	say(t, s, store.Report{Type: store.Complete, Lease: c.Jobs[0].Lease})
	checkMemory(t, s)
}

// Behind a lane's first job stand others that are not due.
func TestClaimTakesWhatIsDue(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	later := newJob("q")
	later.Delay = time.Minute
	ids := put(t, s, later, newJob("q"), newJob("q"), later)
	gets(t, claimNow(t, s, want("q", 4, 0)), ids[1:3]...)
	gets(t, claimNow(t, s, want("q", 4, 0)))
	h.step(time.Minute)
	gets(t, claimNow(t, s, want("q", 4, 0)), ids[0], ids[3])
	checkMemory(t, s)
}

// The sum of contents is bounded, but one job is given whatever its size.
func TestClaimBytes(t *testing.T) {
	s := testStore(t, Options{})
	sized := func(n int) store.NewJob {
		j := newJob("q")
		j.Content = job.Content{Payload: make([]byte, n-4), Head: []byte("head")}
		return j
	}
	ids := put(t, s, sized(100), sized(100), sized(100), sized(500), sized(10))
	w := want("q", 10, 0)
	w.MaxBytes = 250
	gets(t, claimNow(t, s, w), ids[:2]...)
	gets(t, claimNow(t, s, w), ids[2])
	gets(t, claimNow(t, s, w), ids[3])
	gets(t, claimNow(t, s, w), ids[4])
	checkMemory(t, s)
}

// Jobs that were claimed but can't be read go back.
func TestClaimThatCannotBeRead(t *testing.T) {
	s := testStore(t, Options{})
	put(t, s, newJob("q"), newJob("q"))
	if err := s.writer.submit(t.Context(), 0, func(x *tx) error {
		x.w.state.recent = recent{}
		_, err := x.exec("UPDATE job SET tags='[' WHERE seq=1")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if c := claimNow(t, s, want("q", 2, 0)); !errors.Is(c.err, ErrDamaged) || errors.Is(c.err, store.ErrUnknown) {
		t.Errorf("err = %v", c.err)
	}
	if n := s.Vitals().Running; n != 0 {
		t.Errorf("%d leases that nobody has the tokens of", n)
	}
	checkMemory(t, s)
}
