package sqlite

import (
	"errors"
	"testing"

	"github.com/pawlhq/pawl/internal/store"
)

// A commit counts the operations that are in it, each once: also a claim that began
// to wait in it and was served, and one that began to wait before.
func TestOperationsOfACommit(t *testing.T) {
	s := testStore(t, Options{})
	create := func() error { _, err := s.Create(t.Context(), []store.NewJob{newJob("q")}); return err }
	claim := func() error { return claimNow(t, s, want("q", 1, forever)).err }
	count := func(what string, operations int64, do func()) {
		t.Helper()
		before := s.Vitals()
		do()
		after := s.Vitals()
		if n := after.Operations - before.Operations; after.Commits-before.Commits != 1 || n != operations {
			t.Errorf("%s: %d commits of %d operations, want 1 of %d", what, after.Commits-before.Commits, n, operations)
		}
	}
	count("two creates", 2, func() {
		if err := errors.Join(together(t, s, create, create)...); err != nil {
			t.Error(err)
		}
	})
	take(t, s, "q", 2)
	count("a claim and the create that serves it", 2, func() {
		if err := errors.Join(together(t, s, claim, create)...); err != nil {
			t.Error(err)
		}
	})
	got := park(t, s, t.Context(), want("q", 1, forever))
	count("a create that serves a claim", 2, func() {
		put(t, s, newJob("q"))
		if c := <-got; c.err != nil {
			t.Error(c.err)
		}
	})
}
