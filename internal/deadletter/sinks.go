package deadletter

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/internal/core/message"
)

type destinationSink struct {
	name string
	send func(context.Context, *message.Message) error
}

func (d *destinationSink) Name() string { return d.name }

func (d *destinationSink) Write(ctx context.Context, l *message.DeadLetter) error {
	return errors.ErrUnsupported
}
