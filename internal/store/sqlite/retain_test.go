// These tests would catch finished jobs that are kept too long or removed too
// early, rows of a removed job that stay, counts that drift, keys that stay
// taken, seqs that are given out again, and steps without bounds.
package sqlite

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// retainAll runs retention to its end and returns how many steps it took.
func retainAll(t *testing.T, s *Store, r store.Retention) int {
	t.Helper()
	for steps := 1; ; steps++ {
		more, err := s.Retain(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return steps
		}
	}
}

// rowsOf counts the rows of a table.
func rowsOf(t *testing.T, s *Store, table string) (n int64) {
	t.Helper()
	if err := s.readers.use(t.Context(), func(c *conn) error {
		_, err := c.one("SELECT count(*) FROM "+table, func(r *row) error { n = r.int(0); return nil })
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRetain(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	keep := store.Retention{Finished: 7 * 24 * time.Hour, DeadLetters: 30 * 24 * time.Hour}
	keyed := newJob("q")
	keyed.Key, keyed.Hash = "k", [32]byte{1}
	done := put(t, s, keyed)[0]
	lease := take(t, s, "q", 1)[0].Lease
	retry := again
	retry.Lease = lease
	say(t, s, store.Report{Type: store.AddLog, Lease: lease, Lines: []job.LogLine{{Seq: 1, At: s.Now(), Message: "m"}}}, retry)
	last := succeed
	last.Lease = take(t, s, "q", 1)[0].Lease
	say(t, s, last)
	dead := finish(t, s, newJob("q"), giveUp)
	waits := put(t, s, newJob("w"))[0]
	tried := finish(t, s, newJob("r"), again)
	runs := put(t, s, newJob("u"))[0]
	retry.Lease = take(t, s, "u", 1)[0].Lease
	say(t, s, retry)
	take(t, s, "u", 1)

	left := func(want ...string) {
		t.Helper()
		got, _ := all(t, s, store.Filter{Limit: 100})
		slices.Reverse(got)
		if !slices.Equal(got, want) {
			t.Errorf("left are %v, want %v", got, want)
		}
	}
	h.step(keep.Finished - time.Millisecond)
	retainAll(t, s, keep)
	left(done, dead, waits, tried, runs)
	h.step(time.Millisecond)
	retainAll(t, s, keep)
	left(dead, waits, tried, runs)
	if n := rowsOf(t, s, "log"); n != 0 {
		t.Errorf("%d lines of its log stay", n)
	}
	if n := rowsOf(t, s, "idem"); n != 0 {
		t.Errorf("%d keys stay", n)
	}
	if n := rowsOf(t, s, "attempt"); n != 3 {
		t.Errorf("%d attempts stay, want the 3 of the others", n)
	}
	h.step(keep.DeadLetters - keep.Finished)
	retainAll(t, s, keep)
	left(waits, tried, runs)
	counts, err := s.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Lane == (lane.Key{Queue: "q", Task: "mail", Version: "1"}) && (c != store.LaneCount{Lane: c.Lane}) {
			t.Errorf("the counts drifted: %+v", c)
		}
	}
	// The key is free; the seqs of the removed are not.
	renewed := put(t, s, keyed)[0]
	seq, _, _ := s.ids.Parse(renewed)
	if old, _, _ := s.ids.Parse(runs); renewed == done || seq <= old {
		t.Errorf("seq %d was given out again", seq)
	}
	if _, err := s.Job(t.Context(), dead); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a removed job: %v", err)
	}
}

// The newest job removed, and a restart: its seq is not given out again.
func TestSeqsAfterRetainAndRestart(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	id := finish(t, s, newJob("q"), succeed)
	h.step(time.Hour)
	retainAll(t, s, store.Retention{Finished: time.Minute})
	if n := rowsOf(t, s, "job"); n != 0 {
		t.Fatalf("%d jobs left", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = testStore(t, h.options(Options{Path: s.path}))
	seq, _, _ := s.ids.Parse(put(t, s, newJob("q"))[0])
	if old, _, _ := s.ids.Parse(id); seq <= old {
		t.Errorf("seq %d after a restart, %d was removed", seq, old)
	}
}

// Dead letters that are kept longer do not keep what succeeded after them, and
// a retention of zero keeps for ever.
func TestRetainWalksApart(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	for range 2*retainChunk + 3 {
		finish(t, s, newJob("q"), giveUp)
	}
	finish(t, s, newJob("q"), succeed)
	h.step(time.Hour)
	retainAll(t, s, store.Retention{Finished: time.Minute})
	if n := rowsOf(t, s, "job"); n != 2*retainChunk+3 {
		t.Errorf("%d jobs left, want the dead letters", n)
	}
	retainAll(t, s, store.Retention{Finished: time.Minute, DeadLetters: time.Minute})
	if n := rowsOf(t, s, "attempt"); n != 0 {
		t.Errorf("%d attempts left", n)
	}
}

// A step is bounded by attempts and by time, and says that more is left.
func TestRetainInSteps(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	const n = 3 * retainRows / 2
	for range n / 250 {
		batch := make([]store.NewJob, 250)
		for i := range batch {
			batch[i] = newJob("q")
			batch[i].Content.Payload = []byte(`"` + strings.Repeat("x", 20_000) + `"`)
		}
		put(t, s, batch...)
		var reports []store.Report
		for len(reports) < 250 {
			for _, c := range take(t, s, "q", 250) {
				r := succeed
				r.Lease = c.Lease
				reports = append(reports, r)
			}
		}
		say(t, s, reports...)
	}
	h.step(time.Hour)
	more, err := s.Retain(t.Context(), store.Retention{Finished: time.Minute})
	if err != nil || !bool(more) {
		t.Fatalf("one step for %d jobs: more %v, %v", n, more, err)
	}
	if left := rowsOf(t, s, "job"); left >= n || left < n-retainRows {
		t.Errorf("one step left %d of %d", left, n)
	}
	retainAll(t, s, store.Retention{Finished: time.Minute})
	if left := rowsOf(t, s, "job"); left != 0 {
		t.Errorf("%d left", left)
	}
}

// Who waits for a job's end is told that it is gone.
func TestRetainEndsWaits(t *testing.T) {
	s := testStore(t, Options{})
	ch := s.watch.add(1)
	defer s.watch.remove(1, ch)
	s.watch.ended([]int64{2, 1})
	select {
	case <-ch:
	default:
		t.Error("it still waits")
	}
}
