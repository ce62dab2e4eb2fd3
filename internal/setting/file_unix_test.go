//go:build unix

package setting

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFilesNeverWait reads a named pipe that nobody writes to.
func TestFilesNeverWait(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, _ := certificate(t, t.TempDir(), "a")
	for name, read := range map[string]func() error{
		"file":        func() error { _, err := ReadFile(pipe, 1<<10); return err },
		"certificate": func() error { _, err := LoadPair(pipe, pipe); return err },
		"key":         func() error { _, err := LoadPair(cert, pipe); return err },
		"authorities": func() error { _, err := LoadCA(pipe); return err },
	} {
		done := make(chan error, 1)
		go func() { done <- read() }()
		select {
		case err := <-done:
			if err == nil || !strings.HasSuffix(err.Error(), pipe+": it is no regular file") {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second): // only ever waited for by a test that fails
			t.Fatalf("%s: it waits for ever", name)
		}
	}
}
