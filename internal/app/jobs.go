package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// Jobs is the job server of a configuration and its store. A nil *Jobs is none.
type Jobs struct {
	store  *sqlite.Store
	server *jobserver.Server
	log    *slog.Logger

	stopping context.Context // ends with Stop
	stop     context.CancelFunc
	end      context.CancelFunc
	ended    chan struct{} // nil before Run
}

// OpenJobs opens the store that the configuration names and takes its lock. The
// caller has the state folder. It is nil where the configuration has no jobs.
// A store that another pawl has is a *LockedError.
func OpenJobs(c *config.Config, log *slog.Logger) (*Jobs, error) {
	if c.Jobs == nil {
		return nil, nil
	}
	s, err := sqlite.Open(context.Background(), sqlite.Options{
		Path: c.Jobs.File, Log: log, AllowNetwork: c.Jobs.NetworkFilesystem == config.NetworkFilesystemAllowed,
	})
	if locked, ok := errors.AsType[*sqlite.LockedError](err); ok {
		return nil, &LockedError{"store", locked.Path, locked.PID}
	}
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	server, err := jobserver.NewServer(jobserver.Options{Store: s, Config: jobsConfig(c.Jobs), Log: log})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	j := &Jobs{store: s, server: server, log: log}
	j.stopping, j.stop = context.WithCancel(context.Background())
	return j, nil
}

// jobsConfig is what the job server is to know of a configuration.
func jobsConfig(j *config.Jobs) jobserver.Config {
	c := jobserver.Config{
		Project: j.Retry, Queues: map[string]jobserver.Queue{},
		Retention: store.Retention{Finished: j.KeepFinished, DeadLetters: j.KeepDeadLetters},
	}
	for name, q := range j.Queues {
		c.Queues[name] = jobserver.Queue{Lease: q.Lease, Timeout: q.Timeout, Retry: q.Retry}
	}
	return c
}

// configure puts the queues of a configuration in force, and its admin key. On
// an error nothing has changed. That jobs are in both is checked when the
// configuration is applied.
func (j *Jobs) configure(c *config.Config) error {
	if j == nil || c.Jobs == nil {
		return nil
	}
	if err := j.givenKey(context.Background(), c); err != nil {
		return err
	}
	return j.server.Configure(jobsConfig(c.Jobs)) // which was checked by the same rules
}

// givenKey stores the admin key that the configuration gives, where it does.
func (j *Jobs) givenKey(ctx context.Context, c *config.Config) error {
	if c.Jobs.AdminKey.Empty() {
		return nil
	}
	if err := jobserver.GivenKey(ctx, j.store, c.Jobs.AdminKey.Reveal(), j.store.Now()); err != nil {
		return fmt.Errorf("%s: %w", config.AdminKeyName, err)
	}
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
	return j.store.Close()
}

// keyFile is the file in the state folder with the first key.
const keyFile = "pawl.key"

// KeyFile returns where in a state folder the first key is kept.
func KeyFile(state string) string { return filepath.Join(state, keyFile) }

// firstKey sees to it that somebody can call the job API: it stores the admin
// key that the configuration gives, or makes one where the store has none and
// only this machine reaches the API.
func (a *App) firstKey(ctx context.Context, c *config.Config) error {
	keys := a.jobs.store
	if !c.Jobs.AdminKey.Empty() {
		return a.jobs.givenKey(ctx, c)
	}
	if !c.Jobs.Local() {
		have, err := keys.Keys(ctx)
		if err == nil && len(have) == 0 {
			err = fmt.Errorf("jobs: other machines reach the API at %s and there is no key yet; make one with "+
				"`pawl keys create --name admin --scope admin`, or set %s", c.Jobs.Listen, config.AdminKeyName)
		}
		return err
	}
	secret, err := jobserver.FirstKey(ctx, keys, keys.Now())
	if err != nil || secret == "" {
		return err
	}
	file := a.state.Path(keyFile)
	where := fmt.Sprintf("It is in %s too, which only this user can read", file)
	if err := writeKey(file, secret); err != nil {
		where = fmt.Sprintf("It could not be written to %s (%v): keep it", file, err)
	}
	// Not over the log, whose readers may be many.
	_, err = fmt.Fprintf(a.opts.Stderr, "pawl: this is the first API key of the job server, shown this once: %s\n"+
		"pawl: its scope is admin. %s. More: pawl keys create\n", secret, where)
	return err
}

// writeKey writes a key to a file that only its owner reads, whole or not at all.
func writeKey(file, secret string) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+keyFile+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// fileThere reports whether there is a file of the name.
func fileThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// tellLeft warns of jobs that nobody can work: those of queues that the
// configuration does not name, and messages of sources that it has no more.
// They stay where they are.
func (a *App) tellLeft(c *config.Config, waiting map[string]int64) {
	for _, queue := range slices.Sorted(maps.Keys(waiting)) {
		if _, known := c.Jobs.Queues[queue]; known {
			continue
		}
		name, own := strings.CutPrefix(queue, jobserver.RelayPrefix)
		if !own {
			a.log.Warn("jobs wait in a queue that jobs.queues does not name: nobody can work them until it does",
				"queue", queue, "jobs", waiting[queue])
			continue
		}
		if _, there := c.Source(name); !there {
			a.log.Warn("stored messages wait for a source that is not configured any more: they are kept, and delivered once a source has that name",
				"source", name, "queue", queue, "messages", waiting[queue])
		}
	}
}

// snapshot is the job server's state for a scrape; nil without one.
func (j *Jobs) snapshot(c *config.Config) *telemetry.JobState {
	if j == nil {
		return nil
	}
	t, v := j.server.Totals(), j.store.Vitals()
	s := &telemetry.JobState{
		Created: t.Created, Found: t.Found, Claimed: t.Claimed, LeaseLost: t.LeaseLost, Invalid: t.Invalid, Graced: t.Graced,
		Ended: map[job.Outcome]int64{
			job.OutcomeSucceeded: t.Succeeded, job.OutcomeFailed: t.Failed, job.OutcomeReleased: t.Released,
			job.OutcomeTimedOut: t.TimedOut, job.OutcomeLost: t.Lost, job.OutcomeUnreceived: t.Unreceived,
		},
		Parked: v.Parked, Bytes: v.Bytes, WALBytes: v.WALBytes, Commits: v.Commits, Operations: v.Operations,
		LastCommit: v.LastCommit, Lanes: v.Lanes,
	}
	counts := map[string]map[job.Status]int64{}
	for name := range c.Jobs.Queues {
		counts[name] = map[job.Status]int64{}
	}
	for i := range c.Sources {
		if c.Sources[i].Ack == config.AckStored {
			counts[config.RelayQueue(c.Sources[i].Name)] = map[job.Status]int64{}
		}
	}
	// Where the store can't be read the counts are left out; readyz says why.
	lanes, err := j.store.Counts(context.Background())
	if err != nil {
		return s
	}
	for _, l := range lanes {
		n := counts[l.Lane.Queue]
		if n == nil {
			if n = counts[telemetry.OtherQueues]; n == nil {
				n = map[job.Status]int64{}
				counts[telemetry.OtherQueues] = n
			}
		}
		n[job.Queued] += l.Ready
		n[job.Running] += l.Running
		n[job.Succeeded] += l.Succeeded
		n[job.Failed] += l.Failed
		n[job.Cancelled] += l.Cancelled
	}
	for name, n := range counts {
		s.Queues = append(s.Queues, telemetry.QueueState{Name: name, Jobs: n})
	}
	return s
}

// status is how the queues stand that the configuration names, the relay's own
// of stored sources included, and every other that has jobs.
func (j *Jobs) status(ctx context.Context, c *config.Config) ([]adminapi.QueueStatus, error) {
	lanes, err := j.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	gates, err := j.store.Paused(ctx)
	if err != nil {
		return nil, err
	}
	by := map[string]*adminapi.QueueStatus{}
	queue := func(name string) *adminapi.QueueStatus {
		if by[name] == nil {
			by[name] = &adminapi.QueueStatus{Name: name}
		}
		return by[name]
	}
	for name := range c.Jobs.Queues {
		queue(name)
	}
	for i := range c.Sources {
		if c.Sources[i].Ack == config.AckStored {
			queue(config.RelayQueue(c.Sources[i].Name))
		}
	}
	for _, l := range lanes {
		if l.Ready+l.Running+l.Failed == 0 && by[l.Lane.Queue] == nil {
			continue
		}
		q := queue(l.Lane.Queue)
		q.Queued += l.Ready
		q.Running += l.Running
		q.Failed += l.Failed
	}
	for _, g := range gates {
		if g.Gate.Kind == lane.QueueGate {
			queue(g.Gate.Name).Paused = &adminapi.Pull{By: g.By, Since: g.Since}
		}
	}
	all := make([]adminapi.QueueStatus, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[name])
	}
	return all, nil
}

// waiting counts the jobs of each queue that are not finished; queues without
// any are left out.
func (j *Jobs) waiting(ctx context.Context) (map[string]int64, error) {
	all, err := j.store.Counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("jobs: counting: %w", err)
	}
	n := map[string]int64{}
	for _, l := range all {
		if open := l.Ready + l.Running; open > 0 {
			n[l.Lane.Queue] += open
		}
	}
	return n, nil
}
