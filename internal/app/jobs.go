package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// Jobs is the job server of a configuration and its store. A nil *Jobs is none.
type Jobs struct {
	store   *sqlite.Store
	server  *jobserver.Server
	deliver *eventDeliverer
	names   *queueNames
	ends    *jobEnds
	log     *slog.Logger

	stopping context.Context // ends with Stop
	stop     context.CancelFunc
	end      context.CancelFunc
	ended    chan struct{} // nil before Run
}

// OpenJobs opens the store that the configuration names and takes its lock. The
// caller has the state folder. It is nil where the configuration has no jobs.
// A store that another pawl has is a *LockedError.
func OpenJobs(c *config.Config, log *slog.Logger) (*Jobs, error) { return openJobs(c, log, nil) }

// openJobs is OpenJobs with traces; nil is none.
func openJobs(c *config.Config, log *slog.Logger, trace *jobTracing) (*Jobs, error) {
	if c.Jobs == nil {
		return nil, nil
	}
	so := sqlite.Options{Path: c.Jobs.File, Log: log, AllowNetwork: c.Jobs.NetworkFilesystem == config.NetworkFilesystemAllowed}
	names := &queueNames{}
	names.configure(c)
	ends := newJobEnds(names)
	so.Finished = ends.add
	jo := jobserver.Options{Config: JobsConfig(c.Jobs), Log: log}
	if trace != nil {
		so.Ended, jo.Trace = trace.ended, trace
	}
	s, err := sqlite.Open(context.Background(), so)
	if locked, ok := errors.AsType[*LockedError](err); ok {
		return nil, locked
	}
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	j := &Jobs{store: s, names: names, ends: ends, log: log}
	j.stopping, j.stop = context.WithCancel(context.Background())
	j.deliver = newEventDeliverer(c.Jobs, j.stopping, log)
	jo.Store, jo.Deliver = s, j.deliver
	j.server, err = jobserver.NewServer(jo)
	if err == nil {
		names.ask(j.server.HasQueue)
		err = j.server.Open(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return j, nil
}

// JobsConfig is what the job server is to know of a configuration.
func JobsConfig(j *config.Jobs) jobserver.Config {
	c := jobserver.Config{
		Project: j.Retry, Queues: map[string]jobserver.Queue{}, Endpoints: map[string]jobserver.Endpoint{},
		Tasks: map[lane.Task]jobserver.Task{}, Subscriptions: map[string]jobserver.Subscription{},
		Retention: store.Retention{Finished: j.KeepFinished, DeadLetters: j.KeepDeadLetters, Events: j.KeepEvents},
	}
	for name, q := range j.Queues {
		c.Queues[name] = jobserver.Queue{Lease: q.Lease, Timeout: q.Timeout, Concurrency: q.Concurrency, Retry: q.Retry}
	}
	for name, e := range j.Endpoints {
		c.Endpoints[name] = jobserver.Endpoint{Retry: e.Retry, Rate: e.Rate, Concurrency: e.Concurrency, Circuit: &e.Circuit}
	}
	for name, t := range j.Tasks {
		c.Tasks[name] = jobserver.Task{Retry: t.Retry, Timeout: t.Timeout, Endpoint: t.Endpoint, Repeat: t.Repeat, Input: t.Input, Output: t.Output}
	}
	for _, s := range j.Subscriptions {
		sub := jobserver.Subscription{Queues: s.Queues, To: s.To}
		for _, e := range s.Events {
			sub.Events = append(sub.Events, store.EventType(e))
		}
		c.Subscriptions[s.Name] = sub
	}
	return c
}

// configure puts the queues of a configuration in force. Those of older ones,
// the newest last, stay known to the relay, whose messages may be on their way
// into one of them. On an error nothing has changed. That jobs are in all is
// checked when a configuration is applied.
func (j *Jobs) configure(c *config.Config, older []*config.Config) error {
	if j == nil || c.Jobs == nil {
		return nil
	}
	next := JobsConfig(c.Jobs)
	next.Leaving = map[string]jobserver.Queue{}
	for _, old := range older {
		maps.Copy(next.Leaving, JobsConfig(old.Jobs).Queues)
	}
	if err := j.server.Configure(next); err != nil { // which was checked by the same rules
		return err
	}
	j.deliver.configure(c.Jobs)
	j.names.configure(c)
	return nil
}

// Store returns the store.
func (j *Jobs) Store() store.Store { return j.store }

// Server returns the job server.
func (j *Jobs) Server() *jobserver.Server { return j.server }

// messages is the relay's way in; nil without jobs.
func (j *Jobs) messages() connector.Queues {
	if j == nil {
		return nil
	}
	return j.server.Messages()
}

// API returns what the calls of HTTP work on.
func (j *Jobs) API(version string) httpapi.Options {
	return httpapi.Options{Server: j.server, Store: j.store, Version: version, Log: j.log, Stopping: j.stopping}
}

// Local returns the calls of the control socket: keys and backups.
func (j *Jobs) Local(version string) http.Handler {
	if j == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			problem.Document{Type: problem.BadRequest, Detail: ErrNoJobs.Error()}.Write(w)
		})
	}
	return httpapi.Local(j.API(version))
}

// ErrNoJobs says that the configuration has no job server.
var ErrNoJobs = errors.New("the configuration has no jobs; add `jobs: {}` at the top level, and restart pawl where it runs")

// LocalJobs are the jobs for one command, where no pawl runs on the state folder.
type LocalJobs struct {
	*Jobs
	state *State
}

// OpenLocalJobs takes the state folder and opens the store in it. ErrNoJobs; a
// folder or a store that a running pawl owns is a *LockedError.
func OpenLocalJobs(c *config.Config, log *slog.Logger) (*LocalJobs, error) {
	if c.Jobs == nil {
		return nil, ErrNoJobs
	}
	state, err := OpenState(c.State)
	if err != nil {
		return nil, err
	}
	jobs, err := OpenJobs(c, log)
	if err != nil {
		return nil, errors.Join(err, state.Close())
	}
	return &LocalJobs{jobs, state}, nil
}

// Close closes the store and gives the folder up.
func (l *LocalJobs) Close() error { return errors.Join(l.Jobs.Close(), l.state.Close()) }

// serve says where destinations of the relay are found, for subscriptions.
func (j *Jobs) serve(e *Engine) {
	if j != nil {
		j.deliver.attach(e.Destination)
	}
}

// Run begins to keep the store in order, until Close.
func (j *Jobs) Run() {
	ctx, end := context.WithCancel(context.Background())
	j.end, j.ended = end, make(chan struct{})
	go func() {
		defer close(j.ended)
		var letters sync.WaitGroup
		defer letters.Wait()
		letters.Go(func() { j.tidyLetters(ctx) })
		if err := j.server.Run(ctx); err != nil {
			j.log.Error("the job server gave up", "error", err)
		}
	}()
}

const (
	// tidyEvery is how often old letters are looked for: they are kept for a day
	// at least.
	tidyEvery = time.Hour
	// tidyPause is the rest between two steps of some hundred letters, so that
	// whoever waits for an answer has most of the writer.
	tidyPause = 100 * time.Millisecond
)

// tidyLetters removes dead letters of the relay that were replayed or purged,
// and are older than dead letters are kept. Open ones stay until a person says
// otherwise.
func (j *Jobs) tidyLetters(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		more, err := j.store.RemoveLetters(ctx, j.store.Now().Add(-j.server.Retention().DeadLetters))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			j.log.Warn("old dead letters could not be removed; trying again in an hour", "error", err)
			rest.Reset(tidyEvery)
		case bool(more):
			rest.Reset(tidyPause)
		default:
			rest.Reset(tidyEvery)
		}
	}
}

// Stop makes calls that wait answer at once.
func (j *Jobs) Stop() {
	if j != nil {
		j.stop()
	}
}

// Close ends Run and closes the store.
func (j *Jobs) Close() error {
	if j == nil {
		return nil
	}
	j.stop()
	if j.ended != nil {
		j.end()
		<-j.ended
	}
	j.deliver.Close()
	return j.store.Close()
}

// fileThere reports whether there is a file of the name.
func fileThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
