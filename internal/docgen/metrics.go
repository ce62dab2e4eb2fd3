package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// specimen is the value of the labels that say what a user has named.
const specimen = "specimen"

// hops are the reasons for going on to a fallback; pawl_fallback_total has no
// series of a reason before its first.
var hops = []message.HopReason{
	message.HopExhausted, message.HopPermanent, message.HopBreakerOpen, message.HopBudget,
	message.HopDeadline, message.HopFull, message.HopCancelled,
}

// metrics returns the reference of the metrics as Markdown: a telemetry with
// one of everything is asked for what it has.
func metrics() ([]byte, error) {
	families, err := exemplary().Gatherer().Gather()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nAt `/metrics` of the admin address (`http.listen`), in the Prometheus text format or OpenMetrics. " +
		"Beside these\nthere are the usual ones of the Go runtime and the process (`go_…`, `process_…`). A label with values after it\n" +
		"has no others; the values of the rest are the names in your configuration.\n\n" +
		"| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "pawl_") {
			continue
		}
		labels := labelSet{values: map[string][]string{}}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels.add(l.GetName(), l.GetValue())
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), &labels, f.GetHelp())
	}
	return []byte(b.String()), nil
}

// exemplary returns a telemetry in which every family has its series.
func exemplary() *telemetry.Telemetry {
	t := telemetry.New(telemetry.Options{
		Version: specimen, Revision: specimen, StateFolder: ".", StoreFolder: ".",
		Snapshot: func() telemetry.State {
			return telemetry.State{
				Sources:   []telemetry.SourceState{{Name: specimen}},
				Lanes:     []telemetry.LaneState{{Destination: specimen, RetriesLeft: new(0)}},
				Endpoints: []telemetry.EndpointState{{Destination: specimen, Name: specimen, Health: event.Healthy}},
				Jobs: &telemetry.JobState{
					Queues:   []telemetry.QueueState{{Name: specimen}},
					Finished: map[string]map[job.Status]int64{specimen: {}},
				},
			}
		},
	})
	t.SetTopology(telemetry.Topology{
		Sources:      []string{specimen},
		Destinations: []telemetry.Destination{{Name: specimen, Endpoints: []string{specimen}}},
		Routes:       []telemetry.Route{{Name: specimen, Fallbacks: []string{"rules", "static"}}},
		Stores:       []string{specimen},
	})
	for _, reason := range hops {
		t.Observe(event.Event{Kind: event.Hopped, Destination: specimen, To: specimen, Hop: reason})
	}
	t.Observe(event.Event{Kind: event.Raced, Destination: specimen, Race: event.RaceFirst})
	t.Observe(event.Event{Kind: event.BatchSent, Destination: specimen, Number: 1})
	return t
}

// labelSet is a family's labels in their order, with the values of those that
// have a closed set.
type labelSet struct {
	names  []string
	values map[string][]string
}

func (s *labelSet) add(name, value string) {
	if !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	// The Go version is that of whoever generates.
	if value != specimen && name != "goversion" && !slices.Contains(s.values[name], value) {
		s.values[name] = append(s.values[name], value)
	}
}

// String writes the labels as a cell of the table.
func (s *labelSet) String() string {
	var cells []string
	for _, name := range s.names {
		cell := "`" + name + "`"
		if known := s.values[name]; len(known) > 0 {
			cell += " (`" + strings.Join(slices.Sorted(slices.Values(known)), "`, `") + "`)"
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, ", ")
}
