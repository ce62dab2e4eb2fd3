package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What changes between the load and the first look is not missed.
func TestChangedSinceItWasLoaded(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "pawl.yaml")
	if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded := time.Now()
	at := func(name string, when time.Time) {
		t.Helper()
		if err := os.Chtimes(name, when, when); err != nil {
			t.Fatal(err)
		}
	}
	beside := filepath.Join(folder, "more.yml")
	if err := os.WriteFile(beside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, after := loaded.Add(-time.Second), loaded.Add(time.Millisecond)
	for _, c := range []struct {
		file, beside time.Time
		want         bool
	}{{before, before, false}, {after, before, true}, {before, after, true}, {loaded.Add(-time.Millisecond), before, true}} {
		at(file, c.file)
		at(beside, c.beside)
		if got := changedSince([]string{file}, loaded); got != c.want {
			t.Errorf("the file of %v, the one beside it of %v: %v", c.file.Sub(loaded), c.beside.Sub(loaded), got)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if !changedSince([]string{file}, loaded) {
		t.Error("a file that is gone has not changed")
	}
}

// TestStamp: what belongs to a configuration changes the stamp, and nothing
// else does.
func TestStamp(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "pawl.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pawl.yaml", "a")
	last := stamp([]string{file})
	changed := func(what string, want bool) {
		t.Helper()
		now := stamp([]string{file})
		if (now != last) != want {
			t.Errorf("%s: changed is %v, want %v", what, now != last, want)
		}
		last = now
	}
	changed("nothing", false)
	write("pawl.yaml", "ab")
	changed("another size", true)
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	changed("another time", true)
	write("notes.txt", "x")
	changed("a file of another kind", false)
	write("more.yaml", "x")
	changed("a new YAML file", true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	changed("the file is gone", true)
}
