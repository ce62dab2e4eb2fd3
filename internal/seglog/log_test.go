// These tests would catch a record that was acknowledged and is gone after a
// fault or a crash, one that was refused and is seen, one that is there twice or
// out of order; a repair that loses whole records; a damaged file that stops a
// start or hides what stands behind the damage; a log that trusts an fsync after
// one failed; a rotation from outside that swallows records; and a bound on
// records or groups that does not hold.
package seglog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

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
		cancel()
		if _, err := l.Append(ctx, []byte("y")); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that waited for a place and gave up: %v", err)
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

func TestRepair(t *testing.T) {
	long := `{"x":"` + strings.Repeat("y", 200<<10) + `"}`
	tests := []struct {
		name, file string
		want       []string
		report     []seglog.Trouble
		kept       string
	}{
		{name: "clean", file: "a\nb\n", want: []string{"a", "b"}},
		{name: "torn", file: "a\nb\nc", want: []string{"a", "b"}, report: []seglog.Trouble{seglog.TornTail}, kept: "c"},
		{name: "nothing but torn", file: `{"a`, report: []seglog.Trouble{seglog.TornTail}, kept: `{"a`},
		{name: "a number may be cut", file: "1\n12", want: []string{"1"}, report: []seglog.Trouble{seglog.TornTail}, kept: "12"},
		{name: "object without its newline", file: "{}\n" + long, want: []string{"{}", long}, report: []seglog.Trouble{seglog.Newline}},
		{name: "long torn tail", file: "a\n" + long[:150<<10], want: []string{"a"}, report: []seglog.Trouble{seglog.TornTail}, kept: long[:150<<10]},
		{name: "zeros", file: "a\n\x00\x00\x00", want: []string{"a"}, report: []seglog.Trouble{seglog.TornTail}, kept: "\x00\x00\x00"},
		{name: "zeros in the middle", file: "a\n\x00\x00\nb\n", want: []string{"a", "b"}, report: []seglog.Trouble{seglog.DamagedLine}},
		{name: "empty lines", file: "\n\na\n\n", want: []string{"a"}},
	}
	for _, tt := range tests {
		for _, o := range []seglog.Options{{Dir: "d"}, {Path: "d/000001.ndjson"}} {
			t.Run(tt.name, func(t *testing.T) {
				disk := faultfs.New()
				disk.Put("d/000001.ndjson", []byte(tt.file))
				o.FS = disk
				l, reports := open(t, o)
				want(t, l, tt.want...)
				if d := cmp.Diff(tt.report, troubles(reports)); d != "" {
					t.Errorf("reports (-want +got):\n%s", d)
				}
				if got := string(disk.Get("d/000001.ndjson.torn")); got != tt.kept {
					t.Errorf("kept %q, want %q", got, tt.kept)
				}
				add(t, l, "next")
				want(t, l, append(tt.want, "next")...)
			})
		}
	}
}

// A torn end that can't be kept is left alone, and the folder's log goes on in
// a new segment.
func TestRepairOnAFullDisk(t *testing.T) {
	disk := faultfs.New()
	disk.Put("d/000001.ndjson", []byte("a\ntorn"))
	disk.SetCapacity(disk.Used())
	l, reports := open(t, seglog.Options{Dir: "d", FS: disk})
	p, _ := open(t, seglog.Options{Path: "d/000001.ndjson", FS: disk})
	want(t, l, "a")
	if _, err := p.Append(t.Context(), []byte("b")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("append behind a torn end: %v", err)
	}
	disk.SetCapacity(0)
	add(t, l, "b")
	want(t, l, "a", "b")
	if d := cmp.Diff([]seglog.Trouble{seglog.TornLeft}, troubles(reports)); d != "" {
		t.Error(d)
	}
	if got := string(disk.Get("d/000001.ndjson")); got != "a\ntorn" {
		t.Errorf("the torn segment holds %q", got)
	}
}

// A second torn tail of one name does not overwrite the first.
func TestTornTailsAreKeptApart(t *testing.T) {
	disk := faultfs.New()
	for _, torn := range []string{"x", "y"} {
		disk.Put("d/000001.ndjson", []byte("a\n"+torn))
		open(t, seglog.Options{Dir: "d", FS: disk})
	}
	if a, b := disk.Get("d/000001.ndjson.torn"), disk.Get("d/000001.ndjson.torn-2"); string(a) != "x" || string(b) != "y" {
		t.Errorf("kept %q and %q", a, b)
	}
}

func TestRotationFromOutside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.ndjson")
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	l, reports := open(t, seglog.Options{Path: path, Mode: 0o640})
	add(t, l, "1")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add(t, l, "2")
	if a, b := read("out.ndjson.1"), read("out.ndjson"); a != "1\n" || b != "2\n" {
		t.Errorf("after rename: %q and %q", a, b)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	add(t, l, "3")
	if got := read("out.ndjson"); got != "3\n" {
		t.Errorf("after remove: %q", got)
	}
	if err := os.Truncate(path, 0); err != nil { // logrotate's copytruncate
		t.Fatal(err)
	}
	add(t, l, "4")
	if got := read("out.ndjson"); got != "4\n" {
		t.Errorf("after truncate: %q", got)
	}
	if err := os.WriteFile(path+".new", []byte("theirs\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	add(t, l, "5")
	if got := read("out.ndjson"); got != "theirs\n5\n" {
		t.Errorf("after replace: %q", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	add(t, l, "6")
	if got := read("out.ndjson"); got != "6\n" {
		t.Errorf("after the folder went: %q", got)
	}
	if len(*reports) != 5 {
		t.Errorf("reports: %v", *reports)
	}
}

func TestFolderRemovedUnderneath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dead")
	l, _ := open(t, seglog.Options{Dir: dir})
	add(t, l, "1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	add(t, l, "2")
	want(t, l, "2")
}

// In single-file mode a condemned file is moved aside, and its name is free for
// the new one.
func TestCondemnedFileIsMovedAside(t *testing.T) {
	disk := faultfs.New()
	l, _ := open(t, seglog.Options{Path: "d/out", FS: disk})
	add(t, l, "before")
	failed := false
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.Sync && !failed {
			failed = true
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	})
	add(t, l, "during")
	if a, b := disk.Get("d/out.condemned"), disk.Get("d/out"); string(a) != "before\n" || string(b) != "during\n" {
		t.Errorf("%q and %q", a, b)
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

func TestForeignFilesAreLeftAlone(t *testing.T) {
	disk := faultfs.New()
	for _, name := range []string{"d/README", "d/1.ndjson", "d/000000.ndjson", "d/-00001.ndjson", "d/000001.ndjson.torn", "d/00001x.ndjson"} {
		disk.Put(name, []byte("foreign"))
	}
	disk.Put("d/1000000.ndjson", []byte("{}\n"))
	l, reports := open(t, seglog.Options{Dir: "d", FS: disk})
	want(t, l, "{}")
	if len(*reports) > 0 {
		t.Error(*reports)
	}
}

// What an earlier process wrote is not written again: its last fsync may have
// failed. An empty leftover is cleared away.
func TestEachLifeHasItsOwnSegments(t *testing.T) {
	disk := faultfs.New()
	disk.Put("d/000001.ndjson", []byte("a\n"))
	disk.Put("d/000002.ndjson", nil)
	l, _ := open(t, seglog.Options{Dir: "d", FS: disk})
	add(t, l, "b")
	want(t, l, "a", "b")
	if d := cmp.Diff([]string{"d/000001.ndjson", "d/000003.ndjson"}, disk.Files()); d != "" {
		t.Error(d)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []seglog.Options{{}, {Dir: "a", Path: "b"}} {
		if _, err := seglog.Open(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// FuzzOpen: whatever stands in a segment, the log opens, scans, and takes a
// record that is found last; nothing that was a whole clean line is lost.
func FuzzOpen(f *testing.F) {
	for _, s := range []string{"", "\n", "a\nb", "{}\n{\"a\":1}", "a\n\x00\x00", "\x00\n{}\n", "{\"a\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		disk := faultfs.New()
		disk.Put("d/000001.ndjson", data)
		l, _ := open(t, seglog.Options{Dir: "d", FS: disk})
		add(t, l, "last")
		var lines []string
		if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
			for line := range bytes.SplitSeq(data[:i], []byte{'\n'}) {
				if len(line) > 0 && bytes.IndexByte(line, 0) < 0 {
					lines = append(lines, string(line))
				}
			}
		}
		got := all(t, l)
		if len(got) == 0 || got[len(got)-1] != "last" {
			t.Fatalf("the new record is not last: %q", got)
		}
		got = got[:len(got)-1]
		if len(got) == len(lines)+1 { // an unfinished line that was whole
			got = got[:len(lines)]
		}
		if d := cmp.Diff(lines, append([]string(nil), got...)); d != "" {
			t.Errorf("lines (-want +got):\n%s", d)
		}
	})
}
