package metamorphic

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

func (h *history) claim() {
	w := store.Want{Worker: pick(h, "worker-1", "worker-1", "worker-2", "relay:source"), Max: pick(h, 1, 2, 5, 40), MaxBytes: 8 << 20}
	for _, q := range h.Perm(3)[:1+h.IntN(3)] {
		w.Queues = append(w.Queues, store.QueueLease{Queue: string(rune('a' + q)), Lease: pick(h, 3*time.Second, 30*time.Second)})
	}
	if h.chance(0.2) {
		w.Queues = append(w.Queues, store.QueueLease{Queue: pick(h, eventQueue, relayQueue), Lease: 30 * time.Second})
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
		if of := h.model.ofClaim(w); len(of) > 0 && h.chance(0.3) {
			h.cancelOne(pick(h, of...))
		}
	}
	if h.chance(0.2) {
		w.Timeout = pick(h, time.Second, 20*time.Second, 24*time.Hour)
	}
	if w.ClaimID != "" {
		h.claimed = &w
	}
	h.claimFor(w)
}

// claimAll claims everything that can be had by one patient worker, and returns
// what it got.
func (h *history) claimAll() []*modelJob {
	w := store.Want{Worker: "worker-1", Max: 100, MaxBytes: 8 << 20}
	for _, q := range []string{"a", "b", "c", relayQueue} {
		w.Queues = append(w.Queues, store.QueueLease{Queue: q, Lease: 30 * time.Second})
	}
	return h.claimFor(w)
}

func (h *history) claimFor(w store.Want) (got []*modelJob) {
	h.Helper()
	h.tell("claim %+v", w)
	held, could := h.model.held(w), h.model.claimable(w)
	c, err := h.store.Claim(h.ctx, w)
	h.must(err)
	h.same("the claim's time", h.model.now, c.Now)
	if len(held) > 0 {
		h.happened["claims again"]++
		var again []string
		for _, k := range c.Jobs {
			again = append(again, k.Lease)
		}
		slices.Sort(again)
		h.same("the leases again", held, again)
	} else {
		h.lend(w, could, c.Jobs)
	}
	for _, k := range c.Jobs {
		j := h.model.jobs[k.Job.ID]
		h.same("a lease", []any{j.lease.token, j.lease.length, j.lease.until, j.lease.deadline}, []any{k.Lease, k.LeaseFor, k.LeaseUntil, k.Deadline})
		want := j.Job
		want.Attempts, want.LastError, k.Job.LastError = nil, nil, nil
		h.same("a claimed job", &want, k.Job)
		got = append(got, j)
	}
	h.happened["claimed"] += len(c.Jobs)
	h.tell("    got %d of %d", len(c.Jobs), len(could))
	return got
}

// lend holds what was taken against what could have been, one after the other: what
// one takes may shut a gate before the next. In the end nothing is left that the
// claim has room for.
func (h *history) lend(w store.Want, could []*modelJob, got []store.Claimed) {
	h.Helper()
	var ahead []*modelJob
	for _, k := range got {
		j := h.model.jobs[k.Job.ID]
		if j == nil || !h.model.claims(w, j) {
			h.Fatalf("%+v was claimed and could not be: %s", k.Job, h.model.whyNot(j))
		}
		h.model.lend(j, w, k.Lease)
		h.leases = append(h.leases, k.Lease)
		ahead = append(ahead, j)
	}
	if left := h.model.claimable(w); len(got) > w.Max || len(got) < w.Max && len(left) > 0 {
		h.Fatalf("%d jobs claimed of at most %d, and %d more could be", len(got), w.Max, len(left))
	}
	h.checkOrder(ahead, slices.DeleteFunc(could, func(j *modelJob) bool { return j.Status == job.Running }))
}

// checkOrder holds the jobs that were taken against those that were not: by
// priority and age in each queue.
func (h *history) checkOrder(ahead, behind []*modelJob) {
	h.Helper()
	for _, b := range behind {
		passed := map[lane.Key]int{}
		spent := !h.model.endpointOpen(b)
		for _, a := range ahead {
			k := laneOf(&a.Job)
			switch {
			case a.Queue != b.Queue:
			case spent && (a.Endpoint != b.Endpoint || a.Kind != b.Kind):
				// Those before it have used the gate of its endpoint up.
				h.happened["passed over behind a spent gate"]++
			case a.Priority < b.Priority:
				h.Fatalf("%s was taken before %s, which has a higher priority", a.ID, b.ID)
			case a.Priority == b.Priority && a.RunAt.After(b.RunAt):
				if passed[k]++; passed[k] >= lane.Chunk || k == laneOf(&b.Job) {
					h.Fatalf("%s was taken before %s, which was due earlier", a.ID, b.ID)
				}
			}
		}
	}
}
