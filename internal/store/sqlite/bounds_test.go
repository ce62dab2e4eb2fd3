// These tests would catch what grows without a bound: lanes, pauses, claims that
// wait, what a transaction serves, what a job and its removal read. And a claim
// that is given back though somebody has its leases.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// inWriter runs something in the writer.
func inWriter(t *testing.T, s *Store, run func(*tx) error) {
	t.Helper()
	if err := s.writer.submit(t.Context(), 0, run); err != nil {
		t.Fatal(err)
	}
}

// versions are jobs each of a lane of its own.
func versions(n int) []store.NewJob {
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob("q")
		jobs[i].Version = fmt.Sprint("v", i)
	}
	return jobs
}

func TestLanesGoWithTheirJobs(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	for round := range 3 {
		put(t, s, versions(20)...)
		kept := put(t, s, newJob("kept"))[0]
		for _, c := range take(t, s, "q", 20) {
			say(t, s, store.Report{Type: store.Complete, Lease: c.Lease})
		}
		h.step(time.Hour)
		retainAll(t, s, store.Retention{Finished: time.Minute})
		checkMemory(t, s)
		counts, err := s.Counts(t.Context())
		if lanes, rows, tallies := s.Vitals().Lanes, rowsOf(t, s, "lane"), rowsOf(t, s, "tally"); err != nil ||
			lanes != 1 || rows != 1 || tallies != 1 || len(counts) != 1 || counts[0].Ready != int64(round+1) {
			t.Fatalf("%d lanes, %d rows, %d tallies, counts %+v, %v; want the one of %s", lanes, rows, tallies, counts, err, kept)
		}
		if round == 1 {
			s = reopen(t, s, h.options(Options{}))
		}
	}
	if n := len(s.writer.state.lanes); n > 23 { // nobody works: the writer is idle
		t.Errorf("%d places for 21 lanes: those of lanes that are gone are not used again", n)
	}
}

// A lane whose last job goes and whose next one comes in one transaction.
func TestLaneThatGoesAndComes(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	finish(t, s, newJob("q"), succeed)
	h.step(time.Hour)
	together(t, s,
		func() error { _, err := s.Retain(t.Context(), store.Retention{Finished: time.Minute}); return err },
		func() error { _, err := s.Create(t.Context(), []store.NewJob{newJob("q")}); return err })
	checkMemory(t, s)
	s = reopen(t, s, h.options(Options{}))
	if got := take(t, s, "q", 9); len(got) != 1 {
		t.Errorf("%d jobs, want the new one", len(got))
	}
	checkMemory(t, s)
}

func TestLanesAreBounded(t *testing.T) {
	s := testStore(t, Options{})
	inWriter(t, s, func(x *tx) error { x.w.maxLanes = 3; return nil })
	keyed := versions(1)[0]
	keyed.Key, keyed.Hash = "k", [32]byte{1}
	first := put(t, s, keyed)[0]
	put(t, s, versions(3)[2], versions(3)[2])
	create := func(jobs ...store.NewJob) error { _, err := s.Create(t.Context(), jobs); return err }
	if err := create(versions(5)[2:]...); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("a batch of two more: %v", err)
	}
	put(t, s, versions(2)[1])
	other := newJob("other")
	other.Key, other.Hash = "other", [32]byte{2}
	for _, jobs := range [][]store.NewJob{{newJob("other")}, {other}, {newJob("q"), other}} {
		if err := create(jobs...); !errors.Is(err, store.ErrTooMany) {
			t.Errorf("%d more: %v", len(jobs), err)
		}
	}
	put(t, s, versions(3)...) // of lanes that are there
	other.Key, other.Hash = "k", [32]byte{1}
	if made, err := s.Create(t.Context(), []store.NewJob{other}); err != nil || made[0].ID != first || !made[0].Found {
		t.Errorf("a repeat needs no lane: %+v, %v", made, err)
	}
	if n := rowsOf(t, s, "idem"); n != 1 {
		t.Errorf("%d keys: one is of a job that was not made", n)
	}
	checkMemory(t, s)
}

func TestPausesAreBounded(t *testing.T) {
	s := testStore(t, Options{})
	gate := lane.Gate{Kind: lane.EndpointGate, Name: "e"}
	inWriter(t, s, func(x *tx) error {
		for i := range maxPauses {
			g := lane.Gate{Kind: lane.EndpointGate, Name: fmt.Sprint(i)}
			x.w.state.paused[g] = store.Pause{Gate: g}
		}
		return nil
	})
	if err := s.Pause(t.Context(), gate, "me"); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("err = %v", err)
	}
	if err := s.Pause(t.Context(), lane.Gate{Kind: lane.EndpointGate, Name: "1"}, "me"); err != nil {
		t.Errorf("one that is shut already: %v", err)
	}
	inWriter(t, s, func(x *tx) error { clear(x.w.state.paused); return nil })
	if err := s.Pause(t.Context(), gate, "me"); err != nil {
		t.Error(err)
	}
}

func TestParkedClaimsAreBounded(t *testing.T) {
	s := testStore(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	w := want("q", 1, forever)
	w.Caller = "key-1"
	ended := make(chan error, maxParkedOf)
	for range maxParkedOf {
		go func() { _, err := s.Claim(ctx, w); ended <- err }()
	}
	until(t, func() bool { return s.Vitals().Parked == maxParkedOf })
	if c := claimNow(t, s, w); !errors.Is(c.err, store.ErrBusy) {
		t.Errorf("one more of the same caller: %v", c.err)
	}
	now := w
	now.Wait = 0
	gets(t, claimNow(t, s, now))
	other := w
	other.Caller = "key-2"
	got := park(t, s, t.Context(), other)
	relay := w
	relay.Worker = store.RelayWorker + "orders"
	relays := park(t, s, t.Context(), relay)
	cancel()
	for range maxParkedOf {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	id := put(t, s, newJob("q"))[0]
	gets(t, <-got, id)
	again := park(t, s, t.Context(), w) // there is room again
	ids := put(t, s, newJob("q"), newJob("q"))
	gets(t, <-relays, ids[0])
	gets(t, <-again, ids[1])
	if n := len(s.writer.state.parked.callers); n != 0 { // nobody waits: the writer is idle
		t.Errorf("%d callers are remembered", n)
	}

	p := newParked()
	for i := range maxParked {
		w.Caller = fmt.Sprint(i % 20)
		c := newClaim(t.Context(), w)
		if err := p.room(c); err != nil {
			t.Fatalf("claim %d: %v", i, err)
		}
		p.add(c)
	}
	w.Caller = "one more"
	if err := p.room(newClaim(t.Context(), w)); !errors.Is(err, store.ErrBusy) {
		t.Errorf("one more in all: %v", err)
	}
	if all := p.takeAll(); len(all) != maxParked || len(p.callers)+len(p.lines)+len(p.all)+len(p.byID) != 0 {
		t.Errorf("%d taken out; left: %+v", len(all), p)
	}
}

// asked counts how often a claim's caller is asked for, which is once for each
// look at the claim.
type asked struct {
	context.Context
	times atomic.Int64
	bad   bool // panics when it is asked again
}

func (a *asked) Err() error {
	if a.times.Add(1) > 1 && a.bad {
		panic("asked again")
	}
	return a.Context.Err()
}

// A batch costs those who wait for something else nothing, and its lane is looked
// at once.
func TestBatchBesideParkedClaims(t *testing.T) {
	s := testStore(t, Options{})
	ctx := &asked{Context: t.Context()}
	w := want("q", 1, forever)
	w.Tasks = []lane.Task{{Name: "mail", Version: "2"}}
	for range 50 {
		park(t, s, ctx, w)
	}
	before := ctx.times.Load()
	inWriter(t, s, func(x *tx) error {
		jobs := make([]store.NewJob, 100)
		for i := range jobs {
			jobs[i] = newJob("q")
		}
		c := creation{ids: s.ids, jobs: jobs, tags: make([]any, 100), made: make([]store.Created, 100), rows: make([]madeRow, 100)}
		err := c.run(x)
		if n := len(x.w.state.hot); n != 1 {
			t.Errorf("the lane is to be looked at %d times", n)
		}
		return err
	})
	if n := ctx.times.Load() - before; n != 0 {
		t.Errorf("%d looks at claims that want another version", n)
	}
}

// Many who wait are served in more than one transaction, none twice and all.
func TestParkedClaimsInSteps(t *testing.T) {
	s := testStore(t, Options{})
	g := lane.Gate{Kind: lane.QueueGate, Name: "q"}
	if err := s.Pause(t.Context(), g, "me"); err != nil {
		t.Fatal(err)
	}
	const n = 40
	var jobs []store.NewJob
	for i := range 2 * n {
		j := newJob("q")
		j.Version = fmt.Sprint(i % 3)
		jobs = append(jobs, j)
	}
	put(t, s, jobs...)
	var waits []<-chan claimed
	for range n {
		waits = append(waits, park(t, s, t.Context(), want("q", 2, forever)))
	}
	inWriter(t, s, func(x *tx) error { x.w.work = 1; return nil })
	before := s.Vitals().Commits
	if err := s.Resume(t.Context(), g, "ops"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, ch := range waits {
		c := <-ch
		if c.err != nil {
			t.Fatal(c.err)
		}
		for _, j := range c.Jobs {
			if seen[j.Job.ID] {
				t.Errorf("%s was claimed twice", j.Job.ID)
			}
			seen[j.Job.ID] = true
		}
	}
	if len(seen) != 2*n {
		t.Errorf("%d jobs, want %d", len(seen), 2*n)
	}
	if commits := s.Vitals().Commits - before; commits < n/2 {
		t.Errorf("%d claims were served in %d transactions that had no time", n, commits)
	}
	checkMemory(t, s)
}

// A defect where claims that wait are served ends their wait, not the store.
func TestDefectInServing(t *testing.T) {
	s := testStore(t, Options{})
	bad := park(t, s, &asked{Context: t.Context(), bad: true}, want("q", 1, forever))
	id := put(t, s, newJob("q"))[0]
	if c := <-bad; c.err == nil {
		t.Errorf("it got %+v", c.Jobs)
	}
	gets(t, claimNow(t, s, want("q", 1, time.Minute)), id)
	checkMemory(t, s)
}

// A claim whose jobs can't be read hands back what nobody else has, and a token is
// never given out twice.
func TestGiveBack(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	ids := put(t, s, newJob("q"), newJob("q"), newJob("q"))
	w := want("q", 2, 0)
	w.ClaimID = "c1"
	unread := func() *claim { // what Claim does before it reads
		c := newClaim(t.Context(), w)
		if err := s.writer.enqueue(t.Context(), c.call); err != nil {
			t.Fatal(err)
		}
		if err := s.awaitClaim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	why := errors.New("read failed")
	held := claimNow(t, s, w) // the first, which is answered
	if err := s.giveBack(t.Context(), unread(), why, noteUnread); !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
	gets(t, claimNow(t, s, w), ids[:2]...)
	say(t, s, store.Report{Type: store.Complete, Lease: held.Jobs[0].Lease}, store.Report{Type: store.Complete, Lease: held.Jobs[1].Lease})

	// The repeat is answered between the claim and the end of its read.
	first := unread()
	again := claimNow(t, s, w)
	gets(t, again, ids[2])
	if err := s.giveBack(t.Context(), first, why, noteUnread); !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
	say(t, s, store.Report{Type: store.Start, Lease: again.Jobs[0].Lease})
	say(t, s, store.Report{Type: store.Complete, Lease: again.Jobs[0].Lease})

	// Nobody has them: they go back, under numbers of their own.
	id := put(t, s, newJob("q"))[0]
	alone := unread()
	token := s.tokens.Make(alone.got[0].seq, alone.got[0].attempt)
	if err := s.giveBack(t.Context(), alone, why, noteUnread); !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
	gets(t, claimNow(t, s, w))
	h.step(unreadRest)
	c := claimNow(t, s, w)
	gets(t, c, id)
	if c.Jobs[0].Lease == token || c.Jobs[0].Job.Attempt != 2 {
		t.Errorf("the token of attempt 1 was given out again, as of attempt %d", c.Jobs[0].Job.Attempt)
	}
	j, err := s.Job(t.Context(), id)
	if err != nil || j.Attempts[0].Outcome != job.OutcomeReleased || j.Attempts[0].Note == "" || j.Counts != (job.Counts{}) {
		t.Errorf("%+v, %v", j, err)
	}
	checkMemory(t, s)
}

// A job with more attempts than it can have by now, such as one that was handed
// back before that was bounded.
func TestJobOfManyAttempts(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	// With the last one it is a number of whole statements: none may take the last.
	const n = store.MaxAttempts + retainOf - 1
	id := put(t, s, newJob("q"))[0]
	lease := take(t, s, "q", 1)[0].Lease
	inWriter(t, s, func(x *tx) error {
		x.w.state.attempt = n
		if _, err := x.exec(`WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM k WHERE i<?)
			INSERT INTO attempt(n, seq, number, worker, started_at, ended_at, outcome, charged, all_charged, lost, lost_row, unreceived, next_run_at)
			SELECT i, 1, i, 'w', ?, ?, 'released', 0, 0, 0, 0, 0, ? FROM k`, n, x.now, x.now, x.now); err != nil {
			return err
		}
		_, err := x.exec(`WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM k WHERE i<?)
			INSERT INTO log(seq, attempt, n, at, level, message) SELECT 1, 1+i%3, i, ?, 'info', 'm' FROM k`, 2*n, x.now)
		if err != nil {
			return err
		}
		l := x.w.state.running[1]
		x.move(l)
		l.attempt = n + 1
		_, err = x.exec("UPDATE running SET attempt=? WHERE seq=1", n+1)
		return err
	})
	if a, err := s.Report(t.Context(), []store.Report{{Type: store.Complete, Lease: lease}}); err != nil || a[0].Status != store.LeaseLost {
		t.Fatalf("%+v, %v", a, err)
	}
	say(t, s, store.Report{Type: store.Complete, Lease: s.tokens.Make(1, n+1)})
	j, err := s.Job(t.Context(), id)
	if err != nil || len(j.Attempts) != store.MaxAttempts || j.Attempts[store.MaxAttempts-1].Number != n+1 || j.Attempts[0].Number != n+2-store.MaxAttempts {
		t.Fatalf("%d attempts, %v", len(j.Attempts), err)
	}
	h.step(time.Hour)
	steps := retainAll(t, s, store.Retention{Finished: time.Minute})
	if steps < 3*n/retainOf {
		t.Errorf("%d rows went in %d steps", 3*n, steps)
	}
	for _, table := range []string{"job", "attempt", "log", "lane", "tally"} {
		if left := rowsOf(t, s, table); left != 0 {
			t.Errorf("%d rows of %s are left", left, table)
		}
	}
	checkMemory(t, s)
}

// What was logged in a hand-back goes with it.
func TestLinesOfOldHandBacks(t *testing.T) {
	s := testStore(t, Options{})
	put(t, s, newJob("q"))
	for range store.HandBacks + 20 {
		lease := take(t, s, "q", 1)[0].Lease
		say(t, s, store.Report{Type: store.AddLog, Lease: lease, Lines: []job.LogLine{{Seq: 1, Message: "m"}}}, store.Report{Type: store.Release, Lease: lease})
	}
	if lines, attempts := rowsOf(t, s, "log"), rowsOf(t, s, "attempt"); lines != store.HandBacks || attempts != store.HandBacks {
		t.Errorf("%d lines of %d attempts, want %d of each", lines, attempts, store.HandBacks)
	}
}

// What the table of moves lacks changes nothing.
func TestIllegalMove(t *testing.T) {
	s := testStore(t, Options{})
	put(t, s, newJob("q"))
	lease := take(t, s, "q", 1)[0].Lease
	err := s.writer.submit(t.Context(), 0, func(x *tx) error {
		_, err := x.apply(x.w.state.running[1], job.Transition{Cause: job.Lapse, To: job.Succeeded, Outcome: job.OutcomeLost}, ending{})
		return err
	})
	if err == nil {
		t.Error("a lapse succeeded")
	}
	say(t, s, store.Report{Type: store.Complete, Lease: lease})
	checkMemory(t, s)
}
