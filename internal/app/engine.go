package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/relay"
)

// EngineOptions are what an Engine works with.
type EngineOptions struct {
	// Registry holds the kinds.
	Registry *connector.Registry
	// Events takes what happens.
	Events event.Sink
	// Log is never nil.
	Log *slog.Logger
	// Stderr gets a line for each dead letter where the configuration says
	// nothing of dead letters.
	Stderr io.Writer
	// Redact takes the secrets out of a text that is stored or answered; never
	// nil.
	Redact func(string) string
	// Jobs is what destinations of type queue and dead letters of type store
	// work on; nil where the configuration has none.
	Jobs *Jobs
	// Trace follows messages; nil is free.
	Trace *Tracing
	// Wrap replaces the connector of each endpoint, for faults on purpose; nil
	// leaves each as it is.
	Wrap WrapFunc
	// Drained is called by Stop when the last message has ended and the lanes are
	// open still; nil is nobody.
	Drained func(context.Context)
}

// WrapFunc returns what is to stand in for the connector of an endpoint: a
// plain destination, whose name the endpoint has, or a member of a group.
type WrapFunc func(destination, endpoint string, d connector.Destination) connector.Destination

// Engine delivers: fleet, relay and dead letters of one configuration after
// another.
type Engine struct {
	opts    EngineOptions
	fleet   *deliver.Fleet
	relay   *relay.Relay
	letters deadletter.Store
	unlock  func() error // gives the letters' place up
	shared  stores

	mu     sync.Mutex // guards what follows, and orders Apply
	config *config.Config
	set    *deliver.Set
	stores *storeSet         // of config
	taking *storeSet         // of the one that Apply is putting in force
	seen   map[string]seen   // by the name of its source
	open   map[string]opened // by the name of the endpoint
	writer *deadletter.Writer
}

// opened is an endpoint's connector with what it was opened for.
type opened struct {
	of       string // the destination: an endpoint that moves to another is a new one
	kind     string
	settings connector.Settings
	digest   string // of the files that the settings name
	env      connector.Env
	dest     connector.Destination
}

// NewEngine takes the folder of the dead letters, opens them and applies the
// configuration. A folder that another pawl has is a *LockedError.
func NewEngine(c *config.Config, o EngineOptions) (*Engine, error) {
	letters, unlock, err := openLetters(c, o)
	if err != nil {
		return nil, err
	}
	e := &Engine{opts: o, letters: letters, unlock: unlock, open: map[string]opened{}}
	e.shared.events, e.shared.log = o.Events, o.Log
	fleet := deliver.Options{Events: o.Events, Log: o.Log, Redact: o.Redact}
	if o.Trace != nil {
		fleet.Trace = o.Trace
	}
	e.fleet = deliver.NewFleet(fleet)
	ro := relay.Options{Name: c.Relay, Fleet: e.fleet, Letters: e.write, Events: o.Events, Log: o.Log}
	if o.Trace != nil {
		ro.Trace = o.Trace.Message
	}
	e.relay = relay.New(ro)
	if _, err := e.Apply(c); err != nil {
		return nil, errors.Join(err, letters.Close(), unlock())
	}
	return e, nil
}

// Relay returns the relay.
func (e *Engine) Relay() *relay.Relay { return e.relay }

// Fleet returns the lanes and endpoints.
func (e *Engine) Fleet() *deliver.Fleet { return e.fleet }

// Letters returns the store of dead letters in the state folder. Where the
// configuration sends dead letters elsewhere it holds only older ones.
func (e *Engine) Letters() deadletter.Store { return e.letters }

// Config returns the configuration in force.
func (e *Engine) Config() *config.Config {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.config
}

// Destination returns a destination of the configuration in force.
func (e *Engine) Destination(name string) (*deliver.Destination, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.set.Destination(name)
}

func (e *Engine) hasDestination(name string) bool {
	_, ok := e.Destination(name)
	return ok
}

// Apply puts a configuration in force and returns its number. On an error
// nothing has changed. What unchangeable names can't change while it runs.
func (e *Engine) Apply(c *config.Config) (generation int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.unchangeable(c); err != nil {
		return 0, err
	}
	if e.taking, err = e.shared.take(c, e.stores); err != nil {
		return 0, err
	}
	fresh := map[string]opened{}
	defer func() {
		if err != nil { // close what was opened for nothing
			e.taking.release()
			for name, o := range fresh {
				if e.open[name].dest != o.dest {
					err = errors.Join(err, o.dest.Close())
				}
			}
		}
	}()
	specs := make([]deliver.Spec, 0, len(c.Destinations))
	for i := range c.Destinations {
		spec, err := e.spec(c, &c.Destinations[i], fresh)
		if err != nil {
			return 0, fmt.Errorf("destination %s: %w", c.Destinations[i].Name, err)
		}
		specs = append(specs, spec)
	}
	// Compile everything against a set of its own first: only then is it put in
	// force.
	set, err := e.fleet.Link(specs)
	if err != nil {
		return 0, err
	}
	bySource, err := routes(c, set, e.opts.Events)
	if err != nil {
		return 0, err
	}
	sources, seen, err := e.sourceSpecs(c)
	if err != nil {
		return 0, err
	}
	if err := e.relay.MaySwap(); err != nil {
		return 0, err
	}
	e.fleet.Install(set)
	generation, err = e.relay.Swap(relay.Config{Routes: bySource, Destinations: set, Sources: sources, Release: e.taking.release})
	if err != nil {
		return 0, err
	}
	e.config, e.set, e.open = c, set, fresh
	e.stores, e.seen = e.taking, seen
	e.writer = e.newWriter(c, set)
	return generation, nil
}

// mayApply refuses what Apply would for what only a restart can change.
func (e *Engine) mayApply(c *config.Config) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unchangeable(c)
}

// unchangeable refuses what only a restart can change. The caller holds e.mu.
func (e *Engine) unchangeable(c *config.Config) error {
	old := e.config
	switch {
	case old == nil:
		return nil
	case c.Relay != old.Relay:
		return fmt.Errorf("relay: the name can't change from %q to %q while it runs; restart pawl", old.Relay, c.Relay)
	case c.State != old.State:
		return fmt.Errorf("state: the folder can't change from %s to %s while it runs; restart pawl", old.State, c.State)
	case (c.Jobs == nil) != (old.Jobs == nil):
		return errors.New("jobs: the job server can't be turned on or off while pawl runs; restart it")
	case c.Jobs != nil && c.Jobs.File != old.Jobs.File:
		return fmt.Errorf("jobs.store: the store can't change from %s to %s while it is in use; restart pawl", old.Jobs.File, c.Jobs.File)
	case c.Jobs != nil && c.Jobs.NetworkFilesystem != old.Jobs.NetworkFilesystem:
		return errors.New("jobs.allow_network_filesystem: it counts when the store is opened; restart pawl")
	case lettersPlace(c) != lettersPlace(old):
		return fmt.Errorf("dead_letter: they can't move from %s to %s while it runs; restart pawl", lettersPlace(old), lettersPlace(c))
	case c.Log.Format != old.Log.Format:
		return fmt.Errorf("log: the format can't change from %s to %s while it runs; restart pawl", old.Log.Format, c.Log.Format)
	case !reflect.DeepEqual(c.Traces, old.Traces):
		return errors.New("telemetry: traces can't change while it runs; restart pawl")
	}
	return nil
}

// sourceSpecs makes what the relay is told of the sources, and what those that
// drop repeats have seen.
func (e *Engine) sourceSpecs(c *config.Config) (specs []relay.SourceSpec, _ map[string]seen, err error) {
	specs, next := make([]relay.SourceSpec, 0, len(c.Sources)), map[string]seen{}
	for i := range c.Sources {
		s := &c.Sources[i]
		spec := relay.SourceSpec{Name: s.Name, MaxInFlight: int64(s.MaxInFlight), MaxInFlightBytes: s.MaxInFlightBytes}
		if kind, ok := e.opts.Registry.Source(s.Type); ok && (kind.Pauses || s.Ack == config.AckStored) {
			spec.Push = relay.Pause // a stored source's messages come from its queue
		}
		if s.Unrouted == config.UnroutedDeadLetter {
			spec.Unrouted = relay.DeadLetterUnrouted
		}
		if spec.Dedupe, err = e.dedupe(c, s, next); err != nil {
			return nil, nil, err
		}
		specs = append(specs, spec)
	}
	return specs, next, nil
}

// write keeps a dead letter, without secrets in what it died of, in the write
// chain in force.
func (e *Engine) write(ctx context.Context, l *message.DeadLetter) error {
	e.mu.Lock()
	w := e.writer
	e.mu.Unlock()
	clean := &message.DeadLetter{Message: l.Message, Death: scrubDeath(e.opts.Redact, l.Death)}
	err := w.Write(ctx, clean)
	l.Letter = clean.Letter // given by the writer
	return scrubError(e.opts.Redact, err)
}

// Stop ends the relay as relay.Stop does and closes everything.
func (e *Engine) Stop(ctx context.Context) error {
	err := e.relay.Stop(ctx)
	if e.opts.Drained != nil {
		e.opts.Drained(ctx)
	}
	e.fleet.Close()
	e.mu.Lock()
	e.stores.release()
	e.mu.Unlock()
	e.shared.wait()
	return errors.Join(err, e.letters.Close(), e.unlock())
}

// Send brings one message to a destination over its whole path, waiting for a
// place.
func (e *Engine) Send(ctx context.Context, name string, m *message.Message) (deliver.Result, error) {
	d, ok := e.Destination(name)
	if !ok {
		return deliver.Result{}, fmt.Errorf("no destination %q is configured", name)
	}
	place, err := d.EnterWait(ctx)
	if err != nil {
		return deliver.Result{}, err
	}
	res := d.Deliver(ctx, deliver.Request{Message: m, Place: place, Since: time.Now()})
	res.Hops = scrubHops(e.opts.Redact, res.Hops)
	return res, nil
}
