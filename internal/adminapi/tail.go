package adminapi

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// Line is one thing that happened, as the live view shows it.
type Line struct {
	At          time.Time    `json:"at"`
	Event       string       `json:"event"`
	ID          string       `json:"id,omitzero"`
	Source      string       `json:"source,omitzero"`
	Route       string       `json:"route,omitzero"`
	Destination string       `json:"destination,omitzero"`
	Endpoint    string       `json:"endpoint,omitzero"`
	To          string       `json:"to,omitzero"`
	Status      string       `json:"status,omitzero"`
	Attempts    int          `json:"attempts,omitzero"`
	Millis      float64      `json:"ms,omitzero"`
	Tags        failure.Tags `json:"tags,omitzero"`
	Error       string       `json:"error,omitzero"`
	// Missed counts the lines that this reader was too slow for before this one.
	Missed int64 `json:"missed,omitzero"`
}

// Watch says which events a reader of the live view wants.
type Watch uint8

// What can be watched.
const (
	WatchSettled Watch = iota // one line a message
	WatchAll                  // attempts, hops, breakers and levers too
)

// tailBuffer is how many lines a slow reader may lag behind before lines are
// missed: a second of a busy relay.
const tailBuffer = 4096

// Tail hands events to those who watch. Safe for concurrent use.
type Tail struct {
	watched atomic.Int32 // readers, so that an event costs nothing with none

	mu      sync.Mutex
	readers map[*reader]struct{}
}

type reader struct {
	watch  Watch
	lines  chan Line
	missed int64 // guarded by Tail.mu
}

// NewTail returns a Tail that nobody watches yet.
func NewTail() *Tail { return &Tail{readers: map[*reader]struct{}{}} }

// Observe is an event.Sink: it never blocks.
func (t *Tail) Observe(e event.Event) {
	if t.watched.Load() == 0 {
		return
	}
	line, settled := lineOf(e)
	if line.Event == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.readers {
		if r.watch == WatchSettled && !settled {
			continue
		}
		line.Missed = r.missed
		select {
		case r.lines <- line:
			r.missed = 0
		default:
			r.missed++
		}
	}
}

// Watch returns a channel of lines and a function that ends it.
func (t *Tail) Watch(w Watch) (<-chan Line, func()) {
	r := &reader{watch: w, lines: make(chan Line, tailBuffer)}
	t.mu.Lock()
	t.readers[r] = struct{}{}
	t.mu.Unlock()
	t.watched.Add(1)
	return r.lines, sync.OnceFunc(func() {
		t.watched.Add(-1)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.readers, r)
	})
}

// lineOf makes the line of an event; one without a name is not shown. settled
// says that it is the end of a message.
func lineOf(e event.Event) (l Line, settled bool) {
	l = Line{
		At: e.At, ID: e.MessageID, Source: e.Source, Route: e.Route, Destination: e.Destination,
		Attempts: e.Number, Millis: float64(e.Took.Microseconds()) / 1000, Tags: e.Tags, Error: e.Error,
	}
	switch e.Kind {
	case event.Settled:
		l.Event, l.Status = "settled", string(e.Settlement)
		return l, true
	case event.AttemptEnded:
		l.Event, l.Status, l.Endpoint = "attempt", string(e.Outcome), e.Endpoint
	case event.Hopped:
		l.Event, l.Status, l.To = "hop", string(e.Hop), e.To
	case event.BreakerMoved:
		l.Event, l.Status, l.Endpoint = "breaker", e.Breaker.String(), e.Endpoint
	case event.HealthMoved:
		l.Event, l.Status, l.Endpoint = "health", e.Health.String(), e.Endpoint
	case event.StoreFailed:
		l.Event, l.Destination, l.Status = "store_failed", e.Name, e.Detail
	case event.Alerted:
		l.Event, l.Status = "alert", string(e.Alert)
	case event.HoldSet:
		l.Event, l.Endpoint = "hold", e.Endpoint
	case event.Lettered:
		l.Event, l.Status = "dead_letter", string(e.Reason)
	case event.LetterFailed:
		l.Event, l.Status = "dead_letter_failed", string(e.Reason)
	case event.BestEffortDropped:
		l.Event = "dropped"
	case event.Deferred:
		l.Event = "deferred"
	case event.LeaseLost:
		l.Event, l.Status = "lease_lost", e.Detail
	case event.SourceUp:
		l.Event = "source_up"
	case event.SourceDown:
		l.Event = "source_down"
	case event.Reloaded:
		l.Event = "reloaded"
	case event.LeverPulled:
		l.Event, l.Destination, l.Status = "lever", e.Name, e.Detail
	case event.Delivered, event.DeliveryFailed, event.ConnectionRetried, event.RouterFellBack, event.Raced, event.BatchSent, event.NoKey,
		event.StoreSkipped:
		return Line{}, false // told by the lines around them
	}
	return l, false
}
