package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// levelOf returns the level of e's line, or false where it has none.
func levelOf(e event.Event) (slog.Level, bool) {
	switch e.Kind {
	case event.LetterFailed:
		return slog.LevelError, true
	case event.DeliveryFailed:
		return slog.LevelWarn, e.Required // the line of best effort is BestEffortDropped's
	case event.BestEffortDropped, event.SourceDown, event.LeaseLost:
		return slog.LevelWarn, true
	case event.Lettered:
		if e.Reason == message.ReasonDelivery {
			return slog.LevelInfo, true // its DeliveryFailed was the warning
		}
		return slog.LevelWarn, true
	case event.BreakerMoved:
		if e.Breaker == event.BreakerOpen {
			return slog.LevelWarn, true
		}
		return slog.LevelInfo, true
	case event.Reloaded:
		if e.Error != "" {
			return slog.LevelError, true
		}
		return slog.LevelInfo, true
	case event.HealthMoved:
		if e.Health == event.Unhealthy {
			return slog.LevelWarn, true
		}
		return slog.LevelInfo, true
	case event.StoreFailed:
		return slog.LevelWarn, true
	case event.Alerted:
		if e.Alert == event.AlertSent {
			return slog.LevelDebug, true
		}
		return slog.LevelWarn, true
	case event.SourceUp, event.HoldSet, event.LeverPulled:
		return slog.LevelInfo, true
	case event.Hopped, event.Deferred, event.RouterFellBack, event.ConnectionRetried, event.Raced, event.NoKey:
		return slog.LevelDebug, true
	case event.AttemptEnded:
		return slog.LevelDebug, e.Outcome != message.OutcomeOK
	case event.Delivered, event.Settled, event.BatchSent, event.StoreSkipped:
		return 0, false // Settled is the access log's
	}
	return 0, false
}

// texts are the messages of the lines: what people search for, so they stay.
var texts = map[event.Kind]string{
	event.AttemptEnded:      "attempt failed",
	event.Hopped:            "destination left",
	event.DeliveryFailed:    "delivery failed",
	event.Deferred:          "delivery deferred",
	event.LeaseLost:         "lease lost while delivering",
	event.BestEffortDropped: "best-effort delivery dropped",
	event.BreakerMoved:      "breaker moved",
	event.HoldSet:           "endpoint held",
	event.Lettered:          "dead letter stored",
	event.LetterFailed:      "dead letter could not be stored",
	event.Settled:           "settled",
	event.SourceUp:          "source up",
	event.SourceDown:        "source down",
	event.ConnectionRetried: "request sent again on a fresh connection",
	event.LeverPulled:       "changed at run time",
	event.RouterFellBack:    "router did not decide",
	event.Reloaded:          "configuration loaded",
	event.Raced:             "hedged",
	event.HealthMoved:       "health moved",
	event.NoKey:             "no key to know a repeat by",
	event.StoreFailed:       "store failed; going on without it",
	event.Alerted:           "alert sent",
}

// textOf returns the message of e's line.
func textOf(e event.Event) string {
	if e.Kind == event.Reloaded && e.Error != "" {
		return "configuration refused"
	}
	switch {
	case e.Kind != event.Alerted:
	case e.Alert == event.AlertFailed:
		return "alert failed"
	case e.Alert == event.AlertDropped:
		return "alert dropped"
	}
	return texts[e.Kind]
}

// subjectOf returns what e's lines are counted by: its kind, and what of the
// configuration it is about.
func subjectOf(e event.Event) subject {
	for _, name := range []string{e.Destination, e.Source, e.Route} {
		if name != "" {
			return subject{textOf(e), name}
		}
	}
	return subject{textOf(e), e.Name}
}

// write writes e's line with its own time. Fields that e does not have are
// left out.
func (l *EventLog) write(e event.Event) {
	level, _ := levelOf(e)
	at := e.At
	if at.IsZero() {
		at = time.Now()
	}
	r := slog.NewRecord(at, level, textOf(e), 0)
	text := func(key, value string) {
		if value != "" {
			r.AddAttrs(slog.String(key, value))
		}
	}
	text("id", e.MessageID)
	text("source", e.Source)
	text("route", e.Route)
	text("destination", e.Destination)
	if e.Endpoint != e.Destination {
		text("endpoint", e.Endpoint)
	}
	text("to", e.To)
	switch e.Kind {
	case event.Settled:
		r.AddAttrs(slog.String("status", string(e.Settlement)), slog.Int("tries", e.Number), millis("ms", e.Took))
	case event.DeliveryFailed:
		r.AddAttrs(slog.Int("tries", e.Number), millis("ms", e.Took))
	case event.Deferred:
		r.AddAttrs(slog.Int("tries", e.Number), slog.Duration("for", e.Waited))
	case event.AttemptEnded:
		r.AddAttrs(slog.String("outcome", string(e.Outcome)), slog.Int("attempt", e.Number), millis("ms", e.Took))
		if e.Hedge {
			r.AddAttrs(slog.Bool("hedge", true))
		}
	case event.HealthMoved:
		r.AddAttrs(slog.String("state", e.Health.String()))
	case event.Raced:
		r.AddAttrs(slog.String("won", string(e.Race)), slog.Int("hedges", e.Number))
	case event.Alerted:
		r.AddAttrs(slog.Int("events", e.Number))
	case event.BreakerMoved:
		r.AddAttrs(slog.String("state", e.Breaker.String()))
	case event.HoldSet:
		r.AddAttrs(slog.Duration("for", e.Took))
	case event.Reloaded:
		if e.Error == "" {
			r.AddAttrs(slog.Int("generation", e.Number))
		}
	default:
	}
	text("hop", string(e.Hop))
	text("reason", string(e.Reason))
	text("letter", e.Letter)
	text("name", e.Name)
	text("detail", e.Detail)
	text("tags", e.Tags.String())
	text("error", e.Error)
	// A log that can't be written has nowhere to say so.
	_ = l.log.Handler().Handle(context.Background(), r)
}

// millis is d in milliseconds with three digits behind the point.
func millis(key string, d time.Duration) slog.Attr {
	return slog.Float64(key, float64(d.Microseconds())/1000)
}
