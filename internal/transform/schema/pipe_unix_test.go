//go:build unix

package schema

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNamedPipesAreRefused loads a schema, and one that is referred to, from a
// pipe that nobody writes to.
func TestNamedPipesAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.json"), []byte(`{"$ref": "pipe.json"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe.json", "main.json"} {
		done := make(chan error, 1)
		go func() { _, err := Load(filepath.Join(dir, name)); done <- err }()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "no regular file") {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second): // only ever waited for by a test that fails
			t.Fatalf("%s: it waits for ever", name)
		}
	}
}
