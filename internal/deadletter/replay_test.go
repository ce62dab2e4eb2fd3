package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

func delivered(context.Context, *message.DeadLetter) deadletter.ReplayOutcome {
	return deadletter.ReplayOutcome{Verdict: deadletter.Delivered}
}

func fill(t *testing.T, n int) (*deadletter.Files, *faultfs.Disk) {
	t.Helper()
	disk := faultfs.New()
	s := open(t, "dead", deadletter.Options{FS: disk, MaxSegment: 4 << 10})
	for i := range n {
		store(t, s, letter(i))
	}
	return s, disk
}

func TestReplayDeliversAndIsResumable(t *testing.T) {
	s, disk := fill(t, 100)
	var mu sync.Mutex
	replayed := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	o := deadletter.ReplayOptions{Deliver: func(_ context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
		mu.Lock()
		defer mu.Unlock()
		replayed[l.Message.ID]++
		if len(replayed) == 30 {
			cancel()
		}
		return deadletter.ReplayOutcome{Verdict: deadletter.Delivered}
	}}
	sum, err := s.Replay(ctx, o)
	if !errors.Is(err, context.Canceled) || sum.Total != 100 || sum.Delivered != len(replayed) || sum.Left != 100-len(replayed) {
		t.Errorf("cut short after %d: %+v, %v", len(replayed), sum, err)
	}
	if sum.Delivered == 100 {
		t.Error("it was not cut short")
	}
	_ = s.Close()
	s = open(t, "dead", deadletter.Options{FS: disk})
	rest := 100 - sum.Delivered
	var told []deadletter.Progress
	o.Progress = func(p deadletter.Progress) { told = append(told, p) }
	sum, err = s.Replay(t.Context(), o)
	if err != nil || sum.Total != rest || sum.Delivered != rest || sum.Left != 0 {
		t.Errorf("the rest: %+v, %v", sum, err)
	}
	for id, n := range replayed {
		if n != 1 {
			t.Errorf("%s was replayed %d times", id, n)
		}
	}
	if len(told) != rest || told[rest-1].Left != 0 || !slices.IsSortedFunc(told, func(a, b deadletter.Progress) int { return b.Left - a.Left }) {
		t.Errorf("progress: %v", told)
	}
	want(t, s, deadletter.Filter{})
}

func TestReplayFailsAgain(t *testing.T) {
	s, _ := fill(t, 0)
	first := letter(1)
	store(t, s, first)
	deaths := []string{first.Letter}
	last := first
	for n := range 30 {
		calls := 0
		sum, err := s.Replay(t.Context(), deadletter.ReplayOptions{
			Deliver: func(_ context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
				calls++
				last = letter(2+n, func(a *message.DeadLetter) { a.Message, a.Letter = l.Message, "" })
				return deadletter.ReplayOutcome{Verdict: deadletter.FailedAgain, Letters: []*message.DeadLetter{last}}
			},
		})
		if err != nil || calls != 1 || sum.FailedAgain != 1 || sum.Left != 0 {
			t.Fatalf("replay %d: %d calls, %+v, %v", n, calls, sum, err)
		}
		deaths = append(deaths, last.Letter)
	}
	got, err := s.Get(t.Context(), "m1")
	if err != nil || len(got) != 31 {
		t.Fatal(len(got), err)
	}
	for i, e := range got {
		state := deadletter.StateReplayed
		if i == 30 {
			state = deadletter.StateOpen
		}
		if e.State != state || e.Letter != deaths[i] {
			t.Errorf("letter %d: %v, %s", i, e.State, e.Letter)
		}
	}
	var history []string
	for _, d := range got[30].Replays {
		history = append(history, d.Letter)
		if len(d.Replays) != 0 {
			t.Error("an earlier death carries its own history")
		}
	}
	// 30 earlier deaths: the first and the last 19.
	if d := cmp.Diff(append(deaths[:1:1], deaths[11:30]...), history); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
}

// A route that ran again can die at several destinations.
func TestReplayLeavesSeveralLetters(t *testing.T) {
	s, _ := fill(t, 1)
	_, err := s.Replay(t.Context(), deadletter.ReplayOptions{
		Deliver: func(_ context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
			var out deadletter.ReplayOutcome
			out.Verdict = deadletter.FailedAgain
			for _, d := range []string{"a", "b"} {
				out.Letters = append(out.Letters, letter(9, func(n *message.DeadLetter) { n.Message, n.Destination, n.Letter = l.Message, d, "" }))
			}
			return out
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, s, deadletter.Filter{}, "m0", "m0")
	want(t, s, deadletter.Filter{Destination: "b"}, "m0")
}

func TestReplayLeavesOpen(t *testing.T) {
	gone := errors.New("no destination is configured")
	full := errors.New("the disk is full")
	tests := map[string]deadletter.ReplayOptions{
		gone.Error(): {Deliver: func(context.Context, *message.DeadLetter) deadletter.ReplayOutcome {
			return deadletter.ReplayOutcome{Err: gone}
		}},
		full.Error(): {
			Deliver: func(_ context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
				return deadletter.ReplayOutcome{Verdict: deadletter.FailedAgain, Letters: []*message.DeadLetter{letter(9)}}
			},
			Write: func(context.Context, *message.DeadLetter) error { return full },
		},
		"it failed again without a new letter": {Deliver: func(context.Context, *message.DeadLetter) deadletter.ReplayOutcome {
			return deadletter.ReplayOutcome{Verdict: deadletter.FailedAgain}
		}},
	}
	for text, o := range tests {
		s, _ := fill(t, 3)
		sum, err := s.Replay(t.Context(), o)
		if err != nil || sum.Left != 3 || sum.Err == nil || sum.Err.Error() != text {
			t.Errorf("%s: %+v, %v", text, sum, err)
		}
		want(t, s, deadletter.Filter{}, "m0", "m1", "m2")
	}
}

// What can't be marked would be delivered again and again: the replay ends.
func TestReplayEndsWhenMarksFail(t *testing.T) {
	s, disk := fill(t, 500)
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.Create {
			return faultfs.Fault{Err: syscall.ENOSPC}
		}
		return faultfs.Fault{}
	})
	var calls atomic.Int32
	sum, err := s.Replay(t.Context(), deadletter.ReplayOptions{Deliver: func(ctx context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
		calls.Add(1)
		return delivered(ctx, l)
	}})
	if !errors.Is(err, syscall.ENOSPC) || sum.Delivered != 0 || calls.Load() > 3*deadletter.MaxReplaysInFlight {
		t.Errorf("%d calls, %+v, %v", calls.Load(), sum, err)
	}
	if s.Stats().Open != 500 {
		t.Errorf("%+v", s.Stats())
	}
}

func TestReplayDryRun(t *testing.T) {
	s, _ := fill(t, 5)
	sum, err := s.Replay(t.Context(), deadletter.ReplayOptions{
		DryRun: true, Filter: deadletter.Filter{IDs: []string{"m1", "m2"}},
		Deliver: func(context.Context, *message.DeadLetter) deadletter.ReplayOutcome { panic("delivered") },
	})
	if err != nil || sum.Total != 2 || sum.Left != 2 {
		t.Errorf("%+v, %v", sum, err)
	}
	want(t, s, deadletter.Filter{}, "m0", "m1", "m2", "m3", "m4")
}

func TestReplayIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := fill(t, 21)
		began := time.Now()
		var at []time.Duration
		var mu sync.Mutex
		_, err := s.Replay(t.Context(), deadletter.ReplayOptions{
			Rate: 10,
			Deliver: func(ctx context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
				mu.Lock()
				at = append(at, time.Since(began))
				mu.Unlock()
				return delivered(ctx, l)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range at {
			if want := time.Duration(i) * 100 * time.Millisecond; d != want {
				t.Errorf("letter %d began at %v, want %v", i, d, want)
			}
		}
	})
	s, _ := fill(t, 1)
	for _, rate := range []float64{-1, math.NaN()} {
		if _, err := s.Replay(t.Context(), deadletter.ReplayOptions{Rate: rate, Deliver: delivered}); err == nil {
			t.Errorf("the rate %v was taken", rate)
		}
	}
	if _, err := s.Replay(t.Context(), deadletter.ReplayOptions{Rate: math.Inf(1), Deliver: delivered}); err != nil {
		t.Error(err)
	}
}

func TestReplaysInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := fill(t, 200)
		var now, most atomic.Int32
		o := deadletter.ReplayOptions{Deliver: func(ctx context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
			n := now.Add(1)
			most.Store(max(most.Load(), n))
			time.Sleep(time.Second)
			now.Add(-1)
			return delivered(ctx, l)
		}}
		o.Filter.State = deadletter.AllStates // not looked at
		one := deadletter.ReplayOptions{Deliver: delivered, Filter: deadletter.Filter{IDs: []string{"m7"}}}
		if _, err := s.Replay(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		sum, err := s.Replay(t.Context(), o)
		if err != nil || sum.Total != 199 || sum.Delivered != 199 || most.Load() != deadletter.MaxReplaysInFlight {
			t.Errorf("%d at once, %+v, %v", most.Load(), sum, err)
		}
	})
}

// Two replays and a purge at once: each letter is delivered once, and none that
// is in hand is purged.
func TestReplaysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := fill(t, 40)
		var mu sync.Mutex
		replayed := map[string]int{}
		o := deadletter.ReplayOptions{Deliver: func(ctx context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
			mu.Lock()
			replayed[l.Letter]++
			mu.Unlock()
			time.Sleep(time.Second)
			return delivered(ctx, l)
		}}
		sums := make([]deadletter.Summary, 2)
		var wg sync.WaitGroup
		for i := range sums {
			wg.Go(func() {
				var err error
				if sums[i], err = s.Replay(t.Context(), o); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n, err := s.Purge(t.Context(), day0.AddDate(1, 0, 0)); n != 0 || err != nil {
			t.Errorf("purged %d in hand, %v", n, err)
		}
		wg.Wait()
		if n := sums[0].Delivered + sums[1].Delivered; n != 40 || sums[0].Busy+sums[1].Busy != 40 {
			t.Errorf("%+v", sums)
		}
		for l, n := range replayed {
			if n != 1 {
				t.Errorf("%s was in %d replays", l, n)
			}
		}
		want(t, s, deadletter.Filter{})
	})
}

func ExampleFiles_Replay() {
	s, err := deadletter.Open("dead", deadletter.Options{FS: faultfs.New()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	_ = s.Append(context.Background(), letter(1))
	sum, err := s.Replay(context.Background(), deadletter.ReplayOptions{Deliver: delivered})
	fmt.Println(sum.Delivered, sum.Left, err)
	// Output: 1 0 <nil>
}
