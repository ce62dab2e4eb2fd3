package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/storetest"
)

// history is one seed's way through a store and the model.
type history struct {
	*testing.T
	*rand.Rand
	ctx   context.Context
	clock *storetest.Clock
	open  func() store.Store
	leave func() // copies the files, and opens the copy from then on
	store store.Store
	model *model
	keep  store.Retention
	// said are the final reports so far, to be repeated; leases every token.
	said   []store.Report
	leases []string
	// claimed is the newest claim with an id.
	claimed *store.Want
	serial  int
	story   []string
	happened
}

// happened counts what a history met, so that one can tell when histories have
// become too tame.
type happened map[string]int

func (h *history) tell(format string, args ...any) {
	h.story = append(h.story, fmt.Sprintf("%10v  ", h.model.now.Sub(storetest.Start))+fmt.Sprintf(format, args...))
}

// must ends the history at an error that none was to be.
func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *history) same(what string, want, got any) {
	h.Helper()
	if reflect.DeepEqual(want, got) { // what cmp says too, in a tenth of its time
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		h.Fatalf("%s (-model +store):\n%s", what, diff)
	}
}

// run makes a history of so many steps.
func (h *history) run(steps int) {
	h.store = h.open()
	defer func() { h.store.Close() }()
	h.time()
	h.model.reopen()
	for i := range steps {
		h.step()
		h.check()
		if i%25 == 24 {
			h.checkAll()
		}
	}
	h.checkAll()
	h.must(storetest.CheckCounts(h.ctx, h.store))
}

// time tells the model the store's time, which must be what a clock may say.
func (h *history) time() {
	h.Helper()
	now := h.store.Now()
	if now.Before(h.model.now) {
		h.Fatalf("the store's clock went back from %v to %v", h.model.now, now)
	}
	h.model.now = now
}

func (h *history) chance(p float64) bool { return h.Float64() < p }

func pick[T any](h *history, of ...T) T { return of[h.IntN(len(of))] }

func (h *history) step() {
	switch n := h.IntN(100); {
	case n < 16:
		h.create(1)
	case n < 22:
		h.create(2 + h.IntN(12))
	case n < 44:
		h.claim()
	case n < 70:
		h.report()
	case n < 84:
		h.pass()
	case n < 90:
		h.sweep()
	case n < 91:
		h.jump()
	case n < 92:
		h.outage()
	case n < 96:
		h.gate()
	case n < 98:
		h.restart()
	default:
		h.retain()
	}
}

// maxJobs bounds what a history keeps, so that each step can be compared.
const maxJobs = 60

func (h *history) create(n int) {
	if len(h.model.jobs)+n > maxJobs {
		h.retain()
		return
	}
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = h.newJob()
	}
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
	want := make([]store.Created, n)
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
		s += fmt.Sprintf("[%s %s@%s %q %d key %q/%d in %v, %d tries, timeout %v] ",
			j.Queue, j.Task, j.Version, j.Endpoint, j.Priority, j.Key, j.Hash[0], j.Delay, j.Policy.MaxAttempts, j.Timeout)
	}
	return s
}

func (h *history) newJob() store.NewJob {
	h.serial++
	n := store.NewJob{
		Queue: pick(h, "a", "a", "b", "c"), Task: pick(h, "t", "u"), Version: pick(h, "1", "2"), Endpoint: pick(h, "", "", "e", "f"),
		Priority: pick(h, 0, 0, 0, 5, -5), Content: job.Content{Payload: fmt.Appendf(nil, `{"n":%d}`, h.serial)},
		Timeout: pick(h, 5*time.Second, time.Minute, time.Hour),
	}
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
		n.Tags, n.Trace = []string{"x", fmt.Sprint(h.serial)}, "trace"
	}
	if h.chance(0.1) {
		n.Content.Head = []byte("head")
	}
	return n
}

func (h *history) claim() {
	w := store.Want{Worker: pick(h, "worker-1", "worker-1", "worker-2", "relay:source"), Max: pick(h, 1, 2, 5, 40), MaxBytes: 8 << 20}
	for _, q := range h.Perm(3)[:1+h.IntN(3)] {
		w.Queues = append(w.Queues, store.QueueLease{Queue: string(rune('a' + q)), Lease: pick(h, 3*time.Second, 30*time.Second)})
	}
	for range max(h.IntN(5)-2, 0) {
		w.Tasks = append(w.Tasks, lane.Task{Name: pick(h, "t", "u", "none"), Version: pick(h, "", "1", "2")})
	}
	if h.chance(0.4) {
		w.ClaimID, w.Caller = fmt.Sprint("claim-", h.IntN(3)), pick(h, "", "", "key-1")
	}
	if h.claimed != nil && h.chance(0.2) {
		queues := w.Queues
		if w = *h.claimed; h.chance(0.3) {
			w.Queues = queues
			h.happened["claims again of other queues"]++
		}
	}
	if h.chance(0.2) {
		w.Timeout = pick(h, time.Second, 20*time.Second, 24*time.Hour)
	}
	if w.ClaimID != "" {
		h.claimed = &w
	}
	h.tell("claim %+v", w)
	held, could := h.model.held(w), h.model.claimable(w)
	c, err := h.store.Claim(h.ctx, w)
	h.must(err)
	h.same("the claim's time", h.model.now, c.Now)
	if len(held) > 0 {
		h.happened["claims again"]++
		var got []string
		for _, k := range c.Jobs {
			got = append(got, k.Lease)
		}
		slices.Sort(got)
		h.same("the leases again", held, got)
	} else {
		h.checkOrder(w, could, c.Jobs)
		for _, k := range c.Jobs {
			h.model.lend(h.model.jobs[k.Job.ID], w, k.Lease)
			h.leases = append(h.leases, k.Lease)
		}
	}
	for _, k := range c.Jobs {
		l := h.model.jobs[k.Job.ID].lease
		h.same("a lease", []any{l.token, l.length, l.until, l.deadline}, []any{k.Lease, k.LeaseFor, k.LeaseUntil, k.Deadline})
		want := h.model.jobs[k.Job.ID].Job
		want.Attempts, want.LastError, k.Job.LastError = nil, nil, nil
		h.same("a claimed job", &want, k.Job)
	}
	h.happened["claimed"] += len(c.Jobs)
	h.tell("    got %d of %d", len(c.Jobs), len(could))
}

// checkOrder holds what was taken against what could have been: as much as may
// be, by priority and age in each queue.
func (h *history) checkOrder(w store.Want, could []*modelJob, got []store.Claimed) {
	h.Helper()
	if len(got) != min(w.Max, len(could)) {
		h.Fatalf("%d jobs claimed of %d, at most %d", len(got), len(could), w.Max)
	}
	taken := map[string]bool{}
	for _, k := range got {
		if taken[k.Job.ID] {
			h.Fatalf("%s was claimed twice", k.Job.ID)
		}
		taken[k.Job.ID] = true
	}
	var behind, ahead []*modelJob
	for _, j := range could {
		if taken[j.ID] {
			ahead = append(ahead, j)
		} else {
			behind = append(behind, j)
		}
	}
	if len(ahead) != len(got) {
		h.Fatalf("%d of the claimed jobs could not be", len(got)-len(ahead))
	}
	for _, b := range behind {
		passed := map[lane.Key]int{}
		for _, a := range ahead {
			switch {
			case a.Queue != b.Queue:
			case a.Priority < b.Priority:
				h.Fatalf("%s was taken before %s, which has a higher priority", a.ID, b.ID)
			case a.Priority == b.Priority && a.RunAt.After(b.RunAt):
				k := laneOf(&a.Job)
				if passed[k]++; passed[k] >= lane.Chunk || k == laneOf(&b.Job) {
					h.Fatalf("%s was taken before %s, which was due earlier", a.ID, b.ID)
				}
			}
		}
	}
}

func (h *history) report() {
	var reports []store.Report
	for range 1 + h.IntN(4) {
		reports = append(reports, h.newReport())
	}
	h.say(reports)
}

func (h *history) say(reports []store.Report) {
	h.Helper()
	want := make([]store.Answer, len(reports))
	for i, r := range reports {
		h.tell("report %s of %s, hash %d, %+v, after %v", r.Type, r.Lease, r.Hash[0], r.Failure, r.After)
		settled := h.model.tokens[r.Lease] != nil && h.model.tokens[r.Lease].settled
		want[i] = h.model.report(r)
		switch {
		case want[i].Status == store.LeaseLost:
			h.happened["stale reports"]++
		case settled:
			h.happened["reports again"]++
		default:
			h.happened["reports"]++
		}
	}
	got, err := h.store.Report(h.ctx, reports)
	h.must(err)
	h.same("the answers", want, got)
}

func (h *history) newReport() store.Report {
	if len(h.said) > 0 && h.chance(0.15) {
		r := pick(h, h.said...)
		if h.chance(0.2) {
			r.Hash[1]++
		}
		return r
	}
	r := store.Report{
		Queues: pick(h, nil, nil, nil, []string{"a", "b"}, []string{}),
		Type:   pick(h, store.Start, store.Heartbeat, store.AddLog, store.Complete, store.Fail, store.Fail, store.Release),
		Lease:  "lse_garbage",
	}
	if running := h.model.running(); len(running) > 0 && h.chance(0.85) {
		slices.SortFunc(running, func(a, b *modelJob) int { return slices.Index(h.model.order, a.ID) - slices.Index(h.model.order, b.ID) })
		r.Lease = pick(h, running...).lease.token
	} else if len(h.leases) > 0 {
		r.Lease = pick(h, h.leases...)
	}
	h.serial++
	r.Hash[0], r.Hash[2] = byte(h.serial), byte(h.serial>>8)
	switch r.Type {
	case store.AddLog:
		for range 1 + h.IntN(3) {
			n := h.Int64N(6)
			r.Lines = append(r.Lines, job.LogLine{Seq: n, At: storetest.Start, Level: "info", Message: fmt.Sprint("line ", n, " of ", h.serial)})
		}
	case store.Complete:
		r.Result, r.Note = fmt.Appendf(nil, "%d", h.serial), pick(h, "", "cleaned")
		h.said = append(h.said, r)
	case store.Fail:
		r.Error, r.Failure.Permanent = &job.Error{Type: "E", Message: fmt.Sprint("error ", h.serial)}, h.chance(0.1)
		if h.chance(0.3) {
			r.Failure.RetryIn = new(time.Duration(h.IntN(20)) * time.Second)
		}
		if h.chance(0.2) {
			r.Failure.RetryAfter = new(time.Duration(h.IntN(20)) * time.Second)
		}
		h.said = append(h.said, r)
	case store.Release:
		r.After = time.Duration(max(h.IntN(20)-10, 0)) * time.Second
		h.said = append(h.said, r)
	case store.Start, store.Heartbeat:
	}
	return r
}

// pass lets time pass: a moment, some seconds with a sweep in each, or a long
// time without.
func (h *history) pass() {
	switch h.IntN(5) {
	case 0, 1:
		h.clock.Pass(time.Duration(1+h.IntN(3000)) * time.Millisecond)
		h.time()
	case 2, 3:
		for range 1 + h.IntN(35) {
			h.clock.Pass(time.Second)
			h.time()
			h.sweep()
		}
	default:
		h.clock.Pass(time.Duration(1+h.IntN(90)) * time.Second)
		h.time()
		h.tell("time has passed")
	}
}

// outage lets every worker be heard of at one moment and none from then on.
func (h *history) outage() {
	h.create(12)
	h.claim()
	running := h.model.running()
	if len(running) == 0 {
		return
	}
	var reports []store.Report
	for _, j := range running {
		reports = append(reports, store.Report{Type: store.Heartbeat, Lease: j.lease.token})
	}
	h.tell("an outage of %d leases", len(reports))
	h.say(reports)
	for range 70 {
		h.clock.Pass(time.Second)
		h.time()
		h.sweep()
	}
}

func (h *history) sweep() {
	want := h.model.sweep()
	h.happened["gaps"] += h.model.gaps
	h.happened["brakes"] += h.model.brakes
	h.model.gaps, h.model.brakes = 0, 0
	got, err := h.store.Sweep(h.ctx)
	h.must(err)
	if n := want.TimedOut + want.Lost + want.Unreceived + want.Graced; n > 0 {
		h.tell("sweep: %+v", want)
	}
	h.same("the sweep", want, got)
	h.happened["timed out"] += want.TimedOut
	h.happened["lost"] += want.Lost
	h.happened["unreceived"] += want.Unreceived
	h.happened["graced"] += want.Graced
}

func (h *history) jump() {
	d := time.Duration(h.IntN(7200)-3600) * time.Second
	h.clock.Jump(d)
	h.tell("the wall clock jumps by %v", d)
	h.time()
}

func (h *history) gate() {
	g := lane.Gate{Kind: lane.QueueGate, Name: pick(h, "a", "b")}
	if h.chance(0.5) {
		g = lane.Gate{Kind: lane.EndpointGate, Name: pick(h, "e", "f")}
	}
	if _, shut := h.model.gates[g]; h.chance(0.3) || shut && h.chance(0.8) {
		h.tell("resume %v", g)
		delete(h.model.gates, g)
		h.must(h.store.Resume(h.ctx, g, "ops"))
		return
	}
	by := pick(h, "ops", "dev")
	h.tell("pause %v by %s", g, by)
	if _, shut := h.model.gates[g]; !shut {
		h.model.gates[g] = store.Pause{Gate: g, By: by, Since: h.model.now}
	}
	h.must(h.store.Pause(h.ctx, g, by))
}

func (h *history) restart() {
	away := pick(h, 0, time.Second, 10*time.Minute)
	if h.chance(0.5) {
		h.must(h.store.Close())
		h.clock.Pass(away)
		h.store = h.open()
		h.time()
		h.tell("a restart after %v", away)
		h.happened["restarts"]++
	} else {
		h.leave() // what stands in the files at this moment is all that is left
		h.must(h.store.Close())
		h.clock.Pass(away)
		h.store = h.open()
		// The file knows the time of its last commit, not of the last look.
		h.model.now = h.store.Now()
		h.tell("killed, and started after %v", away)
		h.happened["kills"]++
	}
	h.model.reopen()
}

func (h *history) retain() {
	n := h.model.retain(h.keep)
	h.tell("retention of %d", n)
	for more := store.More(true); more; {
		var err error
		more, err = h.store.Retain(h.ctx, h.keep)
		h.must(err)
	}
	h.happened["removed"] += n
}

// check compares what one step may have changed: every job as a list has it, the
// counts and the gates.
func (h *history) check() {
	h.Helper()
	h.time()
	var want []*job.Job
	for i := len(h.model.order) - 1; i >= 0; i-- {
		j := h.model.jobs[h.model.order[i]].Job
		j.Attempts = nil
		want = append(want, &j)
	}
	got, err := storetest.All(h.ctx, h.store, store.Filter{})
	h.must(err)
	h.same("the jobs", want, got)
	kept, err := h.store.Counts(h.ctx)
	h.must(err)
	counts := map[lane.Key]store.LaneCount{}
	for _, c := range kept {
		counts[c.Lane] = c
	}
	h.same("the counts", h.model.counts(), counts)
	paused, err := h.store.Paused(h.ctx)
	h.must(err)
	gates := map[lane.Gate]store.Pause{}
	for _, p := range paused {
		gates[p.Gate] = p
	}
	h.same("the gates", h.model.gates, gates)
}

// checkAll compares each job with every attempt and all that was logged.
func (h *history) checkAll() {
	h.Helper()
	for _, id := range h.model.order {
		j := h.model.jobs[id]
		got, err := h.store.Job(h.ctx, id)
		h.must(err)
		h.same("a job", &j.Job, got)
		for n := 1; n <= j.Attempt; n++ {
			var want []job.LogLine
			for seq := range int64(6) {
				if line, there := j.logs[n][seq]; there {
					want = append(want, line)
				}
			}
			log, err := h.store.Logs(h.ctx, id, n)
			if !slices.ContainsFunc(j.Attempts, func(a job.Attempt) bool { return a.Number == n }) {
				if !errors.Is(err, store.ErrNotFound) {
					h.Fatalf("the log of attempt %d, which is not kept: %v", n, err)
				}
				h.happened["joined hand-backs"]++
				continue
			}
			h.must(err)
			h.same("the log", store.Log{Lines: want}, log)
		}
	}
}
