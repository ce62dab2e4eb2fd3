//go:build unix

package file

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// TestNamedPipeNeverWaits appends to a pipe that nobody reads, which takes
// 64 KiB and then no more.
func TestNamedPipeNeverWaits(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		d := open(t, settings(pipe))
		_, err := d.Send(context.Background(), &message.Message{Body: make([]byte, 1<<20)})
		_ = d.Close()
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a line for a pipe was acknowledged")
		}
	case <-time.After(10 * time.Second): // only ever waited for by a test that fails
		t.Fatal("it waits for ever")
	}
}
