package jobserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// Options are what a Server works with.
type Options struct {
	Store store.Store
	// Config is the first configuration; Configure puts another in force.
	Config Config
	// Deliver sends events to subscriptions; nil where there are none.
	Deliver Deliverer
	// Trace follows jobs; nil is free.
	Trace Tracer
	// Log is for what no caller is told; nil drops it.
	Log *slog.Logger
}

// Config is what can change while a server runs. Zero fields are defaults.
type Config struct {
	// Project is the project's level of every policy.
	Project job.Overlay
	// Queues are the queues by name. None begins with job.RelayPrefix: the relay's
	// own queues are there without being named.
	Queues map[string]Queue
	// Endpoints and Tasks are what the configuration says of them; a task is named
	// with its version.
	Endpoints map[string]Endpoint
	Tasks     map[lane.Task]Task
	// Subscriptions are the configuration's, by name.
	Subscriptions map[string]Subscription
	// Leaving are the queues of configurations before this one, of which messages
	// may be under way: the relay finds them still, and nobody else does. What
	// stands in Queues too counts there. They passed Configure once.
	Leaving map[string]Queue
	// Retention is MinRetention to MaxRetention each.
	Retention store.Retention
}

// Server is the job server on a store. Safe for concurrent use.
type Server struct {
	store    store.Store
	deliver  Deliverer
	trace    Tracer
	log      *slog.Logger
	settings atomic.Pointer[settings]
	graced   gracedLog
	totals   totals
	schemas  compiled
	workers  workers
	runs     runs
	// contracts is set once some job may have an output schema.
	contracts    atomic.Bool
	began        time.Time
	readAt       atomic.Int64  // when somebody read events last, in Unix seconds; 0 for unknown or never
	replays      chan struct{} // asks the replays' loop to look
	replaysMoved atomic.Bool   // which replays run may have changed
	pumps        chan struct{} // asks the subscriptions' loop to look
	kept         kept

	// changing is held while the settings change: what follows is under it.
	changing sync.Mutex
	config   Config // checked, with its defaults
	defined  definitions
	opened   bool
	tellFrom int64 // the newest event when it was opened: later ones are told in the log
}

// NewServer makes a server. Its error is about the configuration, every problem at
// once.
func NewServer(o Options) (*Server, error) {
	s := &Server{
		store: o.Store, began: time.Now(), deliver: o.Deliver, trace: o.Trace, log: o.Log,
		replays: make(chan struct{}, 1), pumps: make(chan struct{}, 1),
	}
	s.totals.delay, s.totals.run = newTimes(), newTimes()
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, s.Configure(o.Config)
}

// Open reads what was said over the API, and puts it in force beside the
// configuration, with the numbers of all gates. It is called once, before the
// first claim.
func (s *Server) Open(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.read(ctx); err != nil {
		return fmt.Errorf("jobs: reading what was said over the API: %w", err)
	}
	has, err := s.store.KeepsSchemas(ctx)
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	if has {
		s.contracts.Store(true)
	}
	if s.tellFrom, err = s.store.LastEvent(ctx); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	s.opened = true
	return s.apply(ctx)
}

// Refresh reads what was said over the API again: another node may have
// changed it. Nothing else on SQLite does.
func (s *Server) Refresh(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.read(ctx); err != nil {
		return err
	}
	return s.apply(ctx)
}

// configureTime bounds what Configure waits for the store.
const configureTime = 10 * time.Second

// Configure puts a configuration in force for what is asked from now on: jobs
// keep the policy that they were created with, leases their length. With an
// error, which tells every problem at once, the one before stays. What the store
// can't take at once, it takes within a minute: Run tries again.
func (s *Server) Configure(c Config) error {
	c, err := c.checked()
	if err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.config = c
	s.settings.Store(build(c, s.defined))
	if !s.opened {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), configureTime)
	defer stop()
	if err := s.apply(ctx); err != nil {
		s.log.Error("the store did not take the new limits yet, they are tried again", "error", err)
	}
	return nil
}

// rebuild puts in force what was said over the API since. s.changing is held.
func (s *Server) rebuild() {
	next, had := build(s.config, s.defined), s.settings.Load()
	next.leaving = had.leaving // what was told of them stays told
	s.settings.Store(next)
}

// apply tells the store the numbers and the schemas that the settings name, and
// which events are wanted.
// s.changing is held.
func (s *Server) apply(ctx context.Context) error {
	now := s.settings.Load()
	if err := s.keepSchemas(ctx, now); err != nil {
		return err
	}
	if err := s.store.SetLimits(ctx, now.limits()); err != nil {
		return fmt.Errorf("the limits of queues and endpoints: %w", err)
	}
	if err := s.wantEvents(ctx, now); err != nil {
		return err
	}
	if err := s.beginNew(ctx, now); err != nil {
		return fmt.Errorf("the subscriptions: %w", err)
	}
	s.wake(s.pumps)
	return nil
}

// wake makes a loop look at once.
func (s *Server) wake(loop chan struct{}) {
	select {
	case loop <- struct{}{}:
	default:
	}
}

// Queues returns the queues that the configuration or the API names.
func (s *Server) Queues() map[string]Queue {
	now := s.settings.Load()
	all := make(map[string]Queue, len(now.queues))
	for name, q := range now.queues {
		all[name] = q.Queue
	}
	return all
}

// HasQueue reports whether the configuration or the API names a queue. It waits for
// nothing.
func (s *Server) HasQueue(name string) bool { return s.settings.Load().queues[name] != nil }

// Retention returns how long finished jobs are kept.
func (s *Server) Retention() store.Retention { return s.settings.Load().retention }

// Job returns a job with every attempt. store.ErrNotFound.
func (s *Server) Job(ctx context.Context, id string) (*job.Job, error) { return s.store.Job(ctx, id) }

// List returns jobs without their attempts, newest first.
func (s *Server) List(ctx context.Context, f store.Filter) (store.Page, error) {
	return s.store.List(ctx, f)
}

// Logs returns what was logged in one attempt. store.ErrNotFound.
func (s *Server) Logs(ctx context.Context, id string, attempt int) (store.Log, error) {
	return s.store.Logs(ctx, id, attempt)
}

// AwaitEnd returns nil once the job is finished, or gone, or ctx.Err().
func (s *Server) AwaitEnd(ctx context.Context, id string) error { return s.store.AwaitEnd(ctx, id) }
