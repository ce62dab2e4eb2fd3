package app

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// maxLogQueue is how many log lines may wait for whoever reads them: more
	// than a pipe holds, and at most 16 MiB of the longest lines.
	maxLogQueue = 4096
	// logFlush is how long a stop waits for the last lines to be read.
	logFlush = time.Second
)

// logQueue is a writer of whole lines that never blocks: a terminal that was
// paused or a collector that fell asleep must hold up no message and no stop.
// Lines that nobody reads in time are left out and counted. Safe for concurrent
// use.
type logQueue struct {
	out  io.Writer
	done chan struct{}

	mu     sync.Mutex
	queue  chan []byte // closed by close
	closed bool
	lost   int
}

func newLogQueue(out io.Writer) *logQueue {
	q := &logQueue{out: out, queue: make(chan []byte, maxLogQueue), done: make(chan struct{})}
	go q.write()
	return q
}

// Write queues one line. It keeps nothing of b and never fails.
func (q *logQueue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return len(b), nil
	}
	select {
	case q.queue <- append([]byte(nil), b...):
	default:
		q.lost++
	}
	return len(b), nil
}

func (q *logQueue) write() {
	defer close(q.done)
	for line := range q.queue {
		_, _ = q.out.Write(line) // there is nobody to tell that the log can't be written
		if n := q.takeLost(); n > 0 {
			_, _ = fmt.Fprintf(q.out, "pawl: %d log lines were left out: nobody read them in time\n", n)
		}
	}
}

func (q *logQueue) takeLost() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.lost
	q.lost = 0
	return n
}

// close waits until the lines were written, at most logFlush. What is written
// to it later is dropped.
func (q *logQueue) close() error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.queue)
	}
	q.mu.Unlock()
	t := time.NewTimer(logFlush)
	defer t.Stop()
	select {
	case <-q.done:
	case <-t.C:
	}
	return nil
}
