package jobserver

import (
	"container/list"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/lane"
)

const (
	// maxWorkers is how many workers are remembered, and maxNames how many names of
	// queues and tasks they may say in all: who was silent for longest is forgotten.
	maxWorkers = 10_000
	maxNames   = 200_000
	// workerGone is after how long a silent worker counts as gone.
	workerGone = time.Minute
)

// Worker is a worker that was heard of: what it claims and when it was heard of
// last. On several nodes each knows those that talk to it.
type Worker struct {
	ID     string
	Queues []string
	Tasks  []lane.Task // empty is every task
	Seen   time.Time
}

// wants reports whether it takes jobs of the lane.
func (w *Worker) wants(k lane.Key) bool {
	return lane.Want{Queues: w.Queues, Tasks: w.Tasks}.Wants(k)
}

// workers remembers who claims what. Safe for concurrent use.
type workers struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	order list.List // of *Worker, heard of last first
	names int
}

// claims notes what a worker asks for. The slices are kept.
func (w *workers) claims(id string, queues []string, tasks []lane.Task, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID = map[string]*list.Element{}
	}
	e := w.byID[id]
	if e == nil {
		e = w.order.PushFront(&Worker{ID: id})
		w.byID[id] = e
	} else {
		w.order.MoveToFront(e)
	}
	at := e.Value.(*Worker)
	w.names += len(queues) + len(tasks) - len(at.Queues) - len(at.Tasks)
	at.Queues, at.Tasks, at.Seen = queues, tasks, now
	for len(w.byID) > maxWorkers || w.names > maxNames && len(w.byID) > 1 {
		last := w.order.Back()
		gone := w.order.Remove(last).(*Worker)
		w.names -= len(gone.Queues) + len(gone.Tasks)
		delete(w.byID, gone.ID)
	}
}

// heard notes that a worker said something.
func (w *workers) heard(id string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.byID[id]; e != nil {
		e.Value.(*Worker).Seen = now
		w.order.MoveToFront(e)
	}
}

// of visits the workers that were heard of since a time, the newest first, until
// visit returns false.
func (w *workers) of(since time.Time, visit func(*Worker) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := w.order.Front(); e != nil; e = e.Next() {
		if at := e.Value.(*Worker); at.Seen.Before(since) || !visit(at) {
			return
		}
	}
}

// Workers returns the workers that were heard of within the last minute and take
// jobs of a queue that the key sees, the newest first, at most limit.
func (s *Server) Workers(by Principal, limit int) (all []Worker) {
	s.workers.of(s.store.Now().Add(-workerGone), func(w *Worker) bool {
		for _, q := range w.Queues {
			if by.Sees(q) {
				all = append(all, *w)
				break
			}
		}
		return len(all) < limit
	})
	return all
}
