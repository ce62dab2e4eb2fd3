package deadletter

import (
	"context"
	"errors"
	"io"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// Sink is somewhere a letter can be kept. Safe for concurrent use.
type Sink interface {
	// Name is the destination's name, or "file" for the store.
	Name() string
	// Write returns nil once the letter is safe there.
	Write(ctx context.Context, l *message.DeadLetter) error
}

// NewDestinationSink returns a sink that hands letters to send, which brings a
// message to a destination over its whole path. The message's body is the
// letter's written form, one JSON object, so that nothing of its story is lost
// whatever the protocol; its id is the letter's, so that two letters of one
// message are two messages.
func NewDestinationSink(name string, send func(context.Context, *message.Message) error) Sink {
	return &destinationSink{name, send}
}

// WriterOptions say where letters go.
type WriterOptions struct {
	// Primary is tried first, as often as Retry says.
	Primary Sink
	// Fallback are tried once each, in order, after it.
	Fallback []Sink
	// Retry is the policy of Primary.
	Retry retry.Policy
	// Events takes Lettered and LetterFailed; nil drops them.
	Events event.Sink
	// Notice, where set, gets a line for each stored letter with its id and
	// error, never its body.
	Notice io.Writer
	// Rand returns the random number of a jittered wait, in [0, 1); nil is the
	// process's own source.
	Rand func() float64
}

// ErrNotStored is what Write returns when no sink took the letter.
var ErrNotStored = errors.New("the dead letter could be stored nowhere")

// Writer takes letters down the write chain. Safe for concurrent use.
type Writer struct{ o WriterOptions }

// NewWriter makes a writer.
func NewWriter(o WriterOptions) *Writer { return &Writer{o} }

// Write keeps the letter in the first sink that takes it. It gives the letter
// an id where it has none. An error is ErrNotStored with each sink's own: the
// caller must nack. ctx bounds the whole; its end while nothing took the letter
// is such an error too, so hand in one that a stopping source does not end.
func (w *Writer) Write(ctx context.Context, l *message.DeadLetter) error {
	return errors.ErrUnsupported
}
