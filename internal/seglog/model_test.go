package seglog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/seglog"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

// history drives a log through appends, faults, kills and crashes beside a
// model: which records were acknowledged where, and which were refused since
// the log was opened.
type history struct {
	t    *rapid.T
	disk *faultfs.Disk
	rand *rand.Rand
	l    *seglog.Log
	o    seglog.Options
	n    int
	// acked maps a record to its position; refused holds those whose Append
	// failed, true while the log that refused them is open.
	acked   map[string]seglog.Position
	refused map[string]bool
	// removed holds the acknowledged records of segments that were removed, true
	// once that was said to be durable: a crash brings the others back or not.
	removed map[string]bool
	// uncut: a truncate failed, so a record may be there twice after a restart.
	uncut bool
}

func (h *history) open() {
	l, err := seglog.Open(h.o)
	if err != nil {
		h.t.Fatalf("open: %v", err)
	}
	h.l = l
	for r := range h.refused {
		h.refused[r] = false
	}
}

// arm makes the next operations of one kind fail.
func (h *history) arm() {
	kind := rapid.SampledFrom([]faultfs.Kind{
		faultfs.Write, faultfs.Sync, faultfs.Truncate, faultfs.Create, faultfs.SyncDir, faultfs.Remove, faultfs.Stat,
	}).Draw(h.t, "kind")
	skip := rapid.IntRange(0, 2).Draw(h.t, "skip")
	left := rapid.IntRange(1, 3).Draw(h.t, "failures")
	written := rapid.IntRange(0, 30).Draw(h.t, "written")
	h.disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind != kind || left == 0 {
			return faultfs.Fault{}
		}
		if skip > 0 {
			skip--
			return faultfs.Fault{}
		}
		left--
		h.uncut = h.uncut || kind == faultfs.Truncate
		return faultfs.Fault{Err: syscall.EIO, Written: written}
	})
}

// append adds a few records at once.
func (h *history) append() {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range rapid.IntRange(1, 4).Draw(h.t, "records") {
		h.n++
		r := fmt.Sprintf(`{"n":%d,"pad":"%0*d"}`, h.n, h.n%17, 0)
		wg.Go(func() {
			at, err := h.l.Append(context.Background(), []byte(r))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				h.refused[r] = true
			} else {
				h.acked[r] = at
			}
		})
	}
	wg.Wait()
}

// remove takes a segment away.
func (h *history) remove() {
	segments := h.l.Segments()
	if len(segments) == 0 {
		return
	}
	s := rapid.SampledFrom(segments).Draw(h.t, "segment")
	err := h.l.Remove(s)
	if slices.Contains(h.l.Segments(), s) {
		if err == nil {
			h.t.Errorf("%s is removed and there", s.File)
		}
		return
	}
	for r, at := range h.acked {
		if at.Segment == s.Number {
			delete(h.acked, r)
			h.removed[r] = false
		}
	}
	h.removedForGood(err)
}

// removedForGood takes what was said of every removal so far.
func (h *history) removedForGood(err error) {
	if err != nil || h.uncut {
		return
	}
	for r := range h.removed {
		h.removed[r] = true
	}
}

// check compares what the log shows with the model.
func (h *history) check() {
	h.disk.Inject(nil)
	seen := map[string]int{}
	var last seglog.Position
	err := h.l.Scan(context.Background(), seglog.Position{}, func(at seglog.Position, line []byte) error {
		r := string(line)
		seen[r]++
		if at.Compare(last) < 0 {
			h.t.Errorf("%s at %v comes after %v", r, at, last)
		}
		last = at
		if forGood, removed := h.removed[r]; removed && !forGood {
			h.acked[r] = at // a crash brought it back
			delete(h.removed, r)
		}
		where, acked := h.acked[r]
		fresh, refused := h.refused[r]
		switch {
		case h.removed[r]:
			h.t.Errorf("%s was removed for good and is at %v", r, at)
		case acked && where != at && !h.uncut:
			h.t.Errorf("%s was acknowledged at %v and is at %v", r, where, at)
		case !acked && !refused:
			h.t.Errorf("%q was never appended", r)
		case refused && fresh:
			h.t.Errorf("%s was refused and is seen", r)
		}
		return nil
	})
	if err != nil {
		h.t.Fatalf("scan: %v", err)
	}
	for r, at := range h.acked {
		if seen[r] == 0 {
			h.t.Errorf("%s was acknowledged at %v and is gone", r, at)
		}
		if seen[r] > 1 && !h.uncut {
			h.t.Errorf("%s is there %d times", r, seen[r])
		}
	}
}

// TestHistories: every acknowledged record is there once, where it was said to
// be, until its segment is removed; nothing else but refused ones that a crash
// brought back.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		disk := faultfs.New()
		h := &history{
			t: t, disk: disk, rand: rand.New(rand.NewPCG(seed, 1)),
			o:     seglog.Options{Dir: "d", FS: disk, MaxSegment: 100},
			acked: map[string]seglog.Position{}, refused: map[string]bool{}, removed: map[string]bool{},
		}
		h.open()
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { h.t = t; h.append() },
			"fault":  func(t *rapid.T) { h.t = t; h.arm(); h.append() },
			"remove": func(t *rapid.T) {
				h.t = t
				if rapid.Bool().Draw(t, "fault") {
					h.arm()
				}
				h.remove()
			},
			"sync removals": func(t *rapid.T) {
				h.t = t
				if rapid.Bool().Draw(t, "fault") {
					h.arm()
				}
				h.removedForGood(h.l.SyncRemovals())
			},
			"restart": func(t *rapid.T) { h.t = t; h.arm(); h.open() },
			"full": func(t *rapid.T) {
				h.t = t
				disk.SetCapacity(disk.Used() + int64(rapid.IntRange(1, 60).Draw(t, "room")))
				h.append()
				disk.SetCapacity(0)
			},
			"kill":  func(t *rapid.T) { h.t = t; disk.Inject(nil); h.open() },
			"crash": func(t *rapid.T) { h.t = t; disk.Crash(h.rand); h.open() },
			"":      func(t *rapid.T) { h.t = t; h.check() },
		})
	})
}
