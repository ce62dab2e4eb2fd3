package jobserver

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	// tellEvery is the least time between two looks: what happened meanwhile is
	// told together.
	tellEvery = time.Second
	// tellLines bounds the lines of one look, of each type. A far side that dies takes
	// thousands of jobs along: the first ones say why, and hide no circuit that opens.
	tellLines = 20
	// tellPages bounds the events of one look, so that no look is long.
	tellPages = 20
	// tellAtMost bounds a text of an event in a line, in bytes.
	tellAtMost = 256
)

// toldAs says which events are lines of the log, how serious, and in which words.
// Of the others an operator made one himself, or is told elsewhere.
var toldAs = map[store.EventType]struct {
	level slog.Level
	text  string
}{
	store.JobFailed:       {slog.LevelWarn, "a job became a dead letter"},
	store.CircuitOpened:   {slog.LevelWarn, "a circuit opened"},
	store.CircuitClosed:   {slog.LevelInfo, "a circuit closed"},
	store.EndpointHeld:    {slog.LevelInfo, "an endpoint asked to be left alone"},
	store.QueuePaused:     {slog.LevelInfo, "a queue was paused"},
	store.QueueResumed:    {slog.LevelInfo, "a queue was resumed"},
	store.EndpointPaused:  {slog.LevelInfo, "an endpoint was paused"},
	store.EndpointResumed: {slog.LevelInfo, "an endpoint was resumed"},
	store.ReplayMoved:     {slog.LevelInfo, "a replay moved on"},
}

// teller writes what happened into the log, from the events of the store, which
// are there whether or not somebody reads them. It is one goroutine's.
type teller struct {
	server *Server
	after  int64 // the event that was told last
}

// step waits for events and tells them.
func (t *teller) step(ctx context.Context) (time.Duration, error) {
	s := t.server
	if err := s.store.AwaitEvents(ctx, t.after); err != nil {
		return 0, err
	}
	f := store.EventFilter{Types: slices.Collect(maps.Keys(toldAs))}
	count := map[store.EventType]int{}
	for range tellPages {
		read, err := s.store.Events(ctx, f, t.after, store.EventsPage)
		if err != nil {
			return 0, err
		}
		for _, e := range read.Events {
			if count[e.Type]++; count[e.Type] <= tellLines {
				as := toldAs[e.Type]
				s.log.LogAttrs(ctx, as.level, as.text, eventAttrs(e)...)
			}
		}
		t.after = read.Next
		if len(read.Events) == 0 {
			break
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		if more := count[kind] - tellLines; more > 0 {
			s.log.LogAttrs(ctx, toldAs[kind].level, "more of the same, which the events show", slog.String("event", string(kind)), slog.Int("count", more))
		}
	}
	return tellEvery, nil
}

// shortened bounds a text of a line.
func shortened(s string) string {
	if len(s) > tellAtMost {
		return strings.ToValidUTF8(s[:tellAtMost], "") + "…"
	}
	return s
}

// eventAttrs are what a line says of an event.
func eventAttrs(e store.Event) (all []slog.Attr) {
	add := func(name, text string) {
		if text != "" {
			all = append(all, slog.String(name, shortened(text)))
		}
	}
	add("job", e.Job)
	add("queue", e.Queue)
	add("task", e.Task)
	add("version", e.Version)
	add("endpoint", e.Endpoint)
	add("subject", e.Subject)
	var data struct {
		Reason string `json:"reason"`
		State  string `json:"state"`
		By     string `json:"by"`
		Why    string `json:"why"`
		Until  string `json:"held_until"`
		Retry  string `json:"retry_at"`
		Action string `json:"action"`
		// As it stands there: a line is for people.
		Filter  jsontext.Value `json:"filter"`
		Done    int64          `json:"done"`
		Skipped int64          `json:"skipped"`
		Error   struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(e.Data, &data) // the store wrote it; what can't be read says nothing
	add("reason", data.Reason)
	add("state", data.State)
	add("action", data.Action)
	add("filter", string(data.Filter))
	if data.Action != "" {
		all = append(all, slog.Int64("done", data.Done), slog.Int64("skipped", data.Skipped))
	}
	add("why", data.Why)
	add("by", data.By)
	add("until", data.Until)
	add("tries_at", data.Retry)
	add("error_type", data.Error.Type)
	add("error", data.Error.Message)
	return all
}
