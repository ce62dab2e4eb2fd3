package deadletter_test

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

// knowledge is what the model knows of a letter.
type knowledge struct {
	at time.Time
	// stored: Append said yes. settled: a mark or a purge said yes.
	stored, settled bool
	// maybe: an Append, a mark or a purge failed; a crash may have kept it.
	maybeStored, maybeSettled bool
}

// story drives a store through letters, replays, purges, faults, kills and
// crashes, beside a model.
type story struct {
	t     *rapid.T
	disk  *faultfs.Disk
	rand  *rand.Rand
	s     *deadletter.Files
	known map[string]*knowledge // by letter
	order []string
}

func (y *story) open() {
	s, err := deadletter.Open("dead", deadletter.Options{FS: y.disk, MaxSegment: 2000})
	if err != nil {
		y.t.Fatalf("open: %v", err)
	}
	y.s = s
}

// fault makes some of the next operations fail, or none.
func (y *story) fault() {
	kind := rapid.SampledFrom([]faultfs.Kind{"", "", "", faultfs.Write, faultfs.Sync, faultfs.Create, faultfs.SyncDir, faultfs.Remove}).Draw(y.t, "fault")
	left := rapid.IntRange(1, 3).Draw(y.t, "failures")
	y.disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind != kind || left == 0 {
			return faultfs.Fault{}
		}
		left--
		return faultfs.Fault{Err: syscall.EIO, Written: op.Bytes / 2}
	})
}

func (y *story) append() {
	l := letter(rapid.IntRange(0, 100).Draw(y.t, "hour"))
	k := &knowledge{at: l.At}
	y.known[l.Letter], y.order = k, append(y.order, l.Letter)
	k.stored = y.s.Append(context.Background(), l) == nil
	k.maybeStored = !k.stored
}

func (y *story) mark() {
	if len(y.order) == 0 {
		return
	}
	letter := rapid.SampledFrom(y.order).Draw(y.t, "letter")
	err := y.s.MarkReplayed(context.Background(), letter, deadletter.Delivered)
	k := y.known[letter]
	k.settled = k.settled || err == nil
	k.maybeSettled = k.maybeSettled || err != nil
}

func (y *story) replay() {
	_, _ = y.s.Replay(context.Background(), deadletter.ReplayOptions{Deliver: func(_ context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
		if k := y.known[l.Letter]; k.settled {
			y.t.Errorf("%s is replayed though it is settled", l.Letter)
		}
		return deadletter.ReplayOutcome{Verdict: deadletter.Delivered}
	}, Filter: deadletter.Filter{IDs: y.order[:min(len(y.order), 3)]}})
	for _, letter := range y.order[:min(len(y.order), 3)] {
		y.known[letter].maybeSettled = true
	}
}

func (y *story) purge() {
	before := day0.Add(time.Duration(rapid.IntRange(0, 120).Draw(y.t, "hour")) * time.Hour)
	_, err := y.s.Purge(context.Background(), before)
	for _, k := range y.known {
		if k.at.Before(before) {
			k.settled = k.settled || err == nil
			k.maybeSettled = k.maybeSettled || err != nil
		}
	}
}

func (y *story) check() {
	y.disk.Inject(nil)
	seen := map[string]bool{}
	err := y.s.List(context.Background(), deadletter.Filter{}, func(e deadletter.Entry) error {
		k := y.known[e.Letter]
		switch {
		case k == nil:
			y.t.Errorf("%s was never appended", e.Letter)
		case seen[e.Letter]:
			y.t.Errorf("%s is listed twice", e.Letter)
		case k.settled && k.stored:
			y.t.Errorf("%s is listed as open though it is settled", e.Letter)
		}
		seen[e.Letter] = true
		return nil
	})
	if err != nil {
		y.t.Fatalf("list: %v", err)
	}
	for letter, k := range y.known {
		if k.stored && !k.settled && !k.maybeSettled && !seen[letter] {
			y.t.Errorf("%s was stored and is gone", letter)
		}
	}
	if st := y.s.Stats(); st.Open != len(seen) || st.Damaged != 0 {
		y.t.Errorf("stats %+v, %d listed", st, len(seen))
	}
}

// TestStories: what was stored stays listed until it is settled, whatever the
// disk does; what was settled is never listed or replayed again.
func TestStories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		y := &story{t: t, disk: faultfs.New(), rand: rand.New(rand.NewPCG(seed, 1)), known: map[string]*knowledge{}}
		y.open()
		step := func(do func()) func(*rapid.T) {
			return func(t *rapid.T) {
				y.t = t
				y.fault()
				do()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": step(y.append), "append more": step(y.append), "mark": step(y.mark), "replay": step(y.replay), "purge": step(y.purge),
			"kill":  func(t *rapid.T) { y.t = t; y.open() },
			"crash": func(t *rapid.T) { y.t = t; y.disk.Crash(y.rand); y.open() },
			"":      func(t *rapid.T) { y.t = t; y.check() },
		})
	})
}
