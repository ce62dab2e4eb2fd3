// These tests would catch a store that says nothing of a time that is far from
// the machine's, or says so at each start.
package sqlite

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestTimeAheadIsTold(t *testing.T) {
	var h hand
	o := h.options(Options{})
	s := testStore(t, o)
	put(t, s, newJob("q"))
	told := s.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Path = s.path
	for _, c := range []struct {
		back time.Duration
		want string
	}{
		{0, ""}, {time.Minute, ""},
		{time.Hour, "store_time=" + told.Format("2006-01-02T15:04:05.000Z") + " clock=" + told.Add(-time.Hour).Format("2006-01-02T15:04:05.000Z") + " ahead=1h0m0s"},
	} {
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Wall = func() time.Time { return told.Add(-c.back) }
		o.Mono = func() time.Duration { return 0 } // so that no time passes meanwhile
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if now := s.Now(); !now.Equal(told) {
			t.Errorf("a clock %v back: the store's time is %v, want %v", c.back, now, told)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("a clock %v back: it says %q, want %q", c.back, got, c.want)
		}
	}
}

// A time that was told is not told again after a kill, though the wall clock is
// behind it and nothing but sweeps has happened since.
func TestTimeIsKeptByTheSweep(t *testing.T) {
	var h hand
	o := h.options(Options{})
	wall := o.Wall
	var back time.Duration
	o.Wall = func() time.Time { return wall().Add(-back) }
	s := testStore(t, o)
	put(t, s, newJob("q"))
	back = time.Hour
	h.step(20 * time.Second)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := s.Now()
	if now := crashed(t, s).Now(); now.Before(told) {
		t.Errorf("it was %v and is %v", told, now)
	}
	commits := s.Vitals().Commits
	back = 0
	h.step(20 * time.Minute) // until the wall clock is not behind any more
	for range 3 {
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Vitals().Commits; n != commits {
		t.Errorf("sweeps of an idle store made %d commits", n-commits)
	}
}
