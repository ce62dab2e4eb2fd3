package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawlhq/pawl/internal/store"
)

// watchers are those who wait for the end of jobs. They are safe for concurrent
// use.
type watchers struct {
	waiting atomic.Int64 // so that the writer takes no lock where nobody waits
	mu      sync.Mutex
	jobs    map[int64]map[chan struct{}]struct{}
	closed  chan struct{}
}

func newWatchers() *watchers {
	return &watchers{jobs: make(map[int64]map[chan struct{}]struct{}), closed: make(chan struct{})}
}

// add waits for a job; the channel is closed at its end.
func (w *watchers) add(seq int64) chan struct{} {
	ch := make(chan struct{})
	w.waiting.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[seq] == nil {
		w.jobs[seq] = make(map[chan struct{}]struct{})
	}
	w.jobs[seq][ch] = struct{}{}
	return ch
}

func (w *watchers) remove(seq int64, ch chan struct{}) {
	w.waiting.Add(-1)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs[seq], ch)
	if len(w.jobs[seq]) == 0 {
		delete(w.jobs, seq)
	}
}

// ended wakes those who wait for jobs that are finished or gone. It is called
// after the commit.
func (w *watchers) ended(seqs []int64) {
	if w.waiting.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, seq := range seqs {
		for ch := range w.jobs[seq] {
			close(ch)
		}
		delete(w.jobs, seq)
	}
}

// close ends every wait.
func (w *watchers) close() { close(w.closed) }

// AwaitEnd returns nil once the job is finished, or gone.
func (s *Store) AwaitEnd(ctx context.Context, id string) error {
	seq, made, ok := s.ids.Parse(id)
	if !ok {
		return nil
	}
	// Watched before it is looked at: an end in between is not missed.
	ch := s.watch.add(seq)
	defer s.watch.remove(seq, ch)
	var ended bool
	err := s.readers.view(ctx, func(c *conn) error {
		err := isThere(c, seq, made)
		if errors.Is(err, store.ErrNotFound) {
			ended = true
			return nil
		}
		if err != nil {
			return err
		}
		s, err := standingOf(c, seq)
		ended = s.status.Finished()
		return err
	})
	if err != nil || ended {
		return err
	}
	select {
	case <-ch:
		return nil
	case <-s.watch.closed:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
