package metamorphic

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// maxJobs bounds what a history keeps, so that each step can be compared.
const maxJobs = 60

// The queues of jobs: three of anybody's, the deliveries of events, and another one
// of the relay's.
const (
	eventQueue = store.EventQueue + "sub"
	relayQueue = job.RelayPrefix + "web"
)

// room makes room for n jobs; false where there is none.
func (h *history) room(n int) bool {
	if len(h.model.jobs)+n > maxJobs {
		h.retain()
	}
	return len(h.model.jobs)+n <= maxJobs
}

func (h *history) create(n int) {
	if !h.room(n) {
		return
	}
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = h.newJob()
	}
	h.createAll(jobs)
}

func (h *history) createAll(jobs []store.NewJob) {
	h.Helper()
	plans, conflict := h.model.planCreate(jobs)
	h.tell("create %s", describe(jobs))
	made, err := h.store.Create(h.ctx, jobs)
	if conflict != nil {
		h.happened["conflicts"]++
		got, ok := errors.AsType[*store.ConflictError](err)
		if !ok {
			h.Fatalf("create: %v, the model says: %v", err, conflict)
		}
		h.same("the conflict", *conflict, *got)
		return
	}
	h.must(err)
	want := make([]store.Created, len(jobs))
	for i, p := range plans {
		switch {
		case p.found != "":
			want[i] = store.Created{ID: p.found, Found: true}
			h.happened["found by key"]++
		case p.same >= 0:
			want[i] = store.Created{ID: want[p.same].ID, Found: true}
			h.happened["found in the batch"]++
		default:
			if _, there := h.model.jobs[made[i].ID]; there {
				h.Fatalf("%s was made twice", made[i].ID)
			}
			j := h.model.add(made[i].ID, jobs[i])
			want[i] = store.Created{ID: j.ID, CreatedAt: j.CreatedAt, RunAt: j.RunAt}
		}
	}
	h.same("what was created", want, created(made))
}

// created leaves out what a store may say of a job that it found.
func created(made []store.Created) []store.Created {
	made = slices.Clone(made)
	for i := range made {
		if made[i].Found {
			made[i].CreatedAt, made[i].RunAt = time.Time{}, time.Time{}
		}
	}
	return made
}

func describe(jobs []store.NewJob) (s string) {
	for _, j := range jobs {
		s += fmt.Sprintf("[%s %s@%s %q %d %s key %q/%d %q in %v, %d tries, timeout %v, %s] ", j.Queue, j.Task, j.Version, j.Endpoint, j.Priority,
			j.Kind, j.Key, j.Hash[0], j.Unique, j.Delay, j.Policy.MaxAttempts, j.Timeout, j.Policy.Repeat)
	}
	return s
}

func (h *history) newJob() store.NewJob {
	n := h.plainJob()
	n.Priority, n.Timeout = pick(h, 0, 0, 0, 5, -5), pick(h, 5*time.Second, time.Minute, time.Hour)
	n.Policy = job.Resolve(job.Said{Level: job.LevelJob, Overlay: job.Overlay{
		MaxAttempts: new(pick(h, 1, 2, 3, 50)), Initial: new(pick(h, 0, time.Second, 10*time.Second)),
		Factor: new(pick(h, 1.0, 2.0, 3.0)), MaxDelay: new(pick(h, 15*time.Second, time.Hour)),
	}})
	switch h.IntN(6) {
	case 0:
		n.Delay = time.Duration(h.IntN(20)) * time.Second
	case 1:
		n.RunAt = h.model.now.Add(time.Duration(h.IntN(40)-20) * time.Second)
	}
	if h.chance(0.3) {
		n.Key, n.Hash[0] = fmt.Sprint("key-", h.IntN(12)), byte(pick(h, 1, 1, 1, 2))
	}
	if h.chance(0.2) {
		n.Unique = pick(h, "nightly", "hourly")
	}
	if h.chance(0.2) {
		n.Tags, n.Trace = []string{"x", fmt.Sprint(h.serial)}, "trace"
	}
	if h.chance(0.1) {
		n.Content.Head = []byte("head")
	}
	if h.chance(0.2) {
		n.Policy.Repeat = job.RepeatUnsafe
	}
	if n.Endpoint != "" && h.chance(0.15) {
		n.Kind = job.Synthetic
	}
	if h.chance(0.05) {
		n.Queue = relayQueue
	}
	return n
}

// plainJob is a job that is due at once, and is lost or fails as the default policy
// has it.
func (h *history) plainJob() store.NewJob {
	h.serial++
	return store.NewJob{
		Queue: pick(h, "a", "a", "b", "c"), Task: pick(h, "t", "u"), Version: pick(h, "1", "2"), Endpoint: pick(h, "", "", "e", "f"),
		Content: job.Content{Payload: fmt.Appendf(nil, `{"n":%d}`, h.serial)}, Policy: job.Resolve(), Timeout: time.Hour,
	}
}
