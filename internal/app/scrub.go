package app

import (
	"slices"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// What a connector says of its failures must hold no secret. The following is
// the last line of defence where one does: nothing that is stored, streamed or
// answered has the text of an error as it came.

// scrubEvents returns a sink that hands events on with their errors redacted.
// Events without an error, which are almost all, cost a comparison.
func scrubEvents(redact func(string) string, next event.Sink) event.Sink {
	return func(e event.Event) {
		if e.Error != "" {
			e.Error = redact(e.Error)
		}
		next(e)
	}
}

// scrubError returns an error that says the same without secrets and is, to
// errors.Is and errors.As, what err is.
func scrubError(redact func(string) string, err error) error {
	if err == nil {
		return nil
	}
	if text := redact(err.Error()); text != err.Error() {
		return &scrubbedError{text, err}
	}
	return err
}

type scrubbedError struct {
	text string
	of   error
}

func (e *scrubbedError) Error() string { return e.text }
func (e *scrubbedError) Unwrap() error { return e.of }

// scrubDeath returns d with its errors redacted. It changes nothing that d
// shares with others.
func scrubDeath(redact func(string) string, d message.Death) message.Death {
	d.Error = redact(d.Error)
	d.Hops = scrubHops(redact, d.Hops)
	d.Replays = slices.Clone(d.Replays)
	for i := range d.Replays {
		d.Replays[i] = scrubDeath(redact, d.Replays[i])
	}
	return d
}

// scrubHops returns a copy of hops with their errors redacted.
func scrubHops(redact func(string) string, hops []message.Hop) []message.Hop {
	hops = slices.Clone(hops)
	for i := range hops {
		h := &hops[i]
		h.Error = redact(h.Error)
		h.Attempts = slices.Clone(h.Attempts)
		for j := range h.Attempts {
			h.Attempts[j].Error = redact(h.Attempts[j].Error)
		}
	}
	return hops
}
