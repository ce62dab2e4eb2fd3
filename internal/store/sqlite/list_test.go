// These tests would catch lists that leave out or repeat jobs, a filter that lets
// the wrong ones through, a cursor of another list that is taken, and a page
// without bounds.
package sqlite

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// all reads a list to its end, page by page.
func all(t *testing.T, s *Store, f store.Filter) (ids []string, pages int) {
	t.Helper()
	for {
		p, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, j := range p.Jobs {
			ids = append(ids, j.ID)
		}
		if p.Next == "" {
			return ids, pages
		}
		f.Cursor = p.Next
	}
}

func TestListFilters(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	one := func(queue, task, endpoint string, tags ...string) store.NewJob {
		n := newJob(queue)
		n.Task, n.Endpoint, n.Tags = task, endpoint, tags
		return n
	}
	dead := finish(t, s, one("b", "x", ""), giveUp)
	h.step(time.Second)
	done := finish(t, s, one("b", "x", "e", "red"), succeed)
	h.step(time.Second)
	runs := put(t, s, one("b", "y", "e"))[0]
	take(t, s, "b", 1)
	h.step(time.Second)
	waits := put(t, s, one("a", "x", "", "red", "blue"), one("a", "x", "e"))
	h.step(time.Second)
	lost := finish(t, s, one("c", "x", ""), again)
	names := map[string]string{dead: "dead", done: "done", runs: "runs", waits[0]: "w0", waits[1]: "w1", lost: "again"}
	time0 := s.Now().Add(-4 * time.Second)

	for _, test := range []struct {
		filter store.Filter
		want   string
	}{
		{store.Filter{}, "again w1 w0 runs done dead"},
		{store.Filter{Queue: "b"}, "runs done dead"},
		{store.Filter{Queue: "none"}, ""},
		{store.Filter{Task: "y"}, "runs"},
		{store.Filter{Endpoint: "e"}, "w1 runs done"},
		{store.Filter{Queue: "b", Task: "x", Endpoint: "e"}, "done"},
		{store.Filter{Tag: "red"}, "w0 done"},
		{store.Filter{Tag: "re"}, ""},
		{store.Filter{Status: job.Queued}, "again w1 w0"},
		{store.Filter{Status: job.Running}, "runs"},
		{store.Filter{Status: job.Succeeded}, "done"},
		{store.Filter{Status: job.Failed}, "dead"},
		{store.Filter{Status: job.Cancelled}, ""},
		{store.Filter{Status: job.Failed, Queue: "a"}, ""},
		{store.Filter{Reason: job.ReasonNonRetryable}, "dead"},
		{store.Filter{Reason: job.ReasonLost}, ""},
		{store.Filter{Reason: job.ReasonNonRetryable, Status: job.Running}, ""},
		{store.Filter{CreatedAfter: time0.Add(3 * time.Second)}, "again w1 w0"},
		{store.Filter{CreatedBefore: time0.Add(3 * time.Second)}, "runs done dead"},
		{store.Filter{CreatedAfter: time0.Add(time.Second), CreatedBefore: time0.Add(3 * time.Second)}, "runs done"},
		{store.Filter{CreatedAfter: time0.Add(time.Hour)}, ""},
		{store.Filter{CreatedBefore: time0}, ""},
		{store.Filter{CreatedBefore: time0.Add(time.Hour), Status: job.Queued, Tag: "blue"}, "w0"},
	} {
		for _, limit := range []int{500, 1, 2} {
			f := test.filter
			f.Limit = limit
			ids, _ := all(t, s, f)
			var got []string
			for _, id := range ids {
				got = append(got, names[id])
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("%+v: %q, want %q", f, text, test.want)
			}
		}
	}
}

// A list that is read while jobs are created shows each of those that were
// there once.
func TestListWhileCreating(t *testing.T) {
	s := testStore(t, Options{})
	var want []string
	for range 30 {
		want = append(want, put(t, s, newJob("q"))...)
	}
	slices.Reverse(want)
	f := store.Filter{Limit: 7}
	var got []string
	for {
		p, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range p.Jobs {
			got = append(got, j.ID)
		}
		put(t, s, newJob("q"))
		if p.Next == "" {
			break
		}
		f.Cursor = p.Next
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d jobs, want the %d that were there at first", len(got), len(want))
	}
}

func TestCursors(t *testing.T) {
	s := testStore(t, Options{})
	put(t, s, newJob("a"), newJob("a"), newJob("a"))
	p, err := s.List(t.Context(), store.Filter{Queue: "a", Limit: 1})
	if err != nil || p.Next == "" {
		t.Fatal(p, err)
	}
	for name, f := range map[string]store.Filter{
		"garbage":        {Queue: "a", Limit: 1, Cursor: "garbage!"},
		"another list's": {Queue: "b", Limit: 1, Cursor: p.Next},
		"a longer one":   {Queue: "a", Limit: 1, Cursor: p.Next + "A"},
		"an altered one": {Queue: "a", Limit: 1, Cursor: "B" + p.Next[1:]},
	} {
		if _, err := s.List(t.Context(), f); !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("%s: %v, want ErrBadCursor", name, err)
		}
	}
	if _, err := s.List(t.Context(), store.Filter{Queue: "a", Limit: 2, Cursor: p.Next}); err != nil {
		t.Errorf("with another limit: %v", err)
	}
	other := testStore(t, Options{})
	put(t, other, newJob("a"), newJob("a"))
	if _, err := other.List(t.Context(), store.Filter{Queue: "a", Cursor: p.Next}); !errors.Is(err, store.ErrBadCursor) {
		t.Errorf("of another store: %v, want ErrBadCursor", err)
	}
}

// Pages end at a number of bytes and at a number of rows, and go on after both.
func TestListBounds(t *testing.T) {
	s := testStore(t, Options{})
	big := newJob("big")
	big.Content.Payload = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	var want []string
	for range 20 {
		want = append(want, put(t, s, big)...)
	}
	slices.Reverse(want)
	got, pages := all(t, s, store.Filter{Limit: 500})
	if !slices.Equal(got, want) || pages < 20>>3 {
		t.Errorf("%d jobs of 1 MiB in %d pages, want 20 in at least 3", len(got), pages)
	}

	rare := put(t, s, newJob("rare"))[0]
	for range (listRows + 2000) / 1000 {
		batch := make([]store.NewJob, 1000)
		for i := range batch {
			batch[i] = newJob("many")
		}
		put(t, s, batch...)
	}
	p, err := s.List(t.Context(), store.Filter{Queue: "rare", Limit: 10})
	if err != nil || len(p.Jobs) != 0 || p.Next == "" {
		t.Errorf("one page looked at more than %d rows: %d jobs, next %q, %v", listRows, len(p.Jobs), p.Next, err)
	}
	if got, _ := all(t, s, store.Filter{Queue: "rare", Limit: 10}); !slices.Equal(got, []string{rare}) {
		t.Errorf("page by page: %v, want %s", got, rare)
	}
}
