package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

func TestPurge(t *testing.T) {
	disk := faultfs.New()
	o := deadletter.Options{FS: disk, MaxSegment: 1}
	s := open(t, "dead", o)
	ls := []*message.DeadLetter{letter(1), letter(2), letter(30), letter(31)}
	store(t, s, ls...)
	_ = s.Close()
	o.MaxSegment = 1 << 20
	s = open(t, "dead", o)
	store(t, s, letter(3), letter(32)) // one segment of old and young
	for _, l := range []*message.DeadLetter{ls[0], ls[2]} {
		if err := s.MarkReplayed(t.Context(), l.Letter, deadletter.Delivered); err != nil {
			t.Fatal(err)
		}
	}
	n, err := s.Purge(t.Context(), day0.Add(24*time.Hour))
	if n != 2 || err != nil {
		t.Errorf("purged %d, %v; want m2 and m3", n, err)
	}
	for range 2 {
		want(t, s, deadletter.Filter{}, "m31", "m32")
		want(t, s, deadletter.Filter{State: deadletter.AllStates}, "m30", "m31", "m3", "m32")
		if st := s.Stats(); st.Open != 2 || !st.Oldest.Equal(ls[3].At) {
			t.Errorf("stats: %+v", st)
		}
		_ = s.Close()
		s = open(t, "dead", o)
	}
	if n, err := s.Purge(t.Context(), day0.Add(240*time.Hour)); n != 2 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if files := disk.Files(); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
	store(t, s, letter(300))
	want(t, s, deadletter.Filter{}, "m300")
}

// A purge that could not make its removals durable leaves the marks of what a
// crash brings back, and the next one does not say that all is well before it is.
func TestPurgeWhoseRemovalIsNotDurable(t *testing.T) {
	disk := faultfs.New()
	o := deadletter.Options{FS: disk, MaxSegment: 1}
	s := open(t, "dead", o)
	l := letter(1)
	store(t, s, l)
	if err := s.MarkReplayed(t.Context(), l.Letter, deadletter.Delivered); err != nil {
		t.Fatal(err)
	}
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.SyncDir && op.Name == "dead" {
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	})
	for range 2 {
		if _, err := s.Purge(t.Context(), day0.Add(24*time.Hour)); !errors.Is(err, syscall.EIO) {
			t.Errorf("purge: %v", err)
		}
		if d := cmp.Diff([]string{"dead/marks/000001.ndjson"}, disk.Files()); d != "" {
			t.Errorf("files (-want +got):\n%s", d)
		}
	}
	disk.Inject(nil)
	if n, err := s.Purge(t.Context(), day0.Add(24*time.Hour)); n != 0 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if files := disk.Files(); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
}

// removing is a disk that calls before each removal.
type removing struct {
	*faultfs.Disk
	before func()
}

func (r removing) Remove(name string) error {
	r.before()
	return r.Disk.Remove(name)
}

// A letter whose file is on its way out is not replayed any more; where the file
// stays, it is.
func TestReplayDuringPurge(t *testing.T) {
	disk := removing{Disk: faultfs.New()}
	var s *deadletter.Files
	replayed := 0
	replay := func() {
		_, err := s.Replay(t.Context(), deadletter.ReplayOptions{Deliver: func(context.Context, *message.DeadLetter) deadletter.ReplayOutcome {
			replayed++
			return deadletter.ReplayOutcome{Verdict: deadletter.Delivered}
		}})
		if err != nil {
			t.Errorf("replay: %v", err)
		}
	}
	disk.before = replay
	s = open(t, "dead", deadletter.Options{FS: &disk})
	store(t, s, letter(1))
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.Remove {
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	})
	if n, err := s.Purge(t.Context(), day0.Add(24*time.Hour)); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("purged %d, %v", n, err)
	}
	if replayed != 0 {
		t.Error("it was replayed while its file was being removed")
	}
	if replay(); replayed != 1 {
		t.Errorf("replayed %d times after the purge failed", replayed)
	}
}

// More letters than one mark names.
func TestPurgeMany(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "dead", deadletter.Options{FS: disk, MaxSegment: 1 << 30})
	errs := make(chan error, 2500)
	for range 2500 {
		go func() { errs <- s.Append(context.Background(), letter(1)) }()
	}
	for range 2500 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	store(t, s, letter(100))
	if n, err := s.Purge(t.Context(), day0.Add(24*time.Hour)); n != 2500 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	s = open(t, "dead", deadletter.Options{FS: disk})
	want(t, s, deadletter.Filter{}, "m100")
	if marks := strings.Count(string(disk.Get("dead/marks/000001.ndjson")), "\n"); marks != 3 {
		t.Errorf("%d marks, want 3", marks)
	}
}

func TestWritable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		free := uint64(1 << 40)
		s := open(t, "dead", deadletter.Options{FS: disk, Free: func(string) (uint64, error) { return free, nil }})
		store(t, s, letter(1))
		if err := s.Writable(); err != nil {
			t.Errorf("well: %v", err)
		}
		free = 1 << 20
		if err := s.Writable(); !errors.Is(err, deadletter.ErrLowSpace) {
			t.Errorf("low: %v", err)
		}
		free = 1 << 40
		disk.SetCapacity(disk.Used() + 10)
		if err := s.Append(t.Context(), letter(2)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full: %v", err)
		}
		for range 2 {
			if err := s.Writable(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("after a failed write: %v", err)
			}
		}
		disk.SetCapacity(0)
		if err := s.Writable(); err == nil {
			t.Error("the disk was tried again within a second")
		}
		time.Sleep(time.Second)
		if err := s.Writable(); err != nil {
			t.Errorf("with space again: %v", err)
		}
		if d := cmp.Diff([]string{"dead/000001.ndjson"}, disk.Files()); d != "" {
			t.Error(d)
		}
		store(t, s, letter(3))
		want(t, s, deadletter.Filter{}, "m1", "m3")
	})
}

// A disk that has room for a small letter and none for a large one is not well
// until a large one, or any letter, could be written.
func TestWritableIsOfTheSizeThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		s := open(t, "dead", deadletter.Options{FS: disk, Free: func(string) (uint64, error) { return 1 << 40, nil }})
		large := letter(1)
		large.Message.Body = bytes.Repeat([]byte("x"), 200<<10)
		full := func() {
			t.Helper()
			disk.SetCapacity(disk.Used() + 100<<10)
			if err := s.Append(t.Context(), large); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("append: %v", err)
			}
		}
		full()
		for range 3 {
			time.Sleep(time.Second)
			if err := s.Writable(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("with room for a half: %v", err)
			}
		}
		disk.SetCapacity(disk.Used() + 300<<10)
		time.Sleep(time.Second)
		if err := s.Writable(); err != nil {
			t.Errorf("with room for it: %v", err)
		}
		full()
		store(t, s, letter(2))
		if err := s.Writable(); err != nil {
			t.Errorf("after another letter: %v", err)
		}
	})
}

// Somebody removes the folder under a running store: what comes then is kept,
// and a purge brings the counts in line with what is there.
func TestFolderRemovedUnderneath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dead")
	s := open(t, dir, deadletter.Options{})
	store(t, s, letter(1))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	store(t, s, letter(2))
	if err := s.MarkReplayed(t.Context(), list(t, s, deadletter.Filter{IDs: []string{"m2"}})[0], deadletter.Delivered); !errors.Is(err, deadletter.ErrNotFound) {
		t.Errorf("a message's id is taken for a letter's: %v", err)
	}
	if n, err := s.Purge(t.Context(), day0); n != 0 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	want(t, s, deadletter.Filter{}, "m2")
	if st := s.Stats(); st.Open != 1 {
		t.Errorf("%+v", st)
	}
}

// FuzzOpen: whatever stands in the files, the store opens, lists, counts, and
// takes a letter that is found again.
func FuzzOpen(f *testing.F) {
	line, err := message.EncodeLetter(letter(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'), []byte(`{"mark":"purged","at":"2026-11-01T00:00:00Z","letters":["x"]}`+"\n"))
	f.Add([]byte("{}\n[]\nnull\n\n1"), []byte("{\"mark\":1}\n"))
	f.Add([]byte("{\"id\":\"a\",\"attributes\":{\"dlq\":null}}\n"), []byte{})
	f.Add([]byte("\x00\n{\"a\":\"\xff\"}"), []byte("{\"mark\":\"replayed\",\"letters\":null}"))
	f.Fuzz(func(t *testing.T, letters, marks []byte) {
		disk := faultfs.New()
		disk.Put("dead/000001.ndjson", letters)
		disk.Put("dead/marks/000001.ndjson", marks)
		s := open(t, "dead", deadletter.Options{FS: disk})
		mine := letter(1)
		mine.Message.ID, mine.Letter = "mine", "the letter of the fuzz test"
		before := s.Stats()
		store(t, s, mine)
		seen := false
		n := 0
		err := s.List(t.Context(), deadletter.Filter{State: deadletter.AllStates}, func(e deadletter.Entry) error {
			n++
			seen = seen || e.Letter == mine.Letter && e.State == deadletter.StateOpen
			_ = deadletter.Timeline(e.DeadLetter)
			return nil
		})
		if err != nil && !errors.Is(err, deadletter.ErrDamaged) {
			t.Fatal(err)
		}
		if !seen && !strings.Contains(string(letters), mine.Letter) {
			t.Errorf("the new letter is not among %d", n)
		}
		if s.Stats().Open < before.Open {
			t.Errorf("%+v, then %+v", before, s.Stats())
		}
		if _, err := s.Purge(t.Context(), day0.AddDate(100, 0, 0)); err != nil {
			t.Errorf("purge: %v", err)
		}
	})
}
