package metamorphic

import (
	"errors"
	"slices"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/storetest"
)

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
	for _, name := range endpoints {
		got, err := h.store.Circuit(h.ctx, name)
		h.must(err)
		h.sameCircuit(name, got)
	}
	h.checkEvents()
}

// checkAll compares each job with every attempt and all that was logged, and what
// is read seldom.
func (h *history) checkAll() {
	h.Helper()
	h.checkReplays()
	h.checkReader()
	for _, id := range h.model.order {
		j := h.model.jobs[id]
		got, err := h.store.Job(h.ctx, id)
		h.must(err)
		h.same("a job", &j.Job, got)
		for n := 1; n <= j.Attempt+1; n++ {
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
				continue
			}
			h.must(err)
			h.same("the log", store.Log{Lines: want}, log)
		}
	}
}
