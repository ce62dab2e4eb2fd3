package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
)

// maxLines bounds a story.
const maxLines = 20_000

// story is what happened, a line each, in order.
type story struct {
	began time.Time
	mu    sync.Mutex
	lines []line
}

type line struct{ id, text string }

// tell adds a line. id is the message it is about, "" for none.
func (s *story) tell(id, format string, args ...any) {
	at := time.Since(s.began)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) < maxLines {
		s.lines = append(s.lines, line{id, fmt.Sprintf("%9.3fs  %s", at.Seconds(), fmt.Sprintf(format, args...))})
	}
}

// happened tells an event.
func (s *story) happened(e event.Event) {
	switch e.Kind {
	case event.AttemptEnded:
		s.tell(e.MessageID, "%s: attempt %d at %s %s after %v (waited %v) %s", e.MessageID, e.Number, e.Endpoint, e.Outcome, e.Took, e.Waited, e.Error)
	case event.Hopped:
		s.tell(e.MessageID, "%s: left %s for %q, %s: %s", e.MessageID, e.Destination, e.To, e.Hop, e.Error)
	case event.Delivered:
		s.tell(e.MessageID, "%s: delivered for %s at %s (%s)", e.MessageID, e.Destination, e.Endpoint, e.Route)
	case event.DeliveryFailed:
		s.tell(e.MessageID, "%s: not delivered for %s (%s)", e.MessageID, e.Destination, e.Route)
	case event.Deferred:
		s.tell(e.MessageID, "%s: put off for %v at %s (%s): %s", e.MessageID, e.Waited, e.Destination, e.Route, e.Error)
	case event.BestEffortDropped:
		s.tell(e.MessageID, "%s: best effort to %s given up: %s", e.MessageID, e.Destination, e.Error)
	case event.BreakerMoved:
		s.tell("", "the breaker of %s is %v since %v", e.Endpoint, e.Breaker, e.At.Sub(s.began))
	case event.HealthMoved:
		s.tell("", "%s is %v: %s", e.Endpoint, e.Health, e.Error)
	case event.Raced:
		s.tell(e.MessageID, "%s: a race at %s with %d hedges was won by: %s", e.MessageID, e.Destination, e.Number, e.Race)
	case event.HoldSet:
		s.tell("", "%s is held for %v", e.Endpoint, e.Took)
	case event.Lettered:
		s.tell(e.MessageID, "%s: dead letter %s for %s (%s)", e.MessageID, e.Letter, e.Destination, e.Route)
	case event.LetterFailed:
		s.tell(e.MessageID, "%s: no dead letter for %s: %s", e.MessageID, e.Destination, e.Error)
	case event.Settled:
		s.tell(e.MessageID, "%s: settled %s after %v %s", e.MessageID, e.Settlement, e.Took, e.Error)
	case event.SourceUp, event.SourceDown, event.LeaseLost, event.ConnectionRetried, event.LeverPulled, event.Reloaded, event.RouterFellBack,
		event.BatchSent, event.NoKey, event.StoreFailed, event.StoreSkipped, event.Alerted:
	}
}

// about returns the lines about the messages, and those about none. Without
// messages it is the whole story.
func (s *story) about(ids map[string]bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, l := range s.lines {
		if l.id == "" || len(ids) == 0 || ids[l.id] {
			b.WriteString(l.text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
