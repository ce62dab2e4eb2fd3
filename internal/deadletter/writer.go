package deadletter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
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
	// error, never its body. It may block: nobody waits for it.
	Notice io.Writer
	// Rand returns the random number of a jittered wait, in [0, 1); nil is the
	// process's own source.
	Rand func() float64
}

// ErrNotStored is what Write returns when no sink took the letter.
var ErrNotStored = errors.New("the dead letter could be stored nowhere")

// Writer takes letters down the write chain. Safe for concurrent use.
type Writer struct {
	o      WriterOptions
	notice *notice
}

// NewWriter makes a writer.
func NewWriter(o WriterOptions) *Writer {
	if o.Events == nil {
		o.Events = event.Discard
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	w := &Writer{o: o}
	if o.Notice != nil {
		w.notice = &notice{w: o.Notice}
	}
	return w
}

// Write keeps the letter in the first sink that takes it. It gives the letter
// an id where it has none. An error is ErrNotStored with each sink's own: the
// caller must nack. ctx bounds the whole; its end while nothing took the letter
// is such an error too, so hand in one that a stopping source does not end.
func (w *Writer) Write(ctx context.Context, l *message.DeadLetter) error {
	if l.Letter == "" {
		l.Letter = NewID(time.Now())
	}
	ev := event.Event{
		Kind: event.Lettered, Reason: l.Reason, Destination: l.Destination, Route: l.Route,
		Source: l.Message.Source, MessageID: l.Message.ID, Letter: l.Letter, Error: l.Error, Tags: l.Tags,
	}
	err := w.write(ctx, l)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrNotStored, err)
		ev.Kind, ev.Error = event.LetterFailed, fmt.Sprintf("%v; it had died of: %s", err, l.Error)
	} else if w.notice != nil {
		w.notice.tell(l)
	}
	ev.At = time.Now()
	w.o.Events(ev)
	return err
}

func (w *Writer) write(ctx context.Context, l *message.DeadLetter) error {
	err := w.primary(ctx, l)
	if err == nil {
		return nil
	}
	failed := []error{err}
	for _, sink := range w.o.Fallback {
		if err := sink.Write(ctx, l); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", sink.Name(), err))
			continue
		}
		return nil
	}
	return joined(failed)
}

// primary writes to the first sink, as often as the policy says.
func (w *Writer) primary(ctx context.Context, l *message.DeadLetter) error {
	for attempt := 1; ; attempt++ {
		err := w.o.Primary.Write(ctx, l)
		if err == nil {
			return nil
		}
		d := w.o.Retry.Decide(failure.From(err), attempt, w.o.Rand())
		if d.Verdict != retry.Again || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", w.o.Primary.Name(), err)
		}
		timer := time.NewTimer(d.Wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w", w.o.Primary.Name(), err)
		}
	}
}

// joined is errors.Join on one line: the text goes into events and answers.
func joined(errs []error) error {
	err := errs[0]
	for _, next := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, next)
	}
	return err
}
