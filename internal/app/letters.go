package app

import (
	"context"
	"fmt"
	"os"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
)

// newWriter makes the write chain that the configuration says. The caller holds
// e.mu.
func (e *Engine) newWriter(c *config.Config, set *deliver.Set) *deadletter.Writer {
	o := deadletter.WriterOptions{Primary: e.letters, Retry: c.DeadLetter.Retry, Events: e.opts.Events}
	if c.DeadLetter.Type == config.DeadLetterDestination {
		o.Primary = e.sinkTo(set, c.DeadLetter.Destination)
	}
	for _, name := range c.DeadLetter.Fallback {
		o.Fallback = append(o.Fallback, e.fallbackSink(set, name))
	}
	if c.DeadLetter.Origin == config.Default {
		o.Notice = e.opts.Stderr
	}
	return deadletter.NewWriter(o)
}

// fallbackSink returns the sink of a name: a destination, or one of the words
// stdout and stderr.
func (e *Engine) fallbackSink(set *deliver.Set, name string) deadletter.Sink {
	if _, ok := set.Destination(name); ok {
		return e.sinkTo(set, name)
	}
	out := os.Stdout
	if name == "stderr" {
		out = os.Stderr
	}
	return deadletter.NewStreamSink(name, out)
}

// sinkTo returns the sink that brings letters to a destination over its whole
// path. A letter about a message is no message of a route: where it fails it
// becomes no further letter. It waits neither at an open breaker nor long for a
// place: behind it stand the next try, the fallbacks and the nack.
func (e *Engine) sinkTo(set *deliver.Set, name string) deadletter.Sink {
	d, _ := set.Destination(name) // the configuration was checked
	return deadletter.NewDestinationSink(name, func(ctx context.Context, m *message.Message) error {
		place, err := d.EnterBriefly(ctx)
		if err != nil {
			return fmt.Errorf("destination %s: its lane had no place in time: %w", name, err)
		}
		res := d.Deliver(ctx, deliver.Request{Message: m, Place: place, WhenOpen: deliver.FailWhenOpen})
		if res.Status == deliver.Delivered {
			return nil
		}
		_, why := res.Last()
		return fmt.Errorf("destination %s: %s", name, why)
	})
}
