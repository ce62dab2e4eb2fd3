package seglog_test

// Catches: records of one AppendAll that are torn apart by another caller or by
// a write that fails half way, and records that no line can hold.

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/seglog"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

func records(texts ...string) [][]byte {
	var rs [][]byte
	for _, t := range texts {
		rs = append(rs, []byte(t))
	}
	return rs
}

func TestAppendAllStandsSideBySide(t *testing.T) {
	disk := faultfs.New()
	l, _ := open(t, seglog.Options{Path: "out", FS: disk})
	const callers = 8
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			if err := l.AppendAll(t.Context(), records(fmt.Sprint(c, " a"), fmt.Sprint(c, " b"), fmt.Sprint(c, " c"))); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := l.Append(t.Context(), []byte("lone")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	lone, seen := 0, map[byte]bool{}
	lines := bytes.Split(bytes.TrimSuffix(disk.Get("out"), []byte("\n")), []byte("\n"))
	for i := 0; i < len(lines); i++ {
		if string(lines[i]) == "lone" {
			lone++
			continue
		}
		c := lines[i][0]
		if i+3 > len(lines) || string(bytes.Join(lines[i:i+3], []byte(","))) != fmt.Sprintf("%c a,%c b,%c c", c, c, c) || seen[c] {
			t.Fatalf("the records of %c are torn apart: %q", c, lines)
		}
		seen[c] = true
		i += 2
	}
	if lone != callers || len(seen) != callers {
		t.Errorf("%d lone records and %d groups, want %d of each", lone, len(seen), callers)
	}
}

func TestAppendAllIsAllOrNone(t *testing.T) {
	disk := faultfs.New()
	l, _ := open(t, seglog.Options{Path: "out", FS: disk})
	if err := l.AppendAll(t.Context(), records("a", "b")); err != nil {
		t.Fatal(err)
	}
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.Write {
			return faultfs.Fault{Err: syscall.ENOSPC, Written: op.Bytes - 1}
		}
		return faultfs.Fault{}
	})
	if err := l.AppendAll(t.Context(), records("c", "d", "e")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	disk.Inject(nil)
	for _, bad := range [][][]byte{records("x", ""), records("x", "y\nz"), records("x\x00")} {
		if err := l.AppendAll(t.Context(), bad); !errors.Is(err, seglog.ErrRecord) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := l.AppendAll(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := l.AppendAll(t.Context(), records("f")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("a\nb\nf\n", string(disk.Get("out"))); d != "" {
		t.Errorf("the file (-want +got):\n%s", d)
	}
}

func TestAppendAllHasABound(t *testing.T) {
	l, _ := open(t, seglog.Options{Path: "out", FS: faultfs.New()})
	big := bytes.Repeat([]byte("x"), seglog.MaxRecord-2)
	if err := l.AppendAll(t.Context(), [][]byte{big, []byte("ab")}); !errors.Is(err, seglog.ErrRecord) {
		t.Errorf("one byte over the bound: %v", err)
	}
	if err := l.AppendAll(t.Context(), [][]byte{big, []byte("a")}); err != nil {
		t.Errorf("at the bound: %v", err)
	}
}
