package alert

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Event is what an alert can be about, as configurations and alerts name it.
type Event string

// The events.
const (
	DeadLetter       Event = "dead_letter"        // one was stored
	DeadLetterFailed Event = "dead_letter_failed" // one could be stored nowhere: its source was told to send again
	CircuitOpen      Event = "circuit_open"       // a breaker that was closed opened
	CircuitClosed    Event = "circuit_closed"     // a breaker closed
	Unrouted         Event = "unrouted"           // no route took a message, which was acked
	SourceDown       Event = "source_down"        // a source can take no messages
)

// Events returns every event.
func Events() []Event {
	return []Event{DeadLetter, DeadLetterFailed, CircuitOpen, CircuitClosed, Unrouted, SourceDown}
}

// Rule says who is told of what.
type Rule struct {
	On []Event
	// To names destinations.
	To []string
	// Every is how often one subject's events are told of. Above zero.
	Every time.Duration
}

// Fact is one thing that happened, as an alert tells of it. What does not apply
// is empty.
type Fact struct {
	Event       Event
	At          time.Time
	Destination string
	Endpoint    string
	Route       string
	Source      string
	Reason      message.Reason
	Error       string
	MessageID   string
}

// FactOf returns what e says that an alert can be about, and whether it does.
func FactOf(e event.Event) (Fact, bool) {
	f := Fact{At: e.At}
	switch e.Kind {
	case event.Lettered:
		f.Event = DeadLetter
		f.ofLetter(e)
	case event.LetterFailed:
		f.Event = DeadLetterFailed
		f.ofLetter(e)
	case event.BreakerMoved:
		// One that opens again after a failed trial was open all the time.
		switch {
		case e.Breaker == event.BreakerOpen && e.BreakerFrom == event.BreakerClosed:
			f.Event = CircuitOpen
		case e.Breaker == event.BreakerClosed:
			f.Event = CircuitClosed
		default:
			return Fact{}, false
		}
		f.Destination, f.Endpoint = e.Destination, e.Endpoint
	case event.Settled:
		if e.Settlement != event.SettledUnrouted {
			return Fact{}, false
		}
		f.Event, f.Source, f.MessageID = Unrouted, e.Source, e.MessageID
	case event.SourceDown:
		f.Event, f.Source, f.Error = SourceDown, e.Source, failure.Clip(e.Error)
	default:
		return Fact{}, false
	}
	return f, true
}

// ofLetter fills in what a dead letter says. One of a route has no destination;
// one that no route took has neither, and its source is its subject.
func (f *Fact) ofLetter(e event.Event) {
	f.Route, f.Reason, f.Error, f.MessageID = e.Route, e.Reason, failure.Clip(e.Error), e.MessageID
	if e.Reason == message.ReasonDelivery {
		f.Destination = e.Destination
	}
	if f.Destination == "" && f.Route == "" {
		f.Source = e.Source
	}
}

// subject is what facts are counted by beside their event. The names of
// destinations, routes and sources are not one space.
type subject struct{ kind, name string }

func (f *Fact) subject() subject {
	switch {
	case f.Destination != "":
		return subject{"destination", f.Destination}
	case f.Route != "":
		return subject{"route", f.Route}
	}
	return subject{"source", f.Source}
}

// Alert is one message about one or several facts.
type Alert struct {
	// Fact is the last of them.
	Fact
	// To is the destination that it goes to.
	To string
	// Since is when the first of them was, Count how many there are.
	Since time.Time
	Count int
}

// avoid names what the alert must not reach, over no fallback either: the
// destination that it is about.
func (a *Alert) avoid() []string {
	if a.Destination == "" {
		return nil
	}
	return []string{a.Destination}
}
