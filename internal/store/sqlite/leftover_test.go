// These tests would catch a delete that keeps the writer for as long as a job's history
// is, one that readers see half done, and history that stays for ever.
package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// withHistory makes a queued job with so many failed attempts, each with so many lines.
func withHistory(t *testing.T, s *Store, attempts, lines int) (id string) {
	t.Helper()
	id = put(t, s, newJob("q"))[0]
	log := make([]job.LogLine, lines)
	for i := range log {
		log[i] = job.LogLine{Seq: int64(i), Message: "a line"}
	}
	for range attempts {
		lease := take(t, s, "q", 1)[0].Lease
		say(t, s, store.Report{Type: store.AddLog, Lease: lease, Lines: log},
			store.Report{Type: store.Release, Lease: lease})
	}
	return id
}

func TestDeleteOfAHugeHistory(t *testing.T) {
	const attempts = 20
	retained := func(t *testing.T, s *Store, h *hand) {
		r := succeed
		r.Lease = take(t, s, "q", 1)[0].Lease
		say(t, s, r)
		h.step(time.Hour)
	}
	for name, at := range map[string]struct {
		lines int
		leave func(t *testing.T, s *Store, h *hand)
	}{
		"queued": {200, func(*testing.T, *Store, *hand) {}},
		// Retention by age meets it too, and each of both takes the last of it once.
		"ended, the last of it as a leftover": {200, retained},
		"ended, the last of it by its age":    {175, retained},
	} {
		t.Run(name, func(t *testing.T) {
			lines := at.lines
			var h hand
			s := testStore(t, h.options(Options{}))
			other := put(t, s, newJob("other"))[0]
			id := withHistory(t, s, attempts, lines)
			at.leave(t, s, &h)
			if err := s.Delete(t.Context(), id, "me"); err != nil {
				t.Fatal(err)
			}
			if n := rowsOf(t, s, "log"); n != int64(attempts*lines-retainOf) {
				t.Errorf("%d lines are left of %d, want all but %d", n, attempts*lines, retainOf)
			}
			s = crashed(t, s)
			if _, err := s.Job(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the job: %v", err)
			}
			if _, err := s.Logs(t.Context(), id, 1); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("its lines: %v", err)
			}
			if left, _ := all(t, s, store.Filter{Limit: 100}); len(left) != 1 || left[0] != other {
				t.Errorf("the list: %v", left)
			}
			if err := s.Delete(t.Context(), id, "me"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("deleted twice: %v", err)
			}
			steps := retainAll(t, s, store.Retention{Finished: time.Minute, DeadLetters: time.Minute})
			if steps < attempts*lines/retainOf/3 { // of both walks, each takes some
				t.Errorf("%d steps", steps)
			}
			for _, table := range []string{"log", "attempt", "leftover"} {
				if n := rowsOf(t, s, table); n != 0 {
					t.Errorf("%d rows of %s are left", n, table)
				}
			}
			checkMemory(t, s)
			recount(t, s)
		})
	}
}

// A job of little goes at once, and leaves nothing.
func TestDeleteOfALittleHistory(t *testing.T) {
	s := testStore(t, Options{})
	id := withHistory(t, s, 3, 3)
	if err := s.Delete(t.Context(), id, "me"); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"job", "ready", "log", "attempt", "leftover", "lane"} {
		if n := rowsOf(t, s, table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}
