package config

import (
	"fmt"
	"path/filepath"

	"github.com/pawlhq/pawl/internal/core/retry"
)

// build makes the tree of what was written. It reports nothing: what is wrong
// is check's to say.
func (l *loader) build() *Config {
	w := &l.written
	c := &Config{
		Relay: w.Relay, State: w.State, ShutdownTimeout: w.ShutdownTimeout.D(),
		HTTP:   HTTP{Listen: w.HTTP.Listen, TLS: w.HTTP.TLS, Keys: w.HTTP.Keys},
		Log:    Log{Format: w.Log.Format, Access: AccessOff},
		Traces: Traces{Endpoint: w.Telemetry.Traces.Endpoint, SampleRatio: float64(w.Telemetry.Traces.SampleRatio), Headers: w.Telemetry.Traces.Headers},
	}
	if c.State == "" {
		c.State = "pawl-data"
		if len(l.files) > 0 {
			c.State = l.files[0].resolve(c.State)
		}
	}
	if c.HTTP.Listen == "off" {
		c.HTTP.Listen = ""
	}
	_ = c.Log.Level.UnmarshalText([]byte(w.Log.Level)) // the decoder lets only levels pass
	if w.Log.Access {
		c.Log.Access = AccessOn
	}
	for i := range l.sources {
		c.Sources = append(c.Sources, l.buildSource(&l.sources[i]))
	}
	for i := range l.routes {
		c.Routes = append(c.Routes, buildRoute(&l.routes[i]))
	}
	for i := range l.destinations {
		c.Destinations = append(c.Destinations, l.buildDestination(&l.destinations[i]))
	}
	for i := range l.stores {
		c.Stores = append(c.Stores, buildStore(&l.stores[i]))
	}
	for i := range l.notices {
		c.Notify = append(c.Notify, buildNotice(&l.notices[i]))
	}
	c.DeadLetter = l.buildDeadLetter(c.State)
	c.Jobs = l.buildJobs(c.State)
	return c
}

func (o origin) at() Place { return o.file.at(o.node) }

func (l *loader) buildSource(e *sourceEntry) Source {
	s := Source{
		Name: e.Name, Type: e.Type, MaxInFlight: e.MaxInFlight, MaxInFlightBytes: int64(e.MaxInFlightBytes),
		Unrouted: e.Unrouted, Ack: e.Ack, Dedupe: e.Dedupe.resolve(), Settings: e.settings, Digest: digest(e.settings), At: e.at(),
	}
	if s.Unrouted == "" {
		s.Unrouted = l.written.Unrouted
	}
	return s
}

func buildRoute(e *routeEntry) Route {
	r := Route{
		Name: e.Name, From: e.From, Filter: e.Filter, Transforms: transforms(e.Transforms), At: e.at(),
	}
	if e.Validate != nil {
		r.Schema = e.Validate.Schema
	}
	if e.To != nil {
		r.To = *e.To
	}
	if e.Router != nil {
		r.Routers = append(r.Routers, buildRouter(e, "router", &e.Router.writtenChoice))
		for i := range e.Router.Fallback {
			r.Routers = append(r.Routers, buildRouter(e, fmt.Sprintf("router.fallback[%d]", i), &e.Router.Fallback[i]))
		}
	}
	return r
}

func buildRouter(e *routeEntry, path string, w *writtenChoice) Router {
	r := Router{Type: w.Type, To: w.To, Match: w.Match, At: e.file.at(find(e.node, path))}
	if r.Type == RouterRules && r.Match == "" {
		r.Match = MatchFirst
	}
	for i, rule := range w.Rules {
		at := e.file.at(find(e.node, fmt.Sprintf("%s.rules[%d]", path, i)))
		r.Rules = append(r.Rules, Rule{When: rule.When, To: rule.To, At: at})
	}
	return r
}

// lettersIn is where dead letters are in a state folder, unless told.
func lettersIn(state string) string { return filepath.Join(state, "dead") }

func (l *loader) buildDeadLetter(state string) DeadLetter {
	w := &l.written.DeadLetter
	d := DeadLetter{
		Type: w.Type, Path: w.Path, Destination: w.Destination, Fallback: w.Fallback, Origin: Default,
		Retry: retry.Resolve(
			retry.Layer{Level: LevelBuiltIn, Overlay: retry.Overlay{Attempts: new(DefaultLetterAttempts)}},
			retry.Layer{Level: LevelDeadLetter, Overlay: w.Retry.overlay()},
		),
	}
	if d.Type == DeadLetterFile && d.Path == "" {
		d.Path = lettersIn(state)
	}
	if o, said := l.said["dead_letter"]; said {
		d.Origin, d.At = Said, o.at()
	}
	return d
}
