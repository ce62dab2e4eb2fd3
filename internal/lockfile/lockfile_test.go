// These tests catch a thing with two owners, or with none after the first gave
// it up; and a second owner who is told of the wrong one.
package lockfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/internal/lockfile"
)

func TestOneOwner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.lock")
	first, err := lockfile.Take(file, "folder", "x")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	_, err = lockfile.Take(file, "folder", "x")
	want := lockfile.LockedError{Kind: "folder", Path: "x", PID: os.Getpid()}
	if locked, ok := errors.AsType[*lockfile.LockedError](err); !ok || *locked != want {
		t.Fatalf("a second owner: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	next, err := lockfile.Take(file, "folder", "x")
	if err != nil {
		t.Fatalf("after the first gave it up: %v", err)
	}
	if err := next.Release(); err != nil {
		t.Error(err)
	}
}

// The pid is for a message: without it the lock holds just so.
func TestAFileWithoutAPID(t *testing.T) {
	for _, text := range []string{"", "no number\n"} {
		file := filepath.Join(t.TempDir(), "x.lock")
		lock, err := lockfile.Take(file, "folder", "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = lockfile.Take(file, "folder", "x")
		if err == nil || err.Error() != "folder x is locked by another pawl" {
			t.Errorf("with %q in the file: %v", text, err)
		}
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestNoPlaceForTheFile(t *testing.T) {
	_, err := lockfile.Take(filepath.Join(t.TempDir(), "missing", "x.lock"), "folder", "x")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}
