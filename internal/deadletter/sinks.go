package deadletter

import (
	"context"
	"fmt"
	"io"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
)

// NewDestinationSink returns a sink that hands letters to send, which brings a
// message to a destination over its whole path. The message's body is the
// letter's written form, one JSON object, so that nothing of its story is lost
// whatever the protocol; its id is the letter's, so that two letters of one
// message are two messages.
func NewDestinationSink(name string, send func(context.Context, *message.Message) error) Sink {
	return &destinationSink{name, send}
}

type destinationSink struct {
	name string
	send func(context.Context, *message.Message) error
}

func (d *destinationSink) Name() string { return d.name }

func (d *destinationSink) Write(ctx context.Context, l *message.DeadLetter) error {
	line, err := message.EncodeLetter(l)
	if err != nil {
		return err
	}
	return d.send(ctx, &message.Message{
		ID: l.Letter, Source: l.Message.Source, Time: l.At, Key: l.Message.Key,
		ContentType: "application/json", Body: line,
	})
}

// NewStreamSink returns a sink that writes letters to w (stdout, stderr), a
// line each, one at a time. The end of ctx ends the wait for a reader that does
// not read; a line that was begun may still come out.
func NewStreamSink(name string, w io.Writer) Sink {
	return &streamSink{name, connector.NewStream(w)}
}

type streamSink struct {
	name string
	to   *connector.Stream
}

func (s *streamSink) Name() string { return s.name }

func (s *streamSink) Write(ctx context.Context, l *message.DeadLetter) error {
	line, err := message.EncodeLetter(l)
	if err != nil {
		return err
	}
	// A pipe that nobody reads must not hold a message for ever.
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := s.to.Write(ctx, append(line, '\n')); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("nobody reads it: %w", err)
		}
		return err
	}
	return nil
}
