package file

// Catches: lines of a batch that are half in the file, an outcome that is another
// message's, and a check that says well of a file that no line could go to.

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

func openOn(t *testing.T, disk *faultfs.Disk) *destination {
	t.Helper()
	r := &registry{fs: disk, logs: map[string]*shared{}}
	d, err := r.open(settings("/dir/out"), connector.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func batch(bodies ...string) []*message.Message {
	var ms []*message.Message
	for _, b := range bodies {
		ms = append(ms, &message.Message{ID: b, Body: []byte(b)})
	}
	return ms
}

func TestBatchIsOneWriteAndAllOrNone(t *testing.T) {
	disk := faultfs.New()
	d := openOn(t, disk)
	writes, syncs := 0, 0
	broken := false
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		switch op.Kind {
		case faultfs.Write:
			writes++
			if broken {
				return faultfs.Fault{Err: syscall.ENOSPC, Written: op.Bytes - 1}
			}
		case faultfs.Sync:
			syncs++
		}
		return faultfs.Fault{}
	})
	if a, err := d.SendBatch(t.Context(), batch("a", "b", "c")); err != nil || a.Each != nil {
		t.Errorf("%v, %v", a.Each, err)
	}
	if writes != 1 || syncs != 1 {
		t.Errorf("%d writes and %d syncs", writes, syncs)
	}
	broken = true
	_, err := d.SendBatch(t.Context(), batch("d", "e"))
	if f := failure.From(err); f == nil || !f.Tags.Has("file:ENOSPC") {
		t.Errorf("got %v", err)
	}
	if got := string(disk.Get("/dir/out")); got != "a\nb\nc\n" {
		t.Errorf("the file is %q", got)
	}
}

// Longer than one write takes: each part is all or none, and the outcomes tell
// which are in.
func TestBatchInParts(t *testing.T) {
	disk := faultfs.New()
	d := openOn(t, disk)
	d.most = 6 // two lines of two bytes
	n := 0
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.Write {
			if n++; n == 2 {
				return faultfs.Fault{Err: syscall.EIO}
			}
		}
		return faultfs.Fault{}
	})
	a, err := d.SendBatch(t.Context(), batch("aa", "bb", "cc", "dd", "ee"))
	if err != nil {
		t.Fatal(err)
	}
	var in []bool
	for _, err := range a.Each {
		in = append(in, err == nil)
	}
	if diff := cmp.Diff([]bool{true, true, false, false, true}, in); diff != "" {
		t.Errorf("which are in (-want +got)\n%s", diff)
	}
	if got := string(disk.Get("/dir/out")); got != "aa\nbb\nee\n" {
		t.Errorf("the file is %q", got)
	}
}

func TestCheckOpensTheFile(t *testing.T) {
	disk := faultfs.New()
	d := openOn(t, disk)
	if err := d.Check(t.Context()); err != nil {
		t.Errorf("a file that the next line would make: %v", err)
	}
	for _, kind := range []faultfs.Kind{faultfs.Open, faultfs.Create} {
		disk := faultfs.New()
		d := openOn(t, disk)
		if kind == faultfs.Open {
			if err := d.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		disk.Inject(func(op faultfs.Op) faultfs.Fault {
			if op.Kind == kind {
				return faultfs.Fault{Err: syscall.EROFS}
			}
			return faultfs.Fault{}
		})
		if f := failure.From(d.Check(t.Context())); f == nil || !f.Tags.Has("file:EROFS") {
			t.Errorf("%s: %v", kind, f)
		}
		disk.Inject(nil)
		if err := d.Check(t.Context()); err != nil {
			t.Errorf("%s, well again: %v", kind, err)
		}
	}
}

// A disk that hangs holds up one check, and no more goroutines with each.
func TestCheckWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, hang := faultfs.New(), make(chan struct{})
		d := openOn(t, disk)
		disk.Inject(func(op faultfs.Op) faultfs.Fault {
			if op.Kind == faultfs.Create {
				<-hang
			}
			return faultfs.Fault{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Check(ctx) }()
		synctest.Wait()
		cancel()
		if f := failure.From(<-done); f == nil || !f.Tags.Has(failure.Cancelled) {
			t.Errorf("got %v", f)
		}
		if err := d.Check(t.Context()); !errors.Is(err, errStillChecking) {
			t.Errorf("the second check: %v", err)
		}
		close(hang)
		synctest.Wait()
		if err := d.Check(t.Context()); err != nil {
			t.Errorf("the disk is back: %v", err)
		}
	})
}
