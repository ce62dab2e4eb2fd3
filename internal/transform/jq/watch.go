package jq

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLimit is wrapped by the error of an evaluation that was cut.
var ErrLimit = errors.New("the program was cut")

// The bounds of one evaluation.
const (
	// MaxTime is a thousand times what an ordinary program takes, and little
	// enough that one worker in a runaway is not missed.
	MaxTime = 100 * time.Millisecond
	// MaxStall is when an evaluation is cut that made few steps in all that
	// time: it waits for a busy machine, or it is in native functions.
	MaxStall = time.Second
	// MaxSteps bounds the engine's steps where no time passes (virtual time in
	// tests). A second of real time does about 30 million.
	MaxSteps = 20_000_000
)

// fewSteps is what a program does in a few milliseconds of its own. One that
// did less in MaxTime was not given the processor: to cut it would turn a busy
// moment of the machine into dead letters.
const fewSteps = 100_000

// checkEvery is how many steps lie between two looks at the clock: some 10 µs
// of ordinary steps, and looking costs a hundredth of that.
const checkEvery = 256

// watch is the context that an evaluation runs under. The engine asks for Done
// before each of its steps; counting those needs no timer, which would cost
// more than most programs. It is used by one goroutine.
type watch struct {
	parent context.Context
	start  time.Time
	steps  int64
	built  int // bytes that operators made, of MaxBuilt
	done   chan struct{}
	err    error // set when done is closed
}

func newWatch(parent context.Context) *watch {
	return &watch{parent: parent, start: time.Now(), done: make(chan struct{})}
}

// Done counts a step and closes the channel once a bound is reached.
func (w *watch) Done() <-chan struct{} {
	if w.steps++; w.steps%checkEvery == 0 {
		w.look()
	}
	return w.done
}

// look ends the evaluation if a bound is reached.
func (w *watch) look() {
	if w.err != nil {
		return
	}
	took := time.Since(w.start)
	switch err := w.parent.Err(); {
	case err != nil:
		w.err = err
	case w.steps >= MaxSteps:
		w.err = fmt.Errorf("%w after %d steps", ErrLimit, w.steps)
	case took > MaxTime && w.steps > fewSteps, took > MaxStall:
		w.err = fmt.Errorf("%w after %v; does it loop without end?", ErrLimit, took.Round(time.Millisecond))
	}
	if w.err != nil {
		close(w.done)
	}
}

// spend counts n bytes that the program builds.
func (w *watch) spend(n int) error {
	if w.built += n; w.built > MaxBuilt {
		return fmt.Errorf("%w: it builds more than %d MiB", ErrLimit, MaxBuilt>>20)
	}
	return nil
}

// Err returns why the evaluation was cut, or nil.
func (w *watch) Err() error { return w.err }

// Deadline says that there is none: the bound is watched, not timed.
func (w *watch) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value returns nothing.
func (w *watch) Value(any) any { return nil }
