package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/alert"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/control"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/ingress"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/relay"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// Options are what an App works with.
type Options struct {
	// Load reads the configuration anew; it is called by New and by Reload.
	Load func() (*config.Config, *config.Report)
	// Registry holds the kinds.
	Registry *connector.Registry
	// Stderr takes the log.
	Stderr io.Writer
	// Version and Revision name this binary.
	Version, Revision string
	// Wrap is EngineOptions.Wrap.
	Wrap WrapFunc
	// Alerts says whether the configuration's notify is heeded.
	Alerts Alerts
	// Events is told of what happens, too, with secrets taken out; nil is nobody.
	Events event.Sink
	// Listen replaces the network for incoming connections; nil is the real one.
	Listen func(network, address string) (net.Listener, error)
}

// App is a running pawl.
type App struct {
	opts    Options
	cleanup cleanup

	state   *State
	jobs    *Jobs // nil where the configuration has none
	log     *slog.Logger
	level   *slog.LevelVar
	redact  *redactor
	metrics *telemetry.Telemetry
	lines   *telemetry.EventLog
	events  event.Sink
	tail    *adminapi.Tail
	alerts  *alert.Notifier
	hub     *ingress.Hub
	engine  *Engine
	sources sources
	levers  *adminapi.Levers

	reload  sync.Mutex    // one at a time; held by a stop until its end
	stopped bool          // guarded by reload
	older   []numbered    // that may still drain; guarded by reload
	begun   chan struct{} // closed by Run once the sources of New run
	started time.Time
	unmount []func()
}

// New loads the configuration and opens everything: when it returns, every port
// is bound and the relay is ready, but no source runs yet. A configuration with
// errors is a *ConfigError.
func New(o Options) (_ *App, err error) {
	c, report := o.Load()
	if report.Errors() > 0 {
		return nil, &ConfigError{report}
	}
	a := &App{opts: o, started: time.Now(), redact: &redactor{}, level: new(slog.LevelVar), begun: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.cleanup.run())
		}
	}()
	a.redact.keep(c.Secrets)
	a.level.Set(c.Log.Level)
	lines := newLogQueue(o.Stderr)
	a.cleanup.add(lines.close)
	a.log = slog.New(telemetry.NewLogHandler(telemetry.LogOptions{
		Out: lines, Device: o.Stderr, Format: logFormat(c.Log.Format, o.Stderr), Level: a.level, Redact: a.redact.Redact,
	}))
	if a.state, err = OpenState(c.State); err != nil {
		return nil, err
	}
	a.cleanup.add(a.state.Close)
	trace, err := a.trace(c)
	if err != nil {
		return nil, err
	}
	if a.jobs, err = openJobs(c, a.log, trace.jobs()); err != nil {
		return nil, err
	}
	a.cleanup.add(a.jobs.Close)
	a.observe(c)
	a.hub = ingress.New(ingress.Options{Listen: o.Listen, Log: a.log})
	a.cleanup.add(a.closeHub)
	defer a.hub.Hold()() // a caller that is early finds every path and the first key
	a.engine, err = NewEngine(c, EngineOptions{
		Registry: o.Registry, Events: a.events, Log: a.log, Stderr: redacted{lines, a.redact},
		Redact: a.redact.Redact, Trace: trace, Wrap: o.Wrap, Jobs: a.jobs, Drained: a.stopAlerts,
	})
	if err != nil {
		return nil, err
	}
	a.cleanup.add(a.closeEngine)
	a.jobs.serve(a.engine)
	a.sources.app, a.sources.stopping, a.sources.storing = a, make(chan struct{}), map[string][]*running{}
	a.levers = adminapi.NewLevers()
	next, err := a.sources.prepare(c)
	if err != nil {
		return nil, err
	}
	a.sources.running = next
	a.cleanup.add(func() error { return a.closeUnstarted(next) })
	a.metrics.SetTopology(topology(c))
	a.configureAlerts(c)
	if err := a.checkJobs(c); err != nil {
		return nil, err
	}
	if err := a.openAdmin(c); err != nil {
		return nil, err
	}
	if err := a.firstKey(context.Background(), c); err != nil {
		return nil, err
	}
	a.logProblems(report)
	return a, nil
}

// observe makes what looks on: metrics, log lines, the live view.
func (a *App) observe(c *config.Config) {
	store := ""
	if c.Jobs != nil {
		store = filepath.Dir(c.Jobs.File)
	}
	a.metrics = telemetry.New(telemetry.Options{
		Version: a.opts.Version, Revision: a.opts.Revision, Snapshot: a.snapshot, StateFolder: c.State, StoreFolder: store,
		Problem: func(err error) { a.log.Warn("metrics", "error", err) },
	})
	a.lines = telemetry.NewEventLog(a.log, accessLog(c.Log.Access))
	a.cleanup.add(func() error { a.lines.Close(); return nil })
	a.tail = adminapi.NewTail()
	a.alerts = a.newAlerts(c)
	sinks := []event.Sink{a.metrics.Observe, a.lines.Observe, a.tail.Observe, a.alerts.Observe}
	if a.opts.Events != nil {
		sinks = append(sinks, a.opts.Events)
	}
	a.events = scrubEvents(a.redact.Redact, event.Tee(sinks...))
}

// trace makes what follows messages and jobs; nil where the configuration has no
// traces.
func (a *App) trace(c *config.Config) (*Tracing, error) {
	if c.Traces.Endpoint == "" {
		return nil, nil
	}
	headers := map[string]string{}
	for name, secret := range c.Traces.Headers {
		headers[name] = secret.Reveal()
	}
	tracer, err := telemetry.NewTracer(telemetry.TraceOptions{
		Relay: c.Relay, Version: a.opts.Version, Endpoint: c.Traces.Endpoint, Headers: headers,
		SampleRatio: c.Traces.SampleRatio, Redact: a.redact.Redact,
		Problem: func(err error) { a.log.Warn("traces", "error", err) },
	})
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	a.cleanup.add(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lastExport)
		defer cancel()
		return tracer.Close(ctx)
	})
	return &Tracing{tracer}, nil
}

// lastExport bounds how long a stop waits for the last spans: no message hangs
// on them.
const lastExport = 2 * time.Second

// checkJobs refuses a job API that nobody could call, and tells of a store that
// nobody opens any more.
func (a *App) checkJobs(c *config.Config) error {
	if a.jobs == nil {
		if file := a.state.Path("pawl.db"); fileThere(file) {
			a.log.Warn("there is a job store, and the configuration has no jobs: what is in it waits until it has", "store", file)
		}
		return nil
	}
	return a.jobs.checkKey(context.Background(), c)
}

// openAdmin opens the control socket and the admin listener.
func (a *App) openAdmin(c *config.Config) error {
	socket, err := control.Listen(a.state.Path(control.SocketName))
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	api := a.api()
	calls := http.NewServeMux()
	calls.Handle("/", api.Handler())
	for _, path := range []string{"/v3/keys", "/v3/keys/", "/v3/backup"} {
		calls.Handle(path, a.jobs.Local(a.opts.Version))
	}
	server := control.NewServer(problem.ExactPaths(calls), a.opts.Version)
	server.ErrorLog = slog.NewLogLogger(a.log.Handler(), slog.LevelDebug)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the control socket failed", "error", err)
		}
	}()
	a.cleanup.add(func() error {
		err := server.Close()
		<-served
		return err
	})
	unmount, err := a.mountAll(c)
	if err != nil {
		return err
	}
	a.unmount = unmount
	return nil
}

// Run starts the sources and blocks until ctx ends; then it stops as
// shutdown_timeout says and gives everything back. It may be called once. It
// returns nil when no message was lost: what shutdown_timeout cut short was
// given back to its senders. Where messages never came to an end the error is a
// *relay.CutShortError.
func (a *App) Run(ctx context.Context) error {
	next := a.sources.running
	a.sources.running = nil
	if a.jobs != nil {
		a.jobs.Run()
	}
	if err := a.sources.swap(a.engine.Config(), next); err != nil {
		return errors.Join(err, a.cleanup.run())
	}
	close(a.begun)
	a.log.Info("pawl is ready", "relay", a.engine.Config().Relay, "version", a.opts.Version,
		"sources", len(next), "destinations", len(a.engine.Config().Destinations), "took", time.Since(a.started))
	<-ctx.Done()
	return a.stop()
}

// stop drains and gives everything back.
func (a *App) stop() error {
	a.reload.Lock()
	defer a.reload.Unlock()
	a.stopped = true // no reload from here on
	timeout := a.engine.Config().ShutdownTimeout
	a.log.Info("stopping", "shutdown_timeout", timeout, "in_flight", a.engine.Relay().InFlight())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	a.sources.stop()
	a.jobs.Stop() // workers go on reporting; nobody waits for jobs any more
	err := a.engine.Stop(ctx)
	var cut *relay.CutShortError
	switch {
	case err == nil:
		a.log.Info("stopped; everything in flight was finished")
	case errors.As(err, &cut) && cut.Unended == 0:
		// Nothing is lost: the senders were told to send again, or it is a dead
		// letter.
		a.log.Warn("stopped; shutdown_timeout was too short for some messages, which were given back", "messages", cut.CutShort)
		err = nil
	default:
		a.log.Error("stopped before everything had ended", "error", err)
	}
	grace, done := context.WithTimeout(context.Background(), closeGrace)
	defer done()
	a.sources.wait(grace)
	err = errors.Join(err, a.closeHub())
	a.sources.close()
	return errors.Join(err, a.cleanup.run())
}

// closeGrace bounds how long answers that are decided may take to leave.
const closeGrace = 2 * time.Second

func (a *App) closeHub() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if err := a.hub.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// closeEngine closes an engine that was never stopped.
func (a *App) closeEngine() error {
	if a.engine.Relay().Status().Stopping {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	return a.engine.Stop(ctx)
}

// closeUnstarted closes sources that were opened and never ran.
func (a *App) closeUnstarted(next map[string]*running) error {
	var errs []error
	for _, r := range next {
		if r.done == nil {
			errs = append(errs, r.source.Close())
		}
	}
	return errors.Join(errs...)
}

// cleanup is a stack of what must be given back, the last first.
type cleanup struct{ steps []func() error }

func (c *cleanup) add(step func() error) { c.steps = append(c.steps, step) }

func (c *cleanup) run() error {
	var errs []error
	for i := len(c.steps) - 1; i >= 0; i-- {
		errs = append(errs, c.steps[i]())
	}
	c.steps = nil
	return errors.Join(errs...)
}

// ConfigError is a configuration that can't be run.
type ConfigError struct{ Report *config.Report }

// Error is the first problem and how many more there are.
func (e *ConfigError) Error() string { return e.Report.Err().Error() }
