package seglog_test

// What this test would catch: an Append that waits for room which there is, and for
// ever.

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/pawlhq/pawl/internal/seglog"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

// A record waits for room behind one whose caller gives up before it is written.
func TestRoomThatSomebodyGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l, _ := open(t, seglog.Options{Dir: "d", FS: &slowSync{FS: faultfs.New(), gate: gate}})
		appends := func(ctx context.Context, record []byte) <-chan error {
			done := make(chan error, 1)
			go func() { _, err := l.Append(ctx, record); done <- err }()
			synctest.Wait()
			return done
		}
		first := appends(t.Context(), []byte("first")) // is being written
		ctx, cancel := context.WithCancel(t.Context())
		queued := appends(ctx, bytes.Repeat([]byte("x"), 7<<20))
		waits := appends(t.Context(), bytes.Repeat([]byte("y"), 2<<20)) // finds no room
		cancel()
		if err := <-queued; err == nil {
			t.Error("who gave up is told that it is written")
		}
		for _, done := range []<-chan error{first, waits} {
			gate <- struct{}{}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
