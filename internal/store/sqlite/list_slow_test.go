package sqlite

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// A machine so slow that the time of a page is over before its first row would
// otherwise give out the same cursor again and again.
func TestASlowListMovesOn(t *testing.T) {
	s := testStore(t, Options{})
	for range 3 {
		put(t, s, newJob("q"))
	}
	l := lister{store: s, filter: store.Filter{Limit: 10}, began: time.Now().Add(-time.Hour)}
	if err := s.readers.view(t.Context(), func(c *conn) error {
		l.conn = c
		return l.page(t.Context(), 1<<63-1)
	}); err != nil {
		t.Fatal(err)
	}
	if len(l.jobs) != 1 || l.end || l.at != 3 {
		t.Errorf("%d jobs, at %d, the end: %t; want the newest alone", len(l.jobs), l.at, l.end)
	}
}
