package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/jobqueue"
	"github.com/pawlhq/pawl/internal/core/event"
)

// sources are the ways in that run now.
type sources struct {
	app     *App
	running map[string]*running
	// companions take what sources with ack: stored have stored, and hand it to
	// the relay, by the source's name.
	companions map[string]*running
	// storing are the sources with ack: stored that may store messages still,
	// those that a reload replaced or removed among them.
	storing  map[string][]*running
	retiring sync.WaitGroup // of those that a reload replaced or removed
	stopping chan struct{}  // closed by stop
}

// running is one open source.
type running struct {
	kind     string
	settings connector.Settings
	digest   string // of the files that the settings name
	ack      config.Ack
	most     int     // max_in_flight, for those that take no more than that
	intake   *intake // with AckStored; made when it starts
	source   connector.Source
	stop     context.CancelFunc
	done     chan struct{}
}

// prepare opens the sources of a configuration that are new or changed. Those
// that stay as they are are in the result too. On an error what was opened is
// closed again and the running ones go on untouched: a listener that both have
// is shared.
func (s *sources) prepare(c *config.Config) (map[string]*running, error) {
	next := map[string]*running{}
	var errs []error
	for i := range c.Sources {
		spec := &c.Sources[i]
		if old, ok := s.running[spec.Name]; ok && old.is(spec) {
			next[spec.Name] = old
			continue
		}
		r, err := s.open(c, spec)
		if err != nil {
			errs = append(errs, fmt.Errorf("source %s: %w", spec.Name, err))
			continue
		}
		next[spec.Name] = r
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, s.discard(next))
	}
	return next, nil
}

// is reports whether r is what the configuration says.
func (r *running) is(spec *config.Source) bool {
	return r.kind == spec.Type && r.digest == spec.Digest && r.ack == spec.Ack && reflect.DeepEqual(r.settings, spec.Settings) &&
		(r.kind != queueType || r.most == spec.MaxInFlight)
}

// queueType is the type of the sources that take from a queue, max_in_flight
// messages at a time.
const queueType = "queue"

// discard closes what prepare opened for nothing.
func (s *sources) discard(next map[string]*running) error {
	var errs []error
	for name, r := range next {
		if s.running[name] != r {
			errs = append(errs, r.source.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *sources) open(c *config.Config, spec *config.Source) (*running, error) {
	kind, ok := s.app.opts.Registry.Source(spec.Type)
	if !ok {
		return nil, fmt.Errorf("type %q is not known", spec.Type)
	}
	source, err := kind.Open(spec.Settings, connector.Env{
		Name: spec.Name, Relay: c.Relay, State: c.State, Compile: compileExpr,
		MaxInFlight: spec.MaxInFlight, Queues: s.app.jobs.messages(), Listeners: s.app.hub, Events: s.app.events, Log: s.app.log.With("source", spec.Name),
	})
	if err != nil {
		return nil, err
	}
	return &running{kind: spec.Type, settings: spec.Settings, digest: spec.Digest, ack: spec.Ack, most: spec.MaxInFlight, source: source}, nil
}

// companion opens what works the queue of a source with ack: stored.
func (s *sources) companion(c *config.Config, spec *config.Source) (*running, error) {
	queue := config.RelayQueue(spec.Name)
	source, err := jobqueue.OpenSource(queue, nil, connector.Env{
		Name: spec.Name, Relay: c.Relay, State: c.State, MaxInFlight: spec.MaxInFlight, Queues: s.app.jobs.messages(),
		Events: s.app.events, Log: s.app.log.With("source", spec.Name, "queue", queue),
	})
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", spec.Name, err)
	}
	return &running{kind: queueType, most: spec.MaxInFlight, source: source}, nil
}

// handlerOf returns what a source hands its messages to: the relay, or the
// source's own queue.
func (s *sources) handlerOf(c *config.Config, name string, r *running) (connector.Handler, error) {
	if r.ack == config.AckStored {
		spec, _ := c.Source(name) // it was opened for this configuration
		r.intake = s.app.newIntake(spec)
		return r.intake, nil
	}
	return s.app.engine.Relay().Handler(name) // which was told of every source of the configuration
}

// swap starts the sources of next, which are those of c, that do not run yet and
// stops those that run and are not in it, after the new ones took over.
func (s *sources) swap(c *config.Config, next map[string]*running) error {
	if err := s.swapCompanions(c); err != nil {
		return err
	}
	for name, r := range next {
		if s.running[name] == r {
			if spec, ok := c.Source(name); ok && r.intake != nil {
				r.intake.resize(spec)
			}
			continue
		}
		h, err := s.handlerOf(c, name, r)
		if err != nil {
			return err
		}
		s.start(name, r, h)
		if r.ack == config.AckStored {
			s.storing[name] = append(s.storing[name], r)
		}
	}
	old := s.running
	s.running = next
	for name, r := range old {
		switch next[name] {
		case r:
		case nil:
			r.stop()
			s.retiring.Go(func() { s.retire(name, r) }) // its messages may take their time
		default:
			s.retiring.Go(func() {
				s.handOver()
				r.stop()
				s.retire(name, r)
			})
		}
	}
	return nil
}

// swapCompanions starts a companion for each source of c with ack: stored, and
// for those of which messages are stored still, or may be, though they answer
// after the delivery now. The others stop: what they had begun is finished, the
// rest is in the queue.
func (s *sources) swapCompanions(c *config.Config) error {
	if s.app.jobs == nil {
		return nil
	}
	s.forgetEnded() // first: whatever those have stored is counted
	waiting, err := s.app.jobs.waiting(context.Background())
	if err != nil { // companions that run go on
		s.app.log.Error("what waits in the job store can't be counted: sources that do not store any more may have left messages there until the next start", "error", err)
	}
	next := map[string]*running{}
	for i := range c.Sources {
		spec := &c.Sources[i]
		old, runs := s.companions[spec.Name]
		stores := spec.Ack == config.AckStored || len(s.storing[spec.Name]) > 0
		if !stores && waiting[config.RelayQueue(spec.Name)] == 0 && (err == nil || !runs) {
			continue
		}
		if runs && old.most == spec.MaxInFlight {
			next[spec.Name] = old
			continue
		}
		r, err := s.companion(c, spec)
		if err != nil {
			return err
		}
		h, err := s.app.engine.Relay().Handler(spec.Name)
		if err != nil {
			return err // the relay was told of every source of the configuration
		}
		next[spec.Name] = r
		s.start(spec.Name, r, h)
	}
	for name, r := range s.companions {
		if next[name] != r {
			r.stop()
			s.retiring.Go(func() { s.retire(name, r) })
		}
	}
	s.companions = next
	s.app.tellLeft(c, waiting)
	return nil
}

// forgetEnded forgets the sources that can't store messages any more.
func (s *sources) forgetEnded() {
	for name, all := range s.storing {
		all = slices.DeleteFunc(all, func(r *running) bool {
			select {
			case <-r.done:
				return true
			default:
				return false
			}
		})
		if s.storing[name] = all; len(all) == 0 {
			delete(s.storing, name)
		}
	}
}

// handOverTime is how long a source that was replaced goes on beside its
// successor: a request may have found it just before the successor took its
// place, and must not be turned away. It needs a moment, even on a machine that
// is short of CPU.
const handOverTime = time.Second

// handOver waits until a source that was replaced may stop.
func (s *sources) handOver() {
	t := time.NewTimer(handOverTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.stopping:
	}
}

func (s *sources) start(name string, r *running, h connector.Handler) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.done = stop, make(chan struct{})
	go func() {
		defer close(r.done)
		err := r.source.Run(ctx, h)
		if err != nil && ctx.Err() == nil {
			s.app.log.Error("a source gave up for good", "source", name, "error", err)
			s.app.events(event.Event{Kind: event.SourceDown, At: time.Now(), Source: name, Error: err.Error()})
		}
	}()
}

// retire closes a source that was stopped, once it has.
func (s *sources) retire(name string, r *running) {
	<-r.done
	if err := r.source.Close(); err != nil {
		s.app.log.Warn("closing a source", "source", name, "error", err)
	}
}

// stop makes every source take no more. Each keeps its place at its address
// until close, and tells whoever comes to come again.
func (s *sources) stop() {
	close(s.stopping)
	for _, r := range s.running {
		r.stop()
	}
	for _, r := range s.companions {
		r.stop()
	}
}

// wait returns when every source has ended, those that a reload replaced too, or
// when ctx ends. The relay has settled every message by then, but for those that
// never came to an end.
func (s *sources) wait(ctx context.Context) {
	all := make(chan struct{})
	go func() {
		for _, r := range s.running {
			<-r.done
		}
		for _, r := range s.companions {
			<-r.done
		}
		s.retiring.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done(): // messages that never came to an end: the process does
	}
}

// close closes those that run. At an address that takes requests still, the
// path of one that is closed looks like one that was never there: a stop closes
// the listeners before.
func (s *sources) close() {
	for _, all := range []map[string]*running{s.running, s.companions} {
		for name, r := range all {
			if err := r.source.Close(); err != nil {
				s.app.log.Warn("closing a source", "source", name, "error", err)
			}
		}
	}
}
