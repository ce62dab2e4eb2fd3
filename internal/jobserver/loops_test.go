package jobserver

// What these tests would catch: a lease that is recovered late, a loop that
// spins or that a failing store ends, old jobs that crowd out those who wait,
// a trouble that fills the log or is never told.

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// steps is a store that only keeps itself in order, as the test says.
type steps struct {
	store.Store // nothing else is called
	sweep       func(now time.Time) (store.Swept, error)
	retain      func(now time.Time, r store.Retention) (store.More, error)

	mu              sync.Mutex
	swept, retained []time.Duration // when, since the start
	began           time.Time
}

func (s *steps) Now() time.Time { return time.Now() }

// What the other loops ask for: nothing was ever said over the API.
func (s *steps) SetLimits(context.Context, map[lane.Gate]store.Limits) error { return nil }
func (s *steps) WantEvents(context.Context, []store.EventType) error         { return nil }

func (s *steps) RunningReplays(context.Context) ([]store.Replay, error) { return nil, nil }
func (s *steps) Definitions(context.Context, store.DefinitionKind) ([]store.Definition, error) {
	return nil, nil
}
func (s *steps) AwaitEvents(ctx context.Context, _ int64) error { <-ctx.Done(); return ctx.Err() }
func (s *steps) Cursor(context.Context, string) (int64, error)  { return 0, nil }

func (s *steps) Sweep(context.Context) (store.Swept, error) {
	now := time.Now()
	s.mu.Lock()
	s.swept = append(s.swept, now.Sub(s.began))
	s.mu.Unlock()
	if s.sweep == nil {
		return store.Swept{}, nil
	}
	return s.sweep(now)
}

func (s *steps) Retain(_ context.Context, r store.Retention) (store.More, error) {
	now := time.Now()
	s.mu.Lock()
	s.retained = append(s.retained, now.Sub(s.began))
	s.mu.Unlock()
	if s.retain == nil {
		return false, nil
	}
	return s.retain(now, r)
}

// run runs a server over the steps for some virtual time and returns what it
// logged and what Run returned.
func run(t *testing.T, s *steps, c Config, d time.Duration) (logged string, err error) {
	t.Helper()
	var out bytes.Buffer
	s.began = time.Now()
	server, err := NewServer(Options{Store: s, Config: c, Log: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	err = server.Run(ctx)
	return out.String(), err
}

func TestSweepComesOnceASecondAndAtTheNextEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &steps{sweep: func(now time.Time) (store.Swept, error) {
			// Something ends 1.3 s after the start, then nothing for long.
			if end := began.Add(1300 * time.Millisecond); now.Before(end) {
				return store.Swept{Next: end}, nil
			}
			return store.Swept{Next: now.Add(time.Hour)}, nil
		}}
		if _, err := run(t, s, Config{}, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, time.Second, 1300 * time.Millisecond, 2300 * time.Millisecond}
		if !equal(s.swept, want) {
			t.Errorf("it swept at %v, not at %v", s.swept, want)
		}
	})
}

func TestSweepDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// An end that is past and that the store does not move.
		s := &steps{sweep: func(now time.Time) (store.Swept, error) { return store.Swept{Next: now.Add(-time.Second)}, nil }}
		if _, err := run(t, s, Config{}, time.Second-time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got, most := len(s.swept), int(time.Second/sweepAtLeast); got > most {
			t.Errorf("it swept %d times in a second, at most %d are wanted", got, most)
		}
	})
}

func TestSweepCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		s := &steps{sweep: func(time.Time) (store.Swept, error) {
			if !first {
				return store.Swept{TimedOut: 1}, nil
			}
			first = false
			return store.Swept{TimedOut: 1, Lost: 2, Unreceived: 3, Graced: 4}, nil
		}}
		s.began = time.Now()
		server, err := NewServer(Options{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer stop()
		if err := server.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got, want := server.Totals(), (Totals{TimedOut: 2, Lost: 2, Unreceived: 3, Graced: 4}); !cmp.Equal(got, want, cmpopts.IgnoreFields(Totals{}, "Delay", "Run")) {
			t.Errorf("it counted %+v, not %+v", got, want)
		}
	})
}

// A sweep works in steps: what the first ones ended is done, though a later one
// fails.
func TestASweepThatFailsCountsWhatItDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &steps{sweep: func(time.Time) (store.Swept, error) {
			return store.Swept{TimedOut: 1, Lost: 2, Unreceived: 3, Graced: 4, Next: time.Now().Add(time.Hour)}, store.ErrUnavailable
		}}
		s.began = time.Now()
		var log bytes.Buffer
		server, err := NewServer(Options{Store: s, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), sweepAtMost/2)
		defer stop()
		if err := server.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got, want := server.Totals(), (Totals{TimedOut: 1, Lost: 2, Unreceived: 3, Graced: 4}); !cmp.Equal(got, want, cmpopts.IgnoreFields(Totals{}, "Delay", "Run")) {
			t.Errorf("it counted %+v, not %+v", got, want)
		}
		if text := log.String(); !strings.Contains(text, "timed_out=1 lost=2 unreceived=3") || !strings.Contains(text, "recovering leases failed") {
			t.Error(text)
		}
	})
}

func TestAFailingStoreEndsNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &steps{sweep: func(now time.Time) (store.Swept, error) {
			if now.Sub(began) < 150*time.Second {
				return store.Swept{}, store.ErrUnavailable
			}
			return store.Swept{}, nil
		}}
		logged, err := run(t, s, Config{}, 200*time.Second-time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.swept) != 200 {
			t.Errorf("it swept %d times in 200 s, not once a second", len(s.swept))
		}
		// When it begins, after one and two minutes, when it is over.
		for text, want := range map[string]int{"is tried again": 1, "still fails": 2, "works again": 1} {
			if got := strings.Count(logged, text); !cmp.Equal(got, want, cmpopts.IgnoreFields(Totals{}, "Delay", "Run")) {
				t.Errorf("%q was logged %d times, not %d, in\n%s", text, got, want, logged)
			}
		}
		if !strings.Contains(logged, "after=2m30s") {
			t.Errorf("how long it lasted is not told in\n%s", logged)
		}
	})
}

func TestAnotherTroubleIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := &steps{sweep: func(time.Time) (store.Swept, error) {
			if n++; n == 3 {
				return store.Swept{}, store.ErrFull
			}
			return store.Swept{}, store.ErrUnavailable
		}}
		logged, err := run(t, s, Config{}, 2500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(logged, store.ErrFull.Error()) || strings.Count(logged, "\n") != 2 {
			t.Errorf("the other trouble is not told once:\n%s", logged)
		}
	})
}

func TestAClosedStoreEndsRun(t *testing.T) {
	for name, s := range map[string]*steps{
		"sweep":  {sweep: func(time.Time) (store.Swept, error) { return store.Swept{}, store.ErrClosed }},
		"retain": {retain: func(time.Time, store.Retention) (store.More, error) { return false, store.ErrClosed }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if _, err := run(t, s, Config{}, time.Hour); !errors.Is(err, store.ErrClosed) {
					t.Errorf("Run returned %v, not %v", err, store.ErrClosed)
				}
				if d := time.Since(s.began); d > sweepAtMost {
					t.Errorf("it ended after %v", d)
				}
			})
		})
	}
}

func TestOldJobsAreRemovedInSmallSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step = 15 * time.Millisecond
		left := 100
		s := &steps{retain: func(_ time.Time, r store.Retention) (store.More, error) {
			if want := (store.Retention{Finished: 48 * time.Hour, DeadLetters: DefaultDeadLetters, Events: DefaultEvents}); r != want {
				t.Errorf("it keeps for %+v, not for %+v", r, want)
			}
			time.Sleep(step)
			left--
			return left > 0, nil
		}}
		c := Config{Retention: store.Retention{Finished: 48 * time.Hour}}
		if _, err := run(t, s, c, retainEvery+10*time.Second); err != nil {
			t.Fatal(err)
		}
		if left != -1 { // all of it, and one look after half a minute
			t.Fatalf("%d steps are left", left)
		}
		for i, at := range s.retained[1:100] {
			if rest := at - s.retained[i] - step; rest != retainRest*step {
				t.Fatalf("after step %d it rested %v, not %v", i, rest, retainRest*step)
			}
		}
		if rest := s.retained[100] - s.retained[99] - step; rest != retainEvery {
			t.Errorf("with nothing left it rested %v, not %v", rest, retainEvery)
		}
	})
}

func TestRetentionRestsAfterQuickSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &steps{retain: func(time.Time, store.Retention) (store.More, error) { return true, nil }}
		if _, err := run(t, s, Config{}, time.Second-time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got, want := len(s.retained), int(time.Second/retainPause); !cmp.Equal(got, want, cmpopts.IgnoreFields(Totals{}, "Delay", "Run")) {
			t.Errorf("it took %d steps in a second, not %d", got, want)
		}
	})
}

func equal(a, b []time.Duration) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A disk that comes and goes makes leases longer every few seconds: the log has a
// line a minute of it, and nothing is left untold.
func TestLengthenedLeasesAreToldOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
	now := time.Now()
	for second := range 200 {
		n := 0
		if second%5 == 0 && second < 100 {
			n = 2
		}
		s.tellGraced(n, now.Add(time.Duration(second)*time.Second))
	}
	var told []string
	for line := range strings.Lines(log.String()) {
		_, after, _ := strings.Cut(line, "leases=")
		told = append(told, strings.TrimSpace(after))
	}
	if want := []string{"2 times=1", "24 times=12", "14 times=7"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
