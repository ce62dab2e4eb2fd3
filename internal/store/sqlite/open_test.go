// These tests would catch a store that opens what it must not (another's file, a
// damaged one, a newer one, one on a network file system), that two processes
// own, whose file others can read, or whose errors do not say what to do.
package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/store"
)

// testStore opens a store in a folder of its own, or at o.Path.
func testStore(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "pawl.db")
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// setting reads one value by a connection of the store's.
func setting(t *testing.T, c *conn, text string) any {
	t.Helper()
	var v any
	if _, err := c.one(text, func(r *row) error { v = r.values[0]; return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSettings(t *testing.T) {
	s := testStore(t, Options{})
	for _, r := range []role{writing, reading, checkpointing} {
		c, err := openConn(s.path, "", r)
		if err != nil {
			t.Fatal(err)
		}
		queryOnly := int64(0)
		if r == reading {
			queryOnly = 1
		}
		for text, want := range map[string]any{
			"PRAGMA journal_mode": "wal", "PRAGMA synchronous": int64(2), "PRAGMA busy_timeout": int64(busyMillis),
			"PRAGMA foreign_keys": int64(0), "PRAGMA mmap_size": int64(0), "PRAGMA wal_autocheckpoint": int64(0),
			"PRAGMA temp_store": int64(2), "PRAGMA trusted_schema": int64(0), "PRAGMA page_size": int64(pageSize),
			"PRAGMA cache_size": int64(-cacheKiB[r]), "PRAGMA application_id": int64(applicationID), "PRAGMA query_only": queryOnly,
		} {
			if got := setting(t, c, text); got != want {
				t.Errorf("%s, %s: %v, want %v", r, text, got, want)
			}
		}
		// Defensive: the schema can't be written by hand.
		if _, err := c.exec("PRAGMA writable_schema=on"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.exec("UPDATE sqlite_schema SET sql = sql"); err == nil {
			t.Errorf("%s: the schema's table can be written", r)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestModes(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	s := testStore(t, Options{Path: filepath.Join(folder, "pawl.db")})
	if err := s.AddKey(t.Context(), store.Key{ID: "key_1", Name: "n"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{".": 0o700, "pawl.db": 0o600, "pawl.db-wal": 0o600, "pawl.db-shm": 0o600, "pawl.db.lock": 0o600} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
	}
}

func TestSecondOwner(t *testing.T) {
	s := testStore(t, Options{})
	_, err := Open(t.Context(), Options{Path: s.path})
	locked, ok := errors.AsType[*LockedError](err)
	if !ok || locked.PID != os.Getpid() {
		t.Fatalf("a second open: %v, want a LockedError of pid %d", err, os.Getpid())
	}
	want := "store " + s.path + " is locked by pawl (pid " + strconv.Itoa(os.Getpid()) + ")"
	if err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	testStore(t, Options{Path: s.path})
}

// otherProcess makes this test binary a second process that opens a store.
const otherProcess = "PAWL_TEST_OPEN_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(otherProcess); path != "" {
		s, err := Open(context.Background(), Options{Path: path})
		if err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(3)
		}
		s.Close()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestSecondProcess(t *testing.T) {
	s := testStore(t, Options{})
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), otherProcess+"="+s.path)
	out, err := c.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || !strings.Contains(string(out), "(pid "+strconv.Itoa(os.Getpid())+")") {
		t.Fatalf("another process: %v, %q; want it refused with pid %d", err, out, os.Getpid())
	}
}

func TestWhatIsNoStore(t *testing.T) {
	other := func(t *testing.T, path string) { // another program's database
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := openConn(path, "", writing)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.exec("CREATE TABLE theirs (n INTEGER)"); err != nil {
			t.Fatal(err)
		}
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		make func(t *testing.T, path string)
		is   error
		says []string
	}{
		{"a text", func(t *testing.T, path string) { writeFile(t, path, strings.Repeat("not a database\n", 100)) }, ErrNotStore, []string{"no SQLite database", "move it away"}},
		{"a short text", func(t *testing.T, path string) { writeFile(t, path, "x") }, ErrNotStore, []string{"no SQLite database"}},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, ErrNotStore, []string{"a folder of that name"}},
		{"another program's", other, ErrNotStore, []string{"of something else", "name another file"}},
		{"cut after the magic", func(t *testing.T, path string) { writeFile(t, path, "SQLite format 3\x00") }, ErrDamaged, []string{"backup"}},
		{"cut in the middle", func(t *testing.T, path string) { makeStore(t, path); truncateFile(t, path, 3*pageSize) }, ErrDamaged, []string{"backup"}},
		{"its schema overwritten", func(t *testing.T, path string) { makeStore(t, path); scribble(t, path, 100, pageSize-100) }, ErrDamaged, []string{"backup"}},
		{"its header overwritten", func(t *testing.T, path string) { makeStore(t, path); scribble(t, path, 16, 60) }, nil, []string{path100}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pawl.db")
			test.make(t, path)
			before, _ := os.ReadFile(path)
			s, err := Open(t.Context(), Options{Path: path})
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v, want one that is %v", err, test.is)
			}
			for _, says := range append(test.says, path) {
				if !strings.Contains(err.Error(), strings.ReplaceAll(says, path100, path)) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
			// The lock was given back.
			if _, err := Open(t.Context(), Options{Path: path}); err != nil {
				if _, locked := errors.AsType[*LockedError](err); locked {
					t.Error("the lock stays taken")
				}
			}
		})
	}
}

const path100 = "$path"

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeStore makes a store at path and closes it.
func makeStore(t *testing.T, path string) {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func truncateFile(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func scribble(t *testing.T, path string, at, n int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		data[at+i] = byte(0x55 + i)
	}
	writeFile(t, path, string(data))
}

// A start that was interrupted right after it made the file leaves an empty one.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	writeFile(t, path, "")
	testStore(t, Options{Path: path})
}

func TestFolderBelowAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	writeFile(t, path, "")
	if _, err := Open(t.Context(), Options{Path: filepath.Join(path, "pawl.db")}); err == nil || !strings.Contains(err.Error(), "store folder") {
		t.Errorf("%v, want an error of the folder", err)
	}
}

// Paths keep their characters on the way through SQLite's URIs.
func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b", "100%", "what?mode=memory", "#1", "ü", "%41", "a&b=c"} {
		path := filepath.Join(t.TempDir(), name, name+".db")
		makeStore(t, path)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s: the database is not there: %v", path, err)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	s := testStore(t, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if _, err := s.Job(t.Context(), s.ids.Make(at(1), 1)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a read after Close: %v, want ErrClosed", err)
	}
	if err := s.AddKey(t.Context(), store.Key{ID: "key_1", Name: "n"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a write after Close: %v, want ErrClosed", err)
	}
	if fileSize(s.path+"-wal") != 0 {
		t.Error("the WAL was left")
	}
}

func TestExplainPermission(t *testing.T) {
	for _, err := range []error{&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}} {
		if text := explainPermission("/var/lib/pawl", err).Error(); !strings.Contains(text, "must own the folder /var/lib/pawl") {
			t.Errorf("%q does not say what to do", text)
		}
	}
}
