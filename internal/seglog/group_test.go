package seglog_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/seglog"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

// What gathers while an fsync runs shares the next one, and a caller past the
// bound waits for it.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		gate := make(chan struct{})
		var sizes []int
		fsys := &slowSync{FS: disk, gate: gate}
		disk.Inject(func(op faultfs.Op) faultfs.Fault {
			if op.Kind == faultfs.Write {
				sizes = append(sizes, op.Bytes/2)
			}
			return faultfs.Fault{}
		})
		l, _ := open(t, seglog.Options{Dir: "d", FS: fsys})
		const callers = 1 + 1024 + 500
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if _, err := l.Append(t.Context(), []byte("x")); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := l.Append(ctx, []byte("y")); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that waited and gave up: %v", err)
		}
		for range 3 {
			gate <- struct{}{}
			synctest.Wait()
		}
		wg.Wait()
		if d := cmp.Diff([]int{1, 1024, 500}, sizes); d != "" {
			t.Errorf("groups (-want +got):\n%s", d)
		}
		if got := len(all(t, l)); got != callers {
			t.Errorf("%d records, want %d", got, callers)
		}
	})
}

// slowSync makes each sync wait for the gate.
type slowSync struct {
	seglog.FS
	gate chan struct{}
}

func (s *slowSync) OpenFile(name string, flag int, mode os.FileMode) (seglog.File, error) {
	f, err := s.FS.OpenFile(name, flag, mode)
	return &slowFile{f, s.gate}, err
}

type slowFile struct {
	seglog.File
	gate chan struct{}
}

func (f *slowFile) Sync() error {
	<-f.gate
	return f.File.Sync()
}

// A caller whose context ends gets an answer at once; its record is taken back
// while no group has it.
func TestContextEndsWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l, _ := open(t, seglog.Options{Dir: "d", FS: &slowSync{FS: faultfs.New(), gate: gate}})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for _, r := range []string{"being written", "queued"} {
			go func() {
				_, err := l.Append(ctx, []byte(r))
				errs <- err
			}()
			synctest.Wait()
		}
		cancel()
		for range 2 {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		close(gate)
		add(t, l, "after")
		want(t, l, "being written", "after")
	})
}
