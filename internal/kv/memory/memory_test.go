package memory_test

// These tests catch a store that is not what the contract says, one that grows
// past its bound or keeps what is over, and one that gives a lease away before
// its end to make room.

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/kvtest"
	"github.com/pawlhq/pawl/internal/kv/memory"
)

func TestContract(t *testing.T) {
	var shared *memory.Store
	kvtest.Run(t, kvtest.Harness{
		Within: func(t *testing.T, f func(*testing.T)) {
			shared = memory.New(memory.Options{})
			synctest.Test(t, f)
		},
		Open: func(testing.TB) kv.Store { return shared },
	})
}

// found counts what is found of the keys, and leaves them as they are.
func found(t *testing.T, s *memory.Store, keys []string) (n map[kv.Found]int) {
	t.Helper()
	n = map[kv.Found]int{}
	for _, k := range keys {
		got, err := s.Mark(t.Context(), k, "looks", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		n[got.Found]++
		if err := s.Forget(t.Context(), k, "looks"); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// names are so many keys.
func names(kind string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(kind, i))
	}
	return keys
}

func TestLeasesAreNotTakenToMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Max: 3})
		keys := names("k", 3)
		for i, k := range keys {
			if _, err := s.Mark(t.Context(), k, "one", time.Duration(i+1)*time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Mark(t.Context(), "more", "one", time.Hour)
		u, ok := errors.AsType[*kv.Unavailable](err)
		if !ok || u.Outcome != kv.NotDone || !errors.Is(err, kv.ErrFull) {
			t.Fatal(err)
		}
		if got, err := s.Mark(t.Context(), keys[0], "one", time.Minute); err != nil || got.Found != kv.Mine {
			t.Errorf("the own mark of a full store: %v, %v", got, err)
		}
		time.Sleep(time.Minute)
		if got, err := s.Mark(t.Context(), "more", "one", time.Hour); err != nil || got.Found != kv.Mine {
			t.Errorf("after a lease's end: %v, %v", got, err)
		}
		if err := s.Settle(t.Context(), keys[1], "one", time.Hour); err != nil {
			t.Error(err)
		}
		if got, err := s.Mark(t.Context(), "even more", "one", time.Hour); err != nil || got.Found != kv.Mine {
			t.Errorf("after one was settled: %v, %v", got, err)
		}
	})
}

func TestSettledMarksGoBySoonestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Max: 3})
		for i, ttl := range []time.Duration{3, 1, 4, 2, 5} {
			if err := s.Settle(t.Context(), fmt.Sprint(i), "one", ttl*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []kv.Found{kv.Done, kv.Mine, kv.Done, kv.Mine, kv.Done} {
			if got := found(t, s, []string{fmt.Sprint(i)}); got[want] != 1 {
				t.Errorf("%d: %v, want %v", i, got, want)
			}
		}
	})
}

func TestSlotsGoBySoonestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Max: 3})
		add := func(number, by int64, ttl time.Duration) int64 {
			got, err := s.Add(t.Context(), "series", []kv.Slot{{Number: number, Counts: []int64{by}}}, ttl)
			if err != nil {
				t.Fatal(err)
			}
			return got[0].Counts[0]
		}
		add(1, 1, 1*time.Hour)
		add(2, 1, 2*time.Hour)
		add(3, 1, 3*time.Hour)
		add(1, 1, 4*time.Hour) // it ends last from now on
		add(4, 1, 5*time.Hour)
		for number, want := range map[int64]int64{1: 2, 2: 0, 3: 1, 4: 1} {
			if got := add(number, 0, time.Hour); got != want {
				t.Errorf("slot %d has %d, want %d", number, got, want)
			}
		}
	})
}

// What is over takes no room for long, though nobody asks for it by its name.
func TestWhatIsOverGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		for _, k := range names("lease", 1000) {
			if _, err := s.Mark(t.Context(), k, "one", time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		for i, k := range names("settled", 1000) {
			if err := s.Settle(t.Context(), k, "one", time.Minute); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Add(t.Context(), k, []kv.Slot{{Number: int64(i), Counts: []int64{1}}}, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Len(); got != 3000 {
			t.Fatalf("%d kept, want 3000", got)
		}
		time.Sleep(time.Minute)
		for range 100 {
			if err := s.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Len(); got != 0 {
			t.Errorf("%d kept", got)
		}
	})
}
