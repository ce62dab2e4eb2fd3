// Package stdio is the destinations of type stdout and stderr: a message a
// line, each line written whole. They store nothing: what reads the other end
// of the pipe may lose it.
package stdio

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Settings are a stdout or stderr destination's.
type Settings struct {
	Format connector.LineFormat `yaml:"format" doc:"plain: the body on a line; envelope: the whole message as one JSON object"`
}

// Check returns every problem of the settings.
func (s *Settings) Check() []connector.Problem {
	if text := s.Format.Check(); text != "" {
		return []connector.Problem{{Field: "format", Message: text}}
	}
	return nil
}

// DestinationKinds declares the destinations of type stdout and stderr.
func DestinationKinds() []connector.DestinationKind {
	return []connector.DestinationKind{kind("stdout", stdout), kind("stderr", stderr)}
}

// One stream each: all destinations that write to it share its turn.
var (
	stdout = connector.NewStream(os.Stdout)
	stderr = connector.NewStream(os.Stderr)
)

func kind(name string, to *connector.Stream) connector.DestinationKind {
	return connector.DestinationKind{
		Type: name,
		Doc:  "Writes a line for each message to pawl's " + name + ". A pipe is no store: what reads it may lose the line.",
		New:  func() connector.Settings { return &Settings{Format: connector.LinePlain} },
		Open: func(s connector.Settings, _ connector.Env) (connector.Destination, error) {
			return &destination{format: s.(*Settings).Format, to: to}, nil
		},
		Pipe: true, Batches: true,
	}
}

type destination struct {
	format connector.LineFormat
	to     *connector.Stream
	closed atomic.Bool
}

var errClosed = errors.New("the destination is closed")

// Send writes the message's line. The message's id goes with it in envelope
// format; plain lines have no place for it.
func (d *destination) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	line, err := d.format.Line(m)
	if err != nil {
		return connector.Answer{}, err
	}
	if d.closed.Load() {
		return connector.Answer{}, classify(errClosed)
	}
	// The line may be the message's own body: the newline goes to a copy.
	whole := append(append(make([]byte, 0, len(line)+1), line...), '\n')
	if err := d.to.Write(ctx, whole); err != nil {
		return connector.Answer{}, classify(err)
	}
	return connector.Answer{}, nil
}

// SendBatch implements connector.Batcher: one write for all lines. A message
// that can't be a line fails by itself.
func (d *destination) SendBatch(ctx context.Context, batch []*message.Message) (connector.BatchAnswer, error) {
	var (
		each   []error
		failed int
		whole  []byte
	)
	for i, m := range batch {
		line, err := d.format.Line(m)
		if err == nil {
			whole = append(append(whole, line...), '\n')
			continue
		}
		if each == nil {
			each = make([]error, len(batch))
		}
		each[i] = err
		failed++
	}
	if failed == len(batch) {
		return connector.BatchAnswer{Each: each}, nil
	}
	if d.closed.Load() {
		return connector.BatchAnswer{}, classify(errClosed)
	}
	if err := d.to.Write(ctx, whole); err != nil {
		return connector.BatchAnswer{}, classify(err)
	}
	return connector.BatchAnswer{Each: each}, nil
}

// Close stops further sends. The stream itself stays open: it is the process's.
func (d *destination) Close() error {
	d.closed.Store(true)
	return nil
}

func classify(err error) *failure.Error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: "nobody reads the other end in time", Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, errClosed):
		return &failure.Error{
			Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral,
			Message: "given up before the line was written", Err: err,
		}
	case errors.Is(err, syscall.EPIPE):
		return &failure.Error{
			Tags: failure.Tags{failure.Connect, "file", "file:EPIPE"}, Message: "nobody reads the other end any more", Err: err,
		}
	case errors.Is(err, syscall.ENOSPC):
		return &failure.Error{Tags: failure.Tags{"file", "file:ENOSPC"}, Message: "no space is left where the output goes", Err: err}
	}
	return &failure.Error{Tags: failure.Tags{"file", "file:EIO"}, Message: "writing failed: " + err.Error(), Err: err}
}
