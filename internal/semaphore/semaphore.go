// Package semaphore is a counting semaphore that serves in order, can be
// resized while in use, and tells how full it is. Lanes and sources are
// bounded by it.
package semaphore

import (
	"container/list"
	"context"
	"sync"
)

// Semaphore bounds the sum of the weights held at once. Safe for concurrent
// use. The zero value holds nothing; use New.
type Semaphore struct {
	mu      sync.Mutex
	max     int64
	held    int64
	waiters list.List // of *waiter, oldest first
}

type waiter struct {
	weight int64
	ready  chan struct{}
}

// New returns a semaphore for a sum of weights of at most limit.
func New(limit int64) *Semaphore { return &Semaphore{max: limit} }

// fits says whether the weight can be taken now. One that is heavier than the
// whole is let through alone, or it would wait for ever.
func (s *Semaphore) fits(weight int64) bool {
	return s.held+weight <= s.max || (s.held == 0 && s.max > 0)
}

// TryAcquire takes the weight if that is possible now and nobody waits.
func (s *Semaphore) TryAcquire(weight int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters.Len() > 0 || !s.fits(weight) {
		return false
	}
	s.held += weight
	return true
}

// Acquire takes the weight, waiting behind those who came before. It returns
// ctx's error when ctx ends first, and then holds nothing.
func (s *Semaphore) Acquire(ctx context.Context, weight int64) error {
	if s.TryAcquire(weight) {
		return nil
	}
	w := &waiter{weight, make(chan struct{})}
	s.mu.Lock()
	at := s.waiters.PushBack(w)
	s.serve()
	s.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.ready: // granted at the last moment: give it back
		s.held -= weight
	default:
		s.waiters.Remove(at)
	}
	s.serve()
	return ctx.Err()
}

// Release gives the weight back. Releasing more than is held panics: it is a
// bug that would let too much through for ever after.
func (s *Semaphore) Release(weight int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held -= weight; s.held < 0 {
		panic("semaphore: released more than was held")
	}
	s.serve()
}

// Resize changes the bound. What is held above a smaller one is not taken back.
func (s *Semaphore) Resize(limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = limit
	s.serve()
}

func (s *Semaphore) serve() {
	for front := s.waiters.Front(); front != nil; front = s.waiters.Front() {
		w := front.Value.(*waiter)
		if !s.fits(w.weight) {
			return
		}
		s.held += w.weight
		s.waiters.Remove(front)
		close(w.ready)
	}
}

// Held returns the sum of the weights in use.
func (s *Semaphore) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Max returns the bound.
func (s *Semaphore) Max() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.max
}
