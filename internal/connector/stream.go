package connector

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Stream writes lines to a pipe or a terminal, one at a time. It is no store:
// what reads the other end may lose them. Safe for concurrent use.
type Stream struct {
	w    io.Writer
	turn chan struct{} // holds one token: whose turn it is
}

// NewStream returns a Stream to w, which nobody else should write to.
func NewStream(w io.Writer) *Stream {
	s := &Stream{w: w, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// Write writes the line, its newline included, and returns once it is out or
// ctx ends. A line that was begun is finished all the same, and nobody else's
// turn comes before: a reader that does not read holds up one goroutine, however
// many lines wait. The bytes must not change afterwards.
func (s *Stream) Write(ctx context.Context, line []byte) error {
	if err := ctx.Err(); err != nil {
		return err // not left to the chance of select
	}
	if s.w == os.Stdout || s.w == os.Stderr {
		surviveClosedPipes()
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.w.Write(line)
		s.turn <- struct{}{}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// surviveClosedPipes makes a reader of standard output or standard error that
// went away an error of the write. Go makes it the end of the process, as long
// as nobody writes messages there.
var surviveClosedPipes = sync.OnceFunc(func() { signal.Ignore(syscall.SIGPIPE) })
