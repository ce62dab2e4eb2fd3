// These tests would catch a record that was acknowledged and is gone after a
// fault or a crash, one that was refused and is seen, one that is there twice or
// out of order; a repair that loses whole records; a damaged file that stops a
// start or hides what stands behind the damage; a log that trusts an fsync after
// one failed; a rotation from outside that swallows records; and a bound on
// records or groups that does not hold.
package seglog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/seglog"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

// open opens a log on the disk and collects its reports.
func open(t testing.TB, o seglog.Options) (*seglog.Log, *[]seglog.Report) {
	t.Helper()
	var mu sync.Mutex
	reports := &[]seglog.Report{}
	o.Report = func(r seglog.Report) {
		mu.Lock()
		defer mu.Unlock()
		*reports = append(*reports, r)
	}
	l, err := seglog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, reports
}

func add(t testing.TB, l *seglog.Log, records ...string) {
	t.Helper()
	for _, r := range records {
		if _, err := l.Append(context.Background(), []byte(r)); err != nil {
			t.Fatalf("append %q: %v", r, err)
		}
	}
}

func all(t testing.TB, l *seglog.Log) []string {
	t.Helper()
	var got []string
	err := l.Scan(context.Background(), seglog.Position{}, func(_ seglog.Position, line []byte) error {
		got = append(got, string(line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func want(t testing.TB, l *seglog.Log, records ...string) {
	t.Helper()
	if d := cmp.Diff(records, all(t, l)); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
}

func troubles(reports *[]seglog.Report) (ts []seglog.Trouble) {
	for _, r := range *reports {
		ts = append(ts, r.Trouble)
	}
	return ts
}

func TestFolderOnTheRealDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "dead")
	o := seglog.Options{Dir: dir, MaxSegment: 20}
	l, _ := open(t, o)
	if _, err := os.Stat(filepath.Join(dir, "000001.ndjson")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file before the first record")
	}
	var records []string
	for i := range 12 {
		records = append(records, fmt.Sprintf(`{"n":%d}`, i))
	}
	add(t, l, records...)
	want(t, l, records...)
	if n := len(l.Segments()); n != 4 {
		t.Errorf("%d segments of 3 records, want 4", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), []byte("x")); !errors.Is(err, seglog.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	l, reports := open(t, o)
	if n := len(l.Segments()); n != 4 {
		t.Errorf("%d segments found, want 4", n)
	}
	add(t, l, `{"n":12}`)
	want(t, l, append(records, `{"n":12}`)...)
	if len(*reports) != 0 {
		t.Errorf("reports of a clean log: %v", *reports)
	}
	for name, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "000001.ndjson"): 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
}

func TestReadAndScanFrom(t *testing.T) {
	l, _ := open(t, seglog.Options{Dir: "d", FS: faultfs.New(), MaxSegment: 10})
	var at []seglog.Position
	for i := range 6 {
		p, err := l.Append(t.Context(), fmt.Appendf(nil, "record %d", i))
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, p)
	}
	for i, p := range at {
		line, err := l.Read(p)
		if err != nil || string(line) != fmt.Sprintf("record %d", i) {
			t.Errorf("read %v: %q, %v", p, line, err)
		}
		n := 0
		err = l.Scan(t.Context(), p, func(q seglog.Position, _ []byte) error {
			if q != at[i+n] {
				t.Errorf("scan from %v: record %d at %v, want %v", p, n, q, at[i+n])
			}
			n++
			return nil
		})
		if err != nil || n != len(at)-i {
			t.Errorf("scan from %v: %d records, %v", p, n, err)
		}
	}
	for _, p := range []seglog.Position{{}, {Segment: 1, Offset: -1}, {Segment: 1, Offset: 1 << 40}, {Segment: 99}} {
		if _, err := l.Read(p); !errors.Is(err, seglog.ErrNotFound) {
			t.Errorf("read %v: %v", p, err)
		}
	}
}

func TestRecordsThatAreNoLines(t *testing.T) {
	l, _ := open(t, seglog.Options{Dir: "d", FS: faultfs.New()})
	for _, r := range [][]byte{nil, []byte("a\nb"), []byte("a\x00b"), make([]byte, seglog.MaxRecord+1)} {
		if _, err := l.Append(t.Context(), r); !errors.Is(err, seglog.ErrRecord) {
			t.Errorf("a record of %d bytes: %v", len(r), err)
		}
	}
	add(t, l, strings.Repeat("x", seglog.MaxRecord))
	n := 0
	_ = l.Scan(t.Context(), seglog.Position{}, func(_ seglog.Position, line []byte) error {
		n = len(line)
		return nil
	})
	if n != seglog.MaxRecord {
		t.Errorf("the longest record came back with %d bytes", n)
	}
}

func TestFaults(t *testing.T) {
	boom := syscall.EIO
	tests := []struct {
		name   string
		fails  map[faultfs.Kind]int // how many operations of the kind fail
		short  int
		err    bool
		report []seglog.Trouble
		files  []string
	}{
		{name: "write fails", fails: map[faultfs.Kind]int{faultfs.Write: 1}, err: true, files: []string{"d/000001.ndjson"}},
		{name: "write is short", fails: map[faultfs.Kind]int{faultfs.Write: 1}, short: 3, err: true, files: []string{"d/000001.ndjson"}},
		{name: "short write that can't be cut", fails: map[faultfs.Kind]int{faultfs.Write: 1, faultfs.Truncate: 2}, short: 3, err: true,
			report: []seglog.Trouble{seglog.Condemned}, files: []string{"d/000001.ndjson", "d/000002.ndjson"}},
		{name: "sync fails", fails: map[faultfs.Kind]int{faultfs.Sync: 1},
			report: []seglog.Trouble{seglog.Condemned}, files: []string{"d/000001.ndjson", "d/000002.ndjson"}},
		{name: "sync fails in the new segment too", fails: map[faultfs.Kind]int{faultfs.Sync: 3}, err: true,
			report: []seglog.Trouble{seglog.Condemned, seglog.Condemned}, files: []string{"d/000001.ndjson", "d/000003.ndjson"}},
		{name: "sync fails, then the new file", fails: map[faultfs.Kind]int{faultfs.Sync: 1, faultfs.Create: 1}, err: true,
			report: []seglog.Trouble{seglog.Condemned}, files: []string{"d/000001.ndjson", "d/000002.ndjson"}},
		{name: "sync fails, then the new name", fails: map[faultfs.Kind]int{faultfs.Sync: 1, faultfs.SyncDir: 1}, err: true,
			report: []seglog.Trouble{seglog.Condemned}, files: []string{"d/000001.ndjson", "d/000003.ndjson"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			disk := faultfs.New()
			l, reports := open(t, seglog.Options{Dir: "d", FS: disk})
			add(t, l, "before")
			left := map[faultfs.Kind]int{}
			for k, n := range tt.fails {
				left[k] = n
			}
			disk.Inject(func(op faultfs.Op) faultfs.Fault {
				if left[op.Kind] > 0 {
					left[op.Kind]--
					return faultfs.Fault{Err: boom, Written: tt.short}
				}
				return faultfs.Fault{}
			})
			_, err := l.Append(t.Context(), []byte("during"))
			if (err != nil) != tt.err || tt.err && !errors.Is(err, boom) {
				t.Errorf("append: %v", err)
			}
			disk.Inject(nil)
			records := []string{"before", "after"}
			if !tt.err {
				records = []string{"before", "during", "after"}
			}
			add(t, l, "after")
			want(t, l, records...)
			if d := cmp.Diff(tt.report, troubles(reports)); d != "" {
				t.Errorf("reports (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.files, disk.Files()); d != "" {
				t.Errorf("files (-want +got):\n%s", d)
			}
		})
	}
}

func TestFullDisk(t *testing.T) {
	for _, o := range []seglog.Options{{Dir: "d"}, {Path: "d/out"}} {
		disk := faultfs.New()
		o.FS = disk
		l, _ := open(t, o)
		add(t, l, "before")
		disk.SetCapacity(disk.Used() + 5)
		for range 3 {
			if _, err := l.Append(t.Context(), []byte("does not fit")); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("append: %v", err)
			}
			want(t, l, "before")
		}
		disk.SetCapacity(0)
		add(t, l, "after")
		want(t, l, "before", "after")
	}
}

func TestScanReadError(t *testing.T) {
	disk := faultfs.New()
	l, reports := open(t, seglog.Options{Dir: "d", FS: disk, MaxSegment: 1})
	add(t, l, "one", "two", "three")
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.Read && op.Name == "d/000002.ndjson" {
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	})
	var got []string
	err := l.Scan(t.Context(), seglog.Position{}, func(_ seglog.Position, line []byte) error {
		got = append(got, string(line))
		return nil
	})
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("scan: %v", err)
	}
	if d := cmp.Diff([]string{"one", "three"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]seglog.Trouble{seglog.Unreadable}, troubles(reports)); d != "" {
		t.Error(d)
	}
	// An unreadable segment does not stop a start either.
	open(t, seglog.Options{Dir: "d", FS: disk})
}

func TestScanStops(t *testing.T) {
	l, _ := open(t, seglog.Options{Dir: "d", FS: faultfs.New()})
	add(t, l, "one", "two")
	stop := errors.New("enough")
	if err := l.Scan(t.Context(), seglog.Position{}, func(seglog.Position, []byte) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := l.Scan(ctx, seglog.Position{}, func(seglog.Position, []byte) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%d records, %v", n, err)
	}
}

func TestRemove(t *testing.T) {
	disk := faultfs.New()
	l, _ := open(t, seglog.Options{Dir: "d", FS: disk, MaxSegment: 2})
	add(t, l, "1", "2", "3")
	segments := l.Segments()
	if err := l.Remove(segments[0]); err != nil {
		t.Fatal(err)
	}
	want(t, l, "2", "3")
	if err := l.Remove(segments[0]); !errors.Is(err, seglog.ErrChanged) {
		t.Errorf("removed twice: %v", err)
	}
	if err := l.Remove(segments[2]); err != nil {
		t.Fatalf("the one being written: %v", err)
	}
	add(t, l, "4")
	want(t, l, "2", "4")
	last := l.Segments()[1]
	if last.Number != 4 {
		t.Errorf("number %d is used again", last.Number)
	}
	l2, _ := open(t, seglog.Options{Dir: "e", FS: disk})
	add(t, l2, "1")
	seen := l2.Segments()[0]
	add(t, l2, "2")
	if err := l2.Remove(seen); !errors.Is(err, seglog.ErrChanged) {
		t.Errorf("one that has grown: %v", err)
	}
	want(t, l2, "1", "2")
}

func TestOptions(t *testing.T) {
	for _, o := range []seglog.Options{{}, {Dir: "a", Path: "b"}} {
		if _, err := seglog.Open(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// A removal whose folder could not be synced comes back with a crash, in the
// next life of the process too, until SyncRemovals says that it does not.
func TestSyncRemovals(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			disk := faultfs.New()
			o := seglog.Options{Dir: "d", FS: disk, MaxSegment: 2}
			l, _ := open(t, o)
			add(t, l, "1", "2")
			syncs := 0
			disk.Inject(func(op faultfs.Op) faultfs.Fault {
				if op.Kind != faultfs.SyncDir {
					return faultfs.Fault{}
				}
				syncs++
				return faultfs.Fault{Err: syscall.EIO}
			})
			if err := l.Remove(l.Segments()[0]); !errors.Is(err, syscall.EIO) {
				t.Errorf("remove: %v", err)
			}
			if restart {
				l, _ = open(t, o)
			}
			want(t, l, "2")
			if err := l.SyncRemovals(); !errors.Is(err, syscall.EIO) {
				t.Errorf("still failing: %v", err)
			}
			syncs = 0
			disk.Inject(func(op faultfs.Op) faultfs.Fault {
				if op.Kind == faultfs.SyncDir {
					syncs++
				}
				return faultfs.Fault{}
			})
			for range 2 {
				if err := l.SyncRemovals(); err != nil {
					t.Error(err)
				}
			}
			if syncs != 1 {
				t.Errorf("the folder was synced %d times", syncs)
			}
			disk.Crash(rand.New(rand.NewPCG(1, 1)))
			l, _ = open(t, o)
			want(t, l, "2")
		})
	}
}
