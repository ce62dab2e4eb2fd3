package semaphore

// Catches: a bound that is passed, waiters served out of order, a place lost
// by a waiter that gave up, and a weight larger than the whole that waits for
// ever.

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		if !s.TryAcquire(1) {
			t.Fatal("an empty semaphore refused")
		}
		var order []int
		for i := range 5 {
			go func() {
				if err := s.Acquire(t.Context(), 1); err != nil {
					t.Error(err)
				}
				order = append(order, i)
				s.Release(1)
			}()
			synctest.Wait()
		}
		if s.TryAcquire(1) {
			t.Error("somebody was let past those who wait")
		}
		s.Release(1)
		synctest.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("served in the order %v", order)
			}
		}
		if len(order) != 5 || s.Held() != 0 {
			t.Errorf("served %v, %d still held", order, s.Held())
		}
	})
}

func TestGivingUpLosesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(10)
		s.TryAcquire(8)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			if err := s.Acquire(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the context's end", err)
			}
		}()
		synctest.Wait()
		done := make(chan error)
		go func() { done <- s.Acquire(t.Context(), 2) }() // fits, but stands behind the 5
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("a light one overtook a heavy one")
		default:
		}
		if err := <-done; err != nil { // served once the heavy one has given up
			t.Fatal(err)
		}
		if s.Held() != 10 {
			t.Errorf("%d held, want 10", s.Held())
		}
	})
}

func TestHeavierThanTheWhole(t *testing.T) {
	s := New(10)
	if !s.TryAcquire(50) {
		t.Fatal("refused while nothing was held")
	}
	if s.TryAcquire(1) {
		t.Fatal("let something in beside it")
	}
	s.Release(50)
	if !s.TryAcquire(10) {
		t.Fatal("a place was lost")
	}
}

func TestReleasingTooMuchPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(1).Release(1)
}

func TestNeverPastItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 20).Draw(t, "limit")
		s := New(limit)
		var held []int64
		sum := func() (n int64) {
			for _, h := range held {
				n += h
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				w := rapid.Int64Range(1, 25).Draw(t, "weight")
				want := sum()+w <= limit || sum() == 0
				if got := s.TryAcquire(w); got != want {
					t.Fatalf("TryAcquire(%d) with %d of %d held: %v", w, sum(), limit, got)
				} else if got {
					held = append(held, w)
				}
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing held")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				s.Release(held[i])
				held = append(held[:i], held[i+1:]...)
			},
			"resize": func(t *rapid.T) {
				limit = rapid.Int64Range(1, 20).Draw(t, "limit")
				s.Resize(limit)
			},
			"": func(t *rapid.T) {
				if s.Held() != sum() || s.Max() != limit {
					t.Fatalf("holds %d of %d, want %d of %d", s.Held(), s.Max(), sum(), limit)
				}
			},
		})
	})
}
