package sqlite

import "sync/atomic"

// call is an operation on its way through the writer.
type call struct {
	// run does the operation's statements and sets its results anew each time:
	// after a rollback it runs again, alone. An error that it returns although
	// no statement failed is the operation's answer, and it has then changed
	// nothing.
	run   func(*tx) error
	bytes int
	place atomic.Int32 // a callPlace
	done  chan struct{}
	err   error
	// wait says that the operation goes on waiting once its group is committed.
	// The writer sets it.
	wait bool
	over bool // it was answered
}

type callPlace int32

const (
	callQueued callPlace = iota
	callTaken            // the writer has it: its end is worth waiting for
	callLeft             // its caller went away before the writer took it
)

func newCall(bytes int, run func(*tx) error) *call {
	return &call{run: run, bytes: bytes, done: make(chan struct{})}
}

// leave takes the operation back, unless the writer has it.
func (c *call) leave() (left bool) {
	return c.place.CompareAndSwap(int32(callQueued), int32(callLeft))
}

func (c *call) take() (taken bool) {
	return c.place.CompareAndSwap(int32(callQueued), int32(callTaken))
}

// end answers the operation, once.
func (c *call) end(err error) {
	if c.over {
		return
	}
	c.over, c.err = true, err
	close(c.done)
}
