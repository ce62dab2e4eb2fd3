// These tests would catch leases that a restart or an idle sweep ends too early,
// or never; leases of the relay that outlive its process; and memory that random
// groups, rolled back and done again, leave otherwise than the file.
package sqlite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// reopen opens the store again on the same file.
func reopen(t *testing.T, s *Store, o Options) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Path = s.path
	return testStore(t, o)
}

func sweep(t *testing.T, s *Store) store.Swept {
	t.Helper()
	swept, err := s.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

func TestRestartKeepsLeases(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	long := newJob("q")
	long.Timeout = time.Hour
	put(t, s, newJob("q"), long, long)
	leases := take(t, s, "q", 3)
	say(t, s, store.Report{Type: store.Start, Lease: leases[0].Lease})
	h.step(5 * time.Minute) // closed, or killed: nobody could report
	s = reopen(t, s, h.options(Options{}))
	if swept := sweep(t, s); swept.Graced != 3 || swept.Lost+swept.Unreceived+swept.TimedOut != 0 {
		t.Errorf("swept %+v, want 3 graced", swept)
	}
	for range 29 {
		h.step(time.Second)
		if swept := sweep(t, s); swept.Graced+swept.Lost+swept.Unreceived != 0 {
			t.Fatalf("swept %+v before the leases were over", swept)
		}
	}
	// A result that a worker kept all the while is taken.
	say(t, s, store.Report{Type: store.Complete, Lease: leases[0].Lease})
	say(t, s, store.Report{Type: store.Heartbeat, Lease: leases[1].Lease})
	for range 2 {
		h.step(time.Second)
		sweep(t, s)
	}
	if got := listJobs(t, s, store.Filter{Status: job.Queued}); len(got) != 1 || got[0].Counts.Unreceived != 1 {
		t.Errorf("queued again: %+v, want the one that was never heard of", got)
	}
	checkMemory(t, s)
}

func TestRestartGivesBackTheRelays(t *testing.T) {
	s := testStore(t, Options{})
	ids := put(t, s, newJob("q"), newJob("q"))
	w := want("q", 1, 0)
	w.Worker = store.RelayWorker + "orders"
	gets(t, claimNow(t, s, w), ids[0])
	w.Worker = testWorker
	gets(t, claimNow(t, s, w), ids[1])
	s = reopen(t, s, Options{})
	if n := s.Vitals().Running; n != 1 {
		t.Errorf("%d leases, want the worker's", n)
	}
	j, err := s.Job(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if a := j.Attempts[0]; j.Status != job.Queued || a.Outcome != job.OutcomeReleased || a.Charged || j.Counts != (job.Counts{}) {
		t.Errorf("%s, attempt %+v, counts %+v", j.Status, a, j.Counts)
	}
	w.Worker = store.RelayWorker + "orders"
	gets(t, claimNow(t, s, w), ids[0])
	checkMemory(t, s)
}

// A server that was stopped, or swept for nobody, finds no worker lost; the path
// that is down finds none either, once.
func TestGapAndBrake(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	var jobs []store.NewJob
	for range 12 {
		jobs = append(jobs, newJob("q"))
	}
	put(t, s, jobs...)
	leases := take(t, s, "q", 12)
	h.step(11 * time.Second)
	if swept := sweep(t, s); swept.Graced != 12 {
		t.Errorf("after a gap: %+v", swept)
	}
	for range 9 {
		h.step(time.Second)
		sweep(t, s)
	}
	for _, l := range leases {
		say(t, s, store.Report{Type: store.Heartbeat, Lease: l.Lease})
	}
	graced, lost := 0, 0
	for range 100 {
		h.step(time.Second)
		swept := sweep(t, s)
		if swept.Graced > 0 && lost > 0 {
			t.Error("a grace after a loss")
		}
		graced, lost = graced+swept.Graced, lost+swept.Lost
	}
	if graced != 12 || lost != 12 {
		t.Errorf("silence: %d graced, %d lost; want each once", graced, lost)
	}
	checkMemory(t, s)
}

// Many that end at once are ended by one sweep, in several steps.
func TestSweepOfMany(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	n := 2*sweepStep + 3
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob("q")
		jobs[i].Timeout = 2 * time.Second
	}
	put(t, s, jobs...)
	take(t, s, "q", n)
	h.step(2 * time.Second)
	if swept := sweep(t, s); swept.TimedOut != n || !swept.Next.IsZero() {
		t.Errorf("swept %+v, want %d timed out", swept, n)
	}
	checkMemory(t, s)
}

// The clock does not go back over a restart, whatever the wall clock does.
func TestClockOverARestart(t *testing.T) {
	var h hand
	h.step(time.Hour)
	s := testStore(t, h.options(Options{}))
	put(t, s, newJob("q"))
	before := s.Now()
	var back hand
	s = reopen(t, s, back.options(Options{}))
	if now := s.Now(); now.Before(before) {
		t.Errorf("it is %v, and was %v", now, before)
	}
}

// Random operations in random groups, some with one that fails: memory is what
// the file says after each, and after a restart.
func TestRandomGroups(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var h hand
	o := h.options(Options{Rand: func() float64 { return 0.5 }})
	s := testStore(t, o)
	var leases []string
	queue := func() string { return fmt.Sprintf("q%d", r.IntN(3)) }
	lease := func() string {
		if len(leases) == 0 {
			return "lse_none"
		}
		return leases[r.IntN(len(leases))]
	}
	got := make(chan []store.Claimed, 100)
	report := func(p store.Report) func() error {
		return func() error { _, err := s.Report(t.Context(), []store.Report{p}); return err }
	}
	operation := func() func() error {
		switch r.IntN(12) {
		case 0, 1, 2:
			jobs := make([]store.NewJob, 1+r.IntN(3))
			for i := range jobs {
				jobs[i] = newJob(queue())
				jobs[i].Priority, jobs[i].Endpoint = r.IntN(2), []string{"", "e"}[r.IntN(2)]
				jobs[i].Delay = time.Duration(r.IntN(3)) * 10 * time.Second
				jobs[i].Policy.MaxAttempts = 1 + r.IntN(3)
				if r.IntN(2) == 0 {
					jobs[i].Key = fmt.Sprint("key", r.IntN(20))
				}
			}
			return func() error { _, err := s.Create(t.Context(), jobs); return err }
		case 3, 4, 5:
			w := want(queue(), 1+r.IntN(4), 0)
			w.Queues = append(w.Queues, store.QueueLease{Queue: queue(), Lease: 20 * time.Second})
			if r.IntN(2) == 0 {
				w.ClaimID = fmt.Sprint("claim", r.IntN(5))
			}
			return func() error {
				c, err := s.Claim(t.Context(), w)
				got <- c.Jobs
				return err
			}
		case 6:
			return report(store.Report{Type: store.Complete, Lease: lease(), Result: []byte("1")})
		case 7:
			return report(store.Report{Type: store.Fail, Lease: lease(), Error: &job.Error{Message: "m"}, Failure: job.Failure{Permanent: r.IntN(3) == 0}})
		case 8:
			return report(store.Report{Type: []store.ReportType{store.Start, store.Heartbeat, store.Release}[r.IntN(3)], Lease: lease()})
		case 9:
			lines := []job.LogLine{{Seq: int64(r.IntN(4)), Message: string(make([]byte, r.IntN(40<<10)))}}
			return report(store.Report{Type: store.AddLog, Lease: lease(), Lines: lines})
		case 10:
			g := lane.Gate{Kind: lane.QueueGate, Name: queue()}
			if r.IntN(2) == 0 {
				g = lane.Gate{Kind: lane.EndpointGate, Name: "e"}
			}
			if r.IntN(3) == 0 {
				return func() error { return s.Pause(t.Context(), g, "me") }
			}
			return func() error { return s.Resume(t.Context(), g, "ops") }
		default:
			return func() error { _, err := s.Sweep(t.Context()); return err }
		}
	}
	bad := func() error {
		return s.writer.submit(t.Context(), 0, func(x *tx) error { _, err := x.exec("INSERT INTO job(seq) VALUES (NULL)"); return err })
	}
	for round := range 150 {
		ops := make([]func() error, 1+r.IntN(5))
		at := r.IntN(2 * len(ops))
		for i := range ops {
			if ops[i] = operation(); i == at {
				ops[i] = bad
			}
		}
		for i, err := range together(t, s, ops...) {
			if i == at && err == nil {
				t.Errorf("round %d: the bad operation was answered ok", round)
			}
			if _, conflict := err.(*store.ConflictError); i != at && err != nil && !conflict {
				t.Errorf("round %d, operation %d: %v", round, i, err)
			}
		}
		for len(got) > 0 {
			for _, j := range <-got {
				leases = append(leases, j.Lease)
			}
		}
		h.step(time.Duration(r.IntN(8000)) * time.Millisecond)
		checkMemory(t, s)
		if r.IntN(30) == 0 {
			s = reopen(t, s, o)
			checkMemory(t, s)
		}
		if t.Failed() {
			t.Fatalf("round %d of SEED=%d", round, seed)
		}
	}
	recount(t, s)
}

// recount compares the kept counts with the rows.
func recount(t *testing.T, s *Store) {
	t.Helper()
	counts, err := s.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		kept := map[job.Status]int64{job.Queued: c.Ready, job.Running: c.Running, job.Succeeded: c.Succeeded, job.Failed: c.Failed, job.Cancelled: c.Cancelled}
		for status, n := range kept {
			f := store.Filter{Queue: c.Lane.Queue, Status: status, Limit: store.MaxPage}
			found := int64(0)
			for {
				page, err := s.List(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range page.Jobs {
					if j.Priority == c.Lane.Priority && j.Endpoint == c.Lane.Endpoint && j.Task == c.Lane.Task && j.Version == c.Lane.Version {
						found++
					}
				}
				if f.Cursor = page.Next; page.Next == "" {
					break
				}
			}
			if n != found {
				t.Errorf("%+v: %d %s by the count, %d by the rows", c.Lane, n, status, found)
			}
		}
	}
}
