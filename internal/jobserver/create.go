package jobserver

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// New is a job that a producer asks for. Nil and zero fields were not said.
type New struct {
	Queue, Task, Version, Endpoint string
	Priority                       int
	Payload                        []byte // a JSON value that was checked
	Tags                           []string
	Trace                          job.Trace // the producer's
	Retry                          job.Overlay
	Timeout                        *time.Duration
	RunAt                          *time.Time
	Delay                          *time.Duration
	Key                            string // the idempotency key; "" for none
	// Unique makes it the only job of its queue and task that is not finished and
	// says so; "" for any number.
	Unique string
	// Kind is job.Synthetic for a check of its endpoint, which needs
	// store.ScopeOperate.
	Kind job.Kind
}

// Created is a job that Create made or found.
type Created struct {
	store.Created
	// Job is the job as it was stored; nil for one that was found.
	Job *job.Job
}

// defaultVersion is the version of a job that says none, of a task that has no
// contract.
const defaultVersion = "1"

// keySpace keeps the keys of producers and those of the relay apart in the
// store, which has one space of keys.
type keySpace string

const (
	apiKeys   keySpace = "a:"
	relayKeys keySpace = "r:"
)

func (s keySpace) key(key string) string {
	if key == "" {
		return ""
	}
	return string(s) + key
}

// said returns a key as its sender said it.
func (s keySpace) said(err error) error {
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if !ok {
		return err
	}
	told := *conflict
	told.Key = strings.TrimPrefix(told.Key, string(s))
	return &told
}

// Create stores all of the jobs, 1 to MaxBatch, or none. A job whose key is
// there already, with the same request, is found and not made again. That the
// caller sees the queues is checked before; by is whom an error is told.
//
// Errors: *InvalidError tells everything that is wrong; *store.ConflictError is
// a key that was used for another request; the rest are the store's.
func (s *Server) Create(ctx context.Context, by Principal, jobs []New) ([]Created, error) {
	if len(jobs) == 0 || len(jobs) > MaxBatch {
		return nil, invalid("/jobs", "must hold from 1 to %d jobs, not %d", MaxBatch, len(jobs))
	}
	now := s.settings.Load()
	c := creator{by: by, settings: now, schemas: &s.schemas, clock: s.store.Now}
	asked := make([]store.NewJob, len(jobs))
	for i := range jobs {
		c.job = i
		asked[i] = c.check(&jobs[i])
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	s.keepUsed(ctx, now, asked)
	ended := s.traceNew(asked)
	stored, err := s.store.Create(ctx, asked)
	ended(stored, err)
	if err != nil {
		return nil, apiKeys.said(err)
	}
	made := make([]Created, len(stored))
	whole := make([]job.Job, len(stored)) // one allocation for all
	found := 0
	for i, st := range stored {
		made[i].Created = st
		if st.Found {
			found++
			continue
		}
		n := &asked[i]
		whole[i] = job.Job{
			ID: st.ID, Queue: n.Queue, Task: n.Task, Version: n.Version, Endpoint: n.Endpoint, Priority: n.Priority,
			Content: n.Content, Tags: n.Tags, Trace: n.Trace, Policy: n.Policy, Timeout: n.Timeout, Kind: n.Kind, Unique: n.Unique,
			CreatedAt: st.CreatedAt, RunAt: st.RunAt, Status: job.Queued,
		}
		made[i].Job = &whole[i]
	}
	s.totals.created.Add(int64(len(made) - found))
	s.totals.found.Add(int64(found))
	return made, nil
}

// creator checks the jobs of one call.
type creator struct {
	checker
	by       Principal
	settings *settings
	schemas  *compiled
	clock    func() time.Time
}

// check returns the job to store. It is good for nothing where a problem was
// found.
func (c *creator) check(n *New) store.NewJob {
	made := store.NewJob{
		Queue: n.Queue, Task: n.Task, Version: n.Version, Endpoint: n.Endpoint, Priority: n.Priority,
		Content: job.Content{Payload: n.Payload}, Tags: n.Tags, Trace: n.Trace, Unique: n.Unique, Kind: n.Kind,
	}
	if made.Version == "" {
		made.Version = c.settings.version(n.Task)
	}
	t := c.settings.tasks[lane.Task{Name: made.Task, Version: made.Version}]
	if t != nil && made.Endpoint == "" {
		made.Endpoint = t.Endpoint
	}
	q, bad := c.settings.find(n.Queue, c.by)
	if bad != "" {
		c.add("/queue", "%s", bad)
	}
	c.verify(n, &made)
	if len(c.found.Problems) > 0 {
		return made
	}
	c.input(t, n.Payload)
	c.complete(n, &made, q, t)
	return made
}

// verify checks each member by itself, and puts the times into the job.
func (c *creator) verify(n *New, made *store.NewJob) {
	c.name("/task", made.Task)
	c.name("/version", made.Version)
	if n.Endpoint != "" {
		c.name("/endpoint", n.Endpoint)
	}
	if bad := badKey(n.Unique); bad != "" {
		c.add("/unique", "%s", bad)
	}
	c.kind(made)
	if n.Priority < -job.MaxPriority || n.Priority > job.MaxPriority {
		c.add("/priority", "must be from -%d to %d, not %d", job.MaxPriority, job.MaxPriority, n.Priority)
	}
	switch {
	case len(n.Payload) == 0:
		c.add("/payload", "is missing; a job that carries nothing says null")
	case len(n.Payload) > MaxPayload:
		c.add("/payload", "has %d bytes; at most %d are allowed", len(n.Payload), MaxPayload)
	}
	c.tags(n.Tags)
	c.retry(n.Retry)
	if bad := badKey(n.Key); bad != "" {
		c.add("/idempotency_key", "%s", bad)
	}
	c.due(n, made)
	if d := n.Timeout; d != nil {
		if made.Timeout = *d; *d < MinTimeout || *d > MaxTimeout {
			c.add("/timeout", "must be from %s to %s, not %s", duration.Text(MinTimeout), duration.Text(MaxTimeout), duration.Text(*d))
		}
	}
}

// complete gives a job what its queue, its task and its endpoint say for it, and its
// idempotency key. A nil task has no contract.
func (c *creator) complete(n *New, made *store.NewJob, q *queue, t *task) {
	if n.Timeout == nil {
		made.Timeout, _ = timeoutOf(q, t)
	}
	e := c.settings.endpoints[made.Endpoint]
	if made.Policy = q.policy; t != nil || e != nil || n.Retry != (job.Overlay{}) {
		made.Policy = c.settings.policy(q, t, e, n.Retry)
	}
	if n.Key == "" {
		return
	}
	made.Key = apiKeys.key(n.Key)
	hash, err := hashNew(n)
	if err != nil {
		c.add("/payload", "is no JSON: %v", err)
	}
	made.Hash = hash
}

// kind checks what a synthetic job needs.
func (c *creator) kind(made *store.NewJob) {
	switch {
	case made.Kind == job.Ordinary:
	case made.Kind != job.Synthetic:
		c.add("/synthetic", "unknown kind %q", made.Kind)
	case made.Endpoint == "":
		c.add("/endpoint", "is missing; a synthetic job checks an endpoint, and neither it nor its task names one")
	}
}

// input holds a payload against its task's contract.
func (c *creator) input(t *task, payload []byte) {
	if t == nil || t.Input == nil {
		return
	}
	compiled, err := c.schemas.get(t.input, func() ([]byte, error) { return t.Input, nil })
	if err != nil { // it was compiled when it was registered
		c.add("/payload", "can't be held against the task's input schema, which %v", err)
		return
	}
	all, total, err := violations(compiled, payload)
	if err != nil {
		c.add("/payload", "can't be held against the task's input schema: %v", err)
		return
	}
	for _, v := range all {
		c.add("/payload"+v.Pointer, "%s", v.Message)
	}
	c.found.More += total - len(all)
}

// version is that of a job that says none: the one registered last.
func (s *settings) version(task string) string {
	if v, ok := s.latest[task]; ok {
		return v
	}
	return defaultVersion
}

func (c *checker) name(pointer, name string) {
	if bad := job.BadName(name); bad != "" {
		c.add(pointer, "%s", bad)
	}
}

func (c *creator) tags(tags []string) {
	if len(tags) > MaxTags {
		c.add("/tags", "holds %d tags; at most %d are allowed", len(tags), MaxTags)
		return
	}
	for i, tag := range tags {
		c.name("/tags/"+strconv.Itoa(i), tag)
		for _, before := range tags[:i] {
			if tag == before {
				c.add("/tags/"+strconv.Itoa(i), "is there twice")
				break
			}
		}
	}
}

func (c *checker) retry(o job.Overlay) {
	for _, p := range o.Check() {
		c.add("/retry/"+p.Field, "%s", p.Message)
	}
}

// due checks when the job may run first. A time that is past is at once: the
// store's clock decides that, not the producer's.
func (c *creator) due(n *New, made *store.NewJob) {
	switch {
	case n.RunAt != nil && n.Delay != nil:
		c.add("/delay", "can't be said beside run_at")
	case n.Delay != nil:
		if made.Delay = *n.Delay; *n.Delay < 0 || *n.Delay > MaxDelay {
			c.add("/delay", "must be from 0s to %s, not %s", duration.Text(MaxDelay), duration.Text(*n.Delay))
		}
	case n.RunAt != nil:
		if made.RunAt = *n.RunAt; n.RunAt.After(c.clock().Add(MaxDelay)) {
			c.add("/run_at", "is more than %s ahead", duration.Text(MaxDelay))
		}
	}
}
