// These tests would catch a policy that is removed though a job has it, one that is
// kept for ever, a walk over all jobs for nothing, and a number of a policy that is
// given out again and read as the old one.
package sqlite

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// own is a job with a policy of its own.
func own(queue string, n int) store.NewJob {
	j := newJob(queue)
	j.Policy.Initial = time.Duration(n) * time.Second
	return j
}

// owns creates n jobs with policies of their own, from a first one on.
func owns(t *testing.T, s *Store, queue string, first, n int) []string {
	t.Helper()
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = own(queue, first+i)
	}
	return put(t, s, jobs...)
}

// finishAll completes every job of a queue.
func finishAll(t *testing.T, s *Store, queue string) {
	t.Helper()
	for {
		claimed := take(t, s, queue, 500)
		if len(claimed) == 0 {
			return
		}
		reports := make([]store.Report, len(claimed))
		for i, c := range claimed {
			reports[i] = succeed
			reports[i].Lease = c.Lease
		}
		say(t, s, reports...)
	}
}

var keepAMinute = store.Retention{Finished: time.Minute, DeadLetters: time.Minute}

func TestDisusedPolicies(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	kept := owns(t, s, "kept", 1, 3)
	owns(t, s, "q", 100, 2*disusedStep+100)
	finishAll(t, s, "q")
	running := finish(t, s, own("again", 50), again) // waits for its retry
	h.step(time.Hour)
	steps := retainAll(t, s, keepAMinute)
	if n := rowsOf(t, s, "policy"); n != 4 {
		t.Fatalf("%d policies are left, want those of 4 jobs", n)
	}
	if steps < 3 {
		t.Errorf("%d steps for %d policies", steps, 2*disusedStep+100)
	}
	// Those of the jobs that are left are theirs, and numbers that are given out
	// again are read as what they are now, by readers and by the writer.
	again := owns(t, s, "q", 100, 5)
	other := owns(t, s, "q", 5000, 5)
	for i, id := range append(append(kept, again...), other...) {
		want := time.Duration([]int{1, 2, 3, 100, 101, 102, 103, 104, 5000, 5001, 5002, 5003, 5004}[i]) * time.Second
		if j, err := s.Job(t.Context(), id); err != nil || j.Policy.Initial != want {
			t.Errorf("the policy of %s: %v, %v; want %v", id, j, err, want)
		}
	}
	for _, c := range append(take(t, s, "q", 10), take(t, s, "again", 1)...) {
		j, err := s.Job(t.Context(), c.Job.ID)
		if err != nil || j.Policy != c.Job.Policy {
			t.Errorf("claimed with %+v, read with %+v, %v", c.Job.Policy, j.Policy, err)
		}
		r := again50
		r.Lease = c.Lease
		say(t, s, r)
	}
	if j, err := s.Job(t.Context(), running); err != nil || j.Counts.Charged != 2 {
		t.Errorf("%+v, %v", j, err)
	}
	s = testStore(t, h.options(Options{Path: reopenPath(t, s)}))
	if j, err := s.Job(t.Context(), kept[1]); err != nil || j.Policy.Initial != 2*time.Second {
		t.Errorf("after a restart: %+v, %v", j, err)
	}
}

// again50 fails an attempt.
var again50 = store.Report{Type: store.Fail, Hash: [32]byte{50}, Error: &job.Error{Message: "m"}}

func reopenPath(t *testing.T, s *Store) string {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.path
}

// A policy that came into use while a round goes on stays.
func TestDisusedWhileJobsCome(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	owns(t, s, "q", 100, disusedFew)
	finishAll(t, s, "q")
	h.step(time.Hour)
	retain := func() store.More {
		t.Helper()
		more, err := s.Retain(t.Context(), keepAMinute)
		if err != nil {
			t.Fatal(err)
		}
		return more
	}
	for s.disused.round == nil { // the first of its steps is done, and removed some
		if !retain() {
			t.Fatal("no round began")
		}
	}
	if n := rowsOf(t, s, "policy"); n < disusedFew-disusedStep || n >= disusedFew {
		t.Fatalf("%d policies are left after a step, want %d, or more where it took long", n, disusedFew-disusedStep)
	}
	var ids []string
	for n := 100; n < 100+disusedFew; n += 10 { // some of those that are left, and some that are gone
		ids = append(ids, put(t, s, own("new", n))...)
	}
	for retain() {
	}
	if n := rowsOf(t, s, "policy"); n != int64(len(ids)) {
		t.Errorf("%d policies are left, want those of %d jobs", n, len(ids))
	}
	for i, id := range ids {
		if j, err := s.Job(t.Context(), id); err != nil || j.Policy.Initial != time.Duration(100+10*i)*time.Second {
			t.Errorf("%s: %v, %v", id, j, err)
		}
	}
}

// The writer looks at the jobs that came after the last read, and removes nothing
// before it has seen all of them.
func TestDisusedTail(t *testing.T) {
	s := testStore(t, Options{})
	owns(t, s, "q", 1, disusedTail+3)
	r := &disusedRound{policies: map[policyID]struct{}{7: {}, 9999: {}, disusedTail + 2: {}}, size: 3}
	run := func() removal {
		t.Helper()
		x := removal{round: r}
		if err := s.writer.submit(t.Context(), 0, x.run); err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := run()
	if x.seq != disusedTail || len(x.used) != disusedTail || len(x.gone) != 0 {
		t.Fatalf("to job %d, %d used, gone %v", x.seq, len(x.used), x.gone)
	}
	r.seq = x.seq // and not what it used, which a step of the round takes out
	var gone []policyID
	for range 2 { // one at least at a time, on however slow a machine
		x := run()
		if x.seq != disusedTail+3 || len(x.used) != 3 {
			t.Fatalf("to job %d, %d used", x.seq, len(x.used))
		}
		gone = append(gone, x.gone...)
		for _, p := range x.gone {
			delete(r.policies, p)
		}
	}
	slices.Sort(gone)
	if !slices.Equal(gone, []policyID{7, 9999}) {
		t.Errorf("gone are %v, want 7 and 9999", gone)
	}
}

// A removal that is rolled back with its group has not happened.
func TestDisusedRollback(t *testing.T) {
	s := testStore(t, Options{})
	owns(t, s, "q", 1, 3)
	r := &disusedRound{policies: map[policyID]struct{}{1: {}, 2: {}}, seq: 3, size: 2}
	x := removal{round: r}
	failed := s.writer.submit(t.Context(), 0, func(t *tx) error {
		if err := x.run(t); err != nil {
			return err
		}
		return t.fail(context.Canceled)
	})
	if failed == nil {
		t.Fatal("it was committed")
	}
	if n := rowsOf(t, s, "policy"); n != 3 || len(r.policies) != 2 {
		t.Errorf("%d policies, %d of the round", n, len(r.policies))
	}
	put(t, s, own("q", 1), own("q", 2), own("q", 4))
	if n := rowsOf(t, s, "policy"); n != 4 {
		t.Errorf("%d policies for 4 snapshots", n)
	}
}

// Few policies are left alone; rounds that find nothing become rare.
func TestDisusedRests(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	owns(t, s, "q", 1, disusedFew-1)
	finishAll(t, s, "q")
	h.step(time.Hour)
	retainAll(t, s, keepAMinute)
	if n := rowsOf(t, s, "policy"); n != disusedFew-1 {
		t.Errorf("of %d policies %d are left", disusedFew-1, n)
	}
	owns(t, s, "stays", 1, disusedFew+1)
	rounds := 0
	for minute := range 7 * 60 {
		h.step(time.Minute)
		before := s.disused.next
		retainAll(t, s, keepAMinute)
		if s.disused.next != before {
			rounds++
		}
		if rounds == 3 && minute < 5*60 { // after 1, 2 and 4 hours
			t.Fatalf("the third round after %d minutes", minute)
		}
	}
	if rounds != 3 {
		t.Errorf("%d rounds in 7 hours, want 3", rounds)
	}
	if n := rowsOf(t, s, "policy"); n != disusedFew+1 {
		t.Errorf("%d policies, each with a job, are %d now", disusedFew+1, n)
	}
}

// What readers remember of policies is bounded.
func TestSnapshotsAreBounded(t *testing.T) {
	var known snapshots
	p := job.Resolve()
	for n := range maxPolicies + 10 {
		p.MaxAttempts = n
		body, err := encodePolicy(p)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := known.decode(body); err != nil || got != p {
				t.Fatalf("%+v, %v", got, err)
			}
		}
	}
	if n := len(known.byBody); n != 10 {
		t.Errorf("%d are remembered", n)
	}
	if _, err := known.decode("{"); err == nil || len(known.byBody) != 10 {
		t.Errorf("what is none: %v", err)
	}
}
