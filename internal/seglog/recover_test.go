package seglog_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/seglog"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

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
