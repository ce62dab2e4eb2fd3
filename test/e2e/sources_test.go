package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBinaryIsOfTheseSources looks at every source that the binary is built of.
// The go command repeats a cached result only while the files that a test looked
// at are the same: without this it would repeat one of another binary.
func TestBinaryIsOfTheseSources(t *testing.T) {
	built, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, folder := range []string{"../../cmd", "../../internal"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
				return err
			}
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if n++; info.ModTime().After(built.ModTime()) {
				t.Errorf("%s is newer than the binary", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 300 {
		t.Errorf("only %d sources", n)
	}
}
