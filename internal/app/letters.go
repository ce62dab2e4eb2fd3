package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/store"
)

// openLetters opens the store of dead letters, and returns what gives its place
// up after it was closed. It tells of open letters in the place where the
// configuration does not keep them any more.
func openLetters(c *config.Config, o EngineOptions) (letters deadletter.Store, unlock func() error, err error) {
	if c.DeadLetter.Type == config.DeadLetterStore {
		if err := tellOfFolder(lettersFolder(c), o.Log); err != nil {
			return nil, nil, err
		}
		return deadletter.NewRecords(o.Jobs.store, deadletter.RecordOptions{Log: o.Log}), func() error { return nil }, nil
	}
	if o.Jobs != nil {
		n, err := o.Jobs.store.CountLetters(context.Background(), store.LetterFilter{State: store.LetterOpen})
		if err != nil {
			return nil, nil, fmt.Errorf("dead letters in the job store: %w", err)
		}
		if n > 0 {
			o.Log.Warn("open dead letters are in the job store, where the configuration does not keep them: they stay; dead_letter: { type: store } shows them", "letters", n)
		}
	}
	lock, err := lockFolder("dead letter folder", lettersFolder(c), lettersLock)
	if err != nil {
		return nil, nil, err
	}
	files, err := deadletter.Open(lettersFolder(c), deadletter.Options{Log: o.Log})
	if err != nil {
		return nil, nil, errors.Join(err, lock.Release())
	}
	return files, lock.Release, nil
}

// tellOfFolder warns of open letters in a folder that is not used any more.
func tellOfFolder(folder string, log *slog.Logger) (err error) {
	if !fileThere(folder) {
		return nil
	}
	lock, err := lockFolder("dead letter folder", folder, lettersLock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	files, err := deadletter.Open(folder, deadletter.Options{Log: log})
	if err != nil {
		return err
	}
	if n := files.Stats().Open; n > 0 {
		log.Warn("open dead letters are in a folder, where the configuration does not keep them: they stay; dead_letter: { type: file } shows them",
			"folder", folder, "letters", n)
	}
	return files.Close()
}

// lettersFolder is where dead letters are kept in files. Where they go elsewhere
// it is the default folder: it may hold older ones.
func lettersFolder(c *config.Config) string {
	if c.DeadLetter.Type == config.DeadLetterFile {
		return c.DeadLetter.Path
	}
	return filepath.Join(c.State, "dead")
}

// lettersPlace names where dead letters are kept, for people.
func lettersPlace(c *config.Config) string {
	if c.DeadLetter.Type == config.DeadLetterStore {
		return "the job store"
	}
	return "the folder " + lettersFolder(c)
}

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
