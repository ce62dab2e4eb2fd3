// These tests would catch a disk that is filled to its last byte by creates, so
// that workers can't finish, one that refuses creates although there is room,
// and a create that waits for the disk's figures each time.
package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite/faultvfs"
)

func TestSpaceIsAskedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, free, in := 0, int64(100), has{}
		s := newSpace("/x/pawl.db", Options{Reserve: 100, Free: func(folder string) (int64, error) {
			if folder != "/x" {
				t.Errorf("asked for %s", folder)
			}
			asked++
			return free, nil
		}}, func() (has, error) { return in, nil })
		for range 10 {
			if s.room() != roomEnough {
				t.Fatal("full with as much free as the reserve")
			}
		}
		free = 99
		if s.room() != roomEnough || asked != 1 {
			t.Errorf("asked %d times in one moment", asked)
		}
		time.Sleep(spaceEvery)
		if s.room() != roomReserve || asked != 2 {
			t.Errorf("a second later: asked %d times", asked)
		}
		free = 100
		time.Sleep(spaceEvery)
		if s.room() != roomEnough {
			t.Error("still full with space again")
		}
		// What the WAL has counts, and what is free inside the database, for
		// what each of them would need.
		free = 10
		for _, test := range []struct {
			in   has
			want room
		}{
			{has{}, roomReserve}, {has{wal: 90}, roomReserve}, {has{pages: 1000}, roomReserve},
			{has{wal: 89, pages: 1000}, roomReserve}, {has{wal: 90, pages: 90}, roomEnough},
		} {
			in = test.in
			s.look()
			if got := s.room(); got != test.want {
				t.Errorf("with %+v inside: %s, want %s", in, got, test.want)
			}
		}
	})
}

// A burst is over before the disk is looked at again: what it lets in and what is
// written count by themselves.
func TestBurstStopsAtTheReserve(t *testing.T) {
	const mib = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		free := int64(DefaultReserve + 10*mib)
		s := newSpace("/x/pawl.db", Options{Free: func(string) (int64, error) { return free, nil }}, func() (has, error) { return has{}, nil })
		for range 2 {
			given, err := s.take(2 * mib)
			if err != nil {
				t.Fatal(err)
			}
			s.wrote(2 * mib)
			given()
		}
		if _, err := s.take(2 * mib); !errors.Is(err, store.ErrReserve) {
			t.Errorf("after 8 of 10 MiB were written, 4 more: %v, want ErrReserve", err)
		}
		small, err := s.take(mib / 2)
		if err != nil {
			t.Errorf("after 8 of 10 MiB were written, 1 more: %v", err)
		}
		if _, err := s.take(mib / 2); !errors.Is(err, store.ErrReserve) {
			t.Errorf("beside what is not yet written: %v, want ErrReserve", err)
		}
		small()
		// Where it seems used up, the disk is asked again soon: it has what the
		// count had twice.
		free = DefaultReserve + 6*mib
		time.Sleep(spaceAgain)
		given, err := s.take(2 * mib)
		if err != nil {
			t.Errorf("looked at again, 4 of 6 MiB: %v", err)
		}
		given()
	})
}

// A disk that jobs have filled takes new ones once retention has removed some.
func TestRetentionMakesRoom(t *testing.T) {
	var h hand
	free := int64(1 << 30)
	s := testStore(t, h.options(Options{Reserve: 4 << 20, Free: func(string) (int64, error) { return free, nil }}))
	fill(t, s, 8)
	for got := take(t, s, "q", 8); len(got) > 0; got = take(t, s, "q", 8) { // 8 MiB are an answer
		for _, c := range got {
			r := succeed
			r.Lease = c.Lease
			say(t, s, r)
		}
	}
	free = 0
	s.space.look()
	if err := s.Ready(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Fatalf("with nothing free: %v", err)
	}
	h.step(time.Hour)
	retainAll(t, s, store.Retention{Finished: time.Minute})
	s.space.look()
	put(t, s, newJob("q"))
}

func TestFullDisk(t *testing.T) {
	free := int64(1 << 30)
	s := testStore(t, Options{Free: func(string) (int64, error) { return free, nil }})
	put(t, s, newJob("q"), newJob("q"))
	free = DefaultReserve - 1
	s.space.look()
	if _, err := s.Create(t.Context(), []store.NewJob{newJob("q")}); !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrReserve) {
		t.Errorf("create: %v, want ErrFull that is ErrReserve", err)
	}
	if err := s.HandOver(t.Context(), "reader", 0, 1, []store.NewJob{newJob("q")}); !errors.Is(err, store.ErrReserve) {
		t.Errorf("deliveries of events: %v, want ErrReserve", err)
	}
	if err := s.HandOver(t.Context(), "reader", 0, 1, nil); err != nil {
		t.Errorf("a cursor alone: %v", err)
	}
	if err := s.AddLetter(t.Context(), store.Letter{ID: "l"}); !errors.Is(err, store.ErrFull) {
		t.Errorf("letter: %v, want ErrFull", err)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("ready: %v, want ErrFull", err)
	}
	done := succeed
	done.Lease = take(t, s, "q", 1)[0].Lease
	say(t, s, done)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if _, err := s.Retain(t.Context(), store.Retention{Finished: time.Hour}); err != nil {
		t.Errorf("retain: %v", err)
	}
	free = DefaultReserve + 1<<20 // what a create writes fits in
	s.space.look()
	put(t, s, newJob("q"))
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("ready with space again: %v", err)
	}
}

// A disk on which nothing fits is worse than one whose reserve is used: the store is
// not ready then, until a write goes well again.
func TestNothingFits(t *testing.T) {
	f := faultvfs.New(t.Name())
	t.Cleanup(f.Close)
	free := int64(1 << 40)
	var log strings.Builder
	s := testStore(t, Options{VFS: f.Name(), Free: func(string) (int64, error) { return free, nil }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	id := put(t, s, newJob("q"))[0]
	free = 0
	s.space.look()
	if err := s.Ready(t.Context()); !errors.Is(err, store.ErrReserve) {
		t.Errorf("with the reserve: %v", err)
	}
	f.Arm(faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full})
	for range 2 {
		if _, err := s.Cancel(t.Context(), id, "ops"); !errors.Is(err, store.ErrFull) {
			t.Errorf("a cancel: %v", err)
		}
	}
	f.Clear()
	if err := s.Ready(t.Context()); !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrReserve) {
		t.Errorf("with nothing left: %v", err)
	}
	if _, err := s.Cancel(t.Context(), id, "ops"); err != nil {
		t.Error(err)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, store.ErrReserve) {
		t.Errorf("with the reserve again: %v", err)
	}
	if n := strings.Count(log.String(), "claims and reports are refused too"); n != 1 || !strings.Contains(log.String(), "can be written again") {
		t.Errorf("told %d times:\n%s", n, &log)
	}
}

// The log tells once that there is no room, and once that there is again, however
// often a disk at its edge goes to and fro.
func TestAFullDiskIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	free := int64(1 << 30)
	s := testStore(t, Options{Free: func(string) (int64, error) { return free, nil }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	refused := 0
	for _, more := range []int64{-1, 1 << 20, -1, 2 << 20, -1, DefaultReserve, -1, 1 << 20} {
		free = DefaultReserve + more
		s.space.look()
		if _, err := s.Create(t.Context(), []store.NewJob{newJob("q")}); err != nil {
			refused++
		}
	}
	full, again := strings.Count(log.String(), "are refused"), strings.Count(log.String(), "room on the disk again")
	if refused != 4 || full != 2 || again != 1 || !strings.Contains(log.String(), "less than 64 MiB would stay free") {
		t.Errorf("%d refused, %d lines of it, %d of room:\n%s", refused, full, again, log.String())
	}
}
