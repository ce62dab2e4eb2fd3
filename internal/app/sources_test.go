package app

import (
	"context"
	"testing"
	"time"
)

// TestStopPassesAStuckSource catches a stop that hangs on a source which a
// reload replaced and whose last message never came to an end.
func TestStopPassesAStuckSource(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	var s sources
	s.retiring.Go(func() { <-stuck })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	waited := make(chan struct{})
	go func() {
		s.wait(ctx)
		close(waited)
	}()
	select {
	case <-waited:
	case <-time.After(20 * time.Second):
		t.Fatal("the stop still waits")
	}
}
