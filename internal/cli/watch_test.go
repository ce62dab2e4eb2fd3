package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

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
