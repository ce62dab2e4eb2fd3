package jobserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/store"
)

// Options are what a Server works with.
type Options struct {
	Store store.Store
	// Config is the first configuration; Configure puts another in force.
	Config Config
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
	// Leaving are the queues of configurations before this one, of which messages
	// may be under way: the relay finds them still, and nobody else does. What
	// stands in Queues too counts there. They passed Configure once.
	Leaving map[string]Queue
	// Retention is MinRetention to MaxRetention each.
	Retention store.Retention
}

// Queue is a queue's settings. Zero fields are defaults.
type Queue struct {
	Lease   time.Duration // MinLease to MaxLease
	Timeout time.Duration // MinTimeout to MaxTimeout
	Retry   job.Overlay
}

// orDefaults fills in what is not said.
func (q Queue) orDefaults() Queue {
	q.Lease, q.Timeout = orDefault(q.Lease, DefaultLease), orDefault(q.Timeout, DefaultTimeout)
	return q
}

// Server is the job server on a store. Safe for concurrent use.
type Server struct {
	store    store.Store
	log      *slog.Logger
	settings atomic.Pointer[settings]
	totals   totals
}

// settings are a Config as it is worked with. They are never changed.
type settings struct {
	project   job.Overlay
	queues    map[string]*queue
	names     []string // of the queues, sorted
	leaving   map[string]*queue
	relay     *queue // what every queue of the relay is like
	retention store.Retention
}

// queue is a queue and what a job in it gets that says nothing itself.
type queue struct {
	Queue
	policy job.Snapshot
	left   atomic.Bool // a job in it, which is leaving, was told of
}

// NewServer makes a server. Its error is about the configuration, every problem at
// once.
func NewServer(o Options) (*Server, error) {
	s := &Server{store: o.Store, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, s.Configure(o.Config)
}

// Configure puts a configuration in force for what is asked from now on: jobs
// keep the policy that they were created with, leases their length. With an
// error, which tells every problem at once, the one before stays.
func (s *Server) Configure(c Config) error {
	next := &settings{
		project: c.Project, queues: make(map[string]*queue, len(c.Queues)), leaving: make(map[string]*queue, len(c.Leaving)),
		retention: store.Retention{
			Finished:    orDefault(c.Retention.Finished, DefaultFinished),
			DeadLetters: orDefault(c.Retention.DeadLetters, DefaultDeadLetters),
		},
	}
	var found []error
	wrong := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	within := func(what string, d, least, most time.Duration) {
		if d < least || d > most {
			wrong("%s must be from %s to %s, not %s", what, duration.Text(least), duration.Text(most), duration.Text(d))
		}
	}
	within("retention: finished", next.retention.Finished, MinRetention, MaxRetention)
	within("retention: dead_letters", next.retention.DeadLetters, MinRetention, MaxRetention)
	for _, p := range c.Project.Check() {
		wrong("retry: %s %s", p.Field, p.Message)
	}
	next.names = slices.Sorted(maps.Keys(c.Queues))
	for _, name := range next.names {
		q := c.Queues[name].orDefaults()
		if bad := job.BadName(name); bad != "" {
			wrong("queue %q: the name %s", name, bad)
		} else if job.OfRelay(name) {
			wrong("queue %q: names that begin with %s are the relay's own", name, job.RelayPrefix)
		}
		within(fmt.Sprintf("queue %q: lease", name), q.Lease, MinLease, MaxLease)
		within(fmt.Sprintf("queue %q: timeout", name), q.Timeout, MinTimeout, MaxTimeout)
		for _, p := range q.Retry.Check() {
			wrong("queue %q: retry: %s %s", name, p.Field, p.Message)
		}
		next.queues[name] = next.queue(q)
	}
	for name, q := range c.Leaving {
		next.leaving[name] = next.queue(q.orDefaults())
	}
	next.relay = next.queue(relayQueue())
	if len(found) > 0 {
		return fmt.Errorf("jobs: %w", errors.Join(found...))
	}
	s.settings.Store(next)
	return nil
}

// queue resolves what a job gets that says nothing itself.
func (s *settings) queue(q Queue) *queue {
	return &queue{Queue: q, policy: s.policy(q.Retry, job.Overlay{})}
}

// policy resolves the policy of a job in a queue.
func (s *settings) policy(queue, own job.Overlay) job.Snapshot {
	return job.Resolve(
		job.Said{Level: job.LevelJob, Overlay: own},
		job.Said{Level: job.LevelQueue, Overlay: queue},
		job.Said{Level: job.LevelProject, Overlay: s.project},
	)
}

// find returns a queue that producers and workers may name, or a text that says
// what is wrong. It proposes no queue that the key is not for.
func (s *settings) find(name string, by Principal) (*queue, string) {
	if q, ok := s.queues[name]; ok {
		return q, ""
	}
	if bad := job.BadName(name); bad != "" {
		return nil, bad
	}
	if job.OfRelay(name) {
		return nil, `can't begin with "` + job.RelayPrefix + `"; such queues are the relay's own`
	}
	text := fmt.Sprintf("unknown queue %q", name)
	if len(s.names) == 0 {
		return nil, text + "; no queue is configured, jobs.queues names them"
	}
	seen := s.names
	if len(by.Queues) > 0 {
		seen = slices.DeleteFunc(slices.Clone(seen), func(name string) bool { return !by.Sees(name) })
	}
	if near := nearest.To(name, seen); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return nil, text
}

// Queues returns the queues that the configuration names.
func (s *Server) Queues() map[string]Queue {
	now := s.settings.Load()
	all := make(map[string]Queue, len(now.queues))
	for name, q := range now.queues {
		all[name] = q.Queue
	}
	return all
}

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

// orDefault returns def where nothing was said.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}
