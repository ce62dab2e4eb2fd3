// These tests would catch two owners of one file under two names, a new store
// begun over what is left of another, and a store that goes on answering for a
// file that was removed or replaced, or does not go on once it is back.
package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/store"
)

func TestOneOwnerOverLinks(t *testing.T) {
	s := testStore(t, Options{})
	folder := t.TempDir()
	file, dir := filepath.Join(folder, "link.db"), filepath.Join(folder, "dir")
	if err := errors.Join(os.Symlink(s.path, file), os.Symlink(filepath.Dir(s.path), dir)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(dir, "pawl.db")} {
		_, err := Open(t.Context(), Options{Path: path})
		if locked, ok := errors.AsType[*LockedError](err); !ok || locked.Path != s.path {
			t.Errorf("a second open as %s: %v, want a LockedError of %s", path, err, s.path)
		}
	}
	hard := filepath.Join(folder, "hard.db")
	if err := os.Link(s.path, hard); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: hard}); err == nil || !strings.Contains(err.Error(), "2 names (hard links)") {
		t.Errorf("a second open by a hard link: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: s.path}); err == nil || !strings.Contains(err.Error(), "2 names (hard links)") {
		t.Errorf("with a hard link, by its own name: %v", err)
	}
	if err := os.Remove(hard); err != nil {
		t.Fatal(err)
	}
	if got := testStore(t, Options{Path: file}); got.path != s.path {
		t.Errorf("by a symbolic link it is %s, want %s", got.path, s.path)
	}
}

func TestLinkToNothing(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "pawl.db")
	if err := os.Symlink(filepath.Join(folder, "away", "pawl.db"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: link}); !errors.Is(err, ErrParted) || !strings.Contains(err.Error(), "link to nothing") {
		t.Errorf("%v, want ErrParted", err)
	}
}

// A WAL without its database is the rest of a store that was moved in part:
// beginning a new one there would remove it.
func TestWALWithoutItsDatabase(t *testing.T) {
	for name, make := range map[string]func(path string){
		"missing": func(string) {},
		"empty":   func(path string) { writeFile(t, path, "") },
	} {
		path := filepath.Join(t.TempDir(), "pawl.db")
		make(path)
		writeFile(t, path+"-wal", "jobs")
		_, err := Open(t.Context(), Options{Path: path})
		if !errors.Is(err, ErrParted) || !strings.Contains(err.Error(), "put the database back") {
			t.Errorf("%s: %v, want ErrParted and what to do", name, err)
		}
		if text, err := os.ReadFile(path + "-wal"); err != nil || string(text) != "jobs" {
			t.Errorf("%s: the WAL holds %q, %v", name, text, err)
		}
	}
	path := filepath.Join(t.TempDir(), "pawl.db")
	writeFile(t, path+"-wal", "") // of a store that was closed, and removed
	testStore(t, Options{Path: path})
}

// What is removed or replaced while the store has it open is not written to, and
// nobody is told that it was; the same file back in its place heals it.
func TestFileThatIsNotInItsPlace(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		for name, lose := range map[string]func(path string) error{
			"removed":  func(string) error { return nil },
			"replaced": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		} {
			t.Run(name+suffix, func(t *testing.T) {
				var log lines
				s := testStore(t, Options{Log: log.logger()})
				put(t, s, newJob("q"), newJob("q"))
				lease := take(t, s, "q", 1)[0].Lease
				file, aside := s.path+suffix, s.path+suffix+".aside"
				if err := errors.Join(os.Rename(file, aside), lose(file)); err != nil {
					t.Fatal(err)
				}
				// The first may have been let in before the next look; it is told
				// all the same that nothing is certain.
				if _, err := s.Create(t.Context(), []store.NewJob{newJob("q")}); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("the first create: %v", err)
				}
				for range 3 {
					if _, err := s.Create(t.Context(), []store.NewJob{newJob("q")}); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
						t.Errorf("create: %v, want ErrUnavailable", err)
					}
				}
				if _, err := s.Report(t.Context(), []store.Report{{Type: store.Complete, Lease: lease}}); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("report: %v, want ErrUnavailable", err)
				}
				if _, err := s.Claim(t.Context(), want("q", 1, 0)); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("claim: %v, want ErrUnavailable", err)
				}
				err := s.Ready(t.Context())
				if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), file+" was removed or replaced") {
					t.Errorf("ready: %v", err)
				}
				if err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "copy.db")); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("backup: %v, want ErrUnavailable", err)
				}
				if n := log.count("nothing is written to the store"); n != 1 {
					t.Errorf("logged %d times", n)
				}
				if err := os.Rename(aside, file); err != nil {
					t.Fatal(err)
				}
				put(t, s, newJob("q"))
				if err := s.Ready(t.Context()); err != nil {
					t.Errorf("ready again: %v", err)
				}
				a, err := s.Report(t.Context(), []store.Report{{Type: store.Complete, Lease: lease}})
				if err != nil || a[0].Status != store.ReportTaken {
					t.Errorf("the report again: %v, %v", a, err)
				}
				checkMemory(t, s)
			})
		}
	}
}

// A worker that waits for a job that comes due does not make the writer spin
// while the file is away.
func TestWaitingForAFileToComeBack(t *testing.T) {
	s := testStore(t, Options{})
	parked := make(chan error, 1)
	go func() { _, err := s.Claim(t.Context(), want("q", 1, forever)); parked <- err }()
	until(t, func() bool { return s.Vitals().Parked == 1 })
	aside := s.path + ".aside"
	if err := s.writer.submit(t.Context(), 0, func(x *tx) error {
		if err := os.Rename(s.path, aside); err != nil {
			return err
		}
		if err := s.place.look(); err == nil {
			t.Error("the file is not missed")
		}
		x.w.state.wakeAll = true // as after a rollback
		if wait := x.w.untilDue(); wait < reopenPause {
			t.Errorf("the writer looks again after %s", wait)
		}
		return os.Rename(aside, s.path)
	}); err != nil {
		t.Fatal(err)
	}
	put(t, s, newJob("q"))
	if err := <-parked; err != nil {
		t.Errorf("the parked claim: %v", err)
	}
}

// A store that is closed while its file is away leaves the WAL as it is: what is
// in it alone is there again with the file, and no new store is begun beside it.
func TestCloseWhileTheFileIsAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := testStore(t, Options{Path: path})
	made := put(t, s, newJob("q"))
	if err := os.Rename(path, path+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := Open(t.Context(), Options{Path: path}); !errors.Is(err, ErrParted) {
		t.Errorf("a start without the file: %v, want ErrParted", err)
	}
	if err := os.Rename(path+".aside", path); err != nil {
		t.Fatal(err)
	}
	if _, err := testStore(t, Options{Path: path}).Job(t.Context(), made[0]); err != nil {
		t.Errorf("the job after the file is back: %v", err)
	}
}
