package sqlite

import (
	"bytes"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	// recentBytes is what the contents of recent jobs take at most: a second of
	// jobs of a KiB at the rate at which one writer makes them.
	recentBytes = 16 << 20
	// recentLargest is the largest content that is kept: larger ones are few, and
	// reading them costs little beside sending them.
	recentLargest = 64 << 10
	// recentJobs bounds how many, so that the map stays small.
	recentJobs = 16 << 10
)

// recent holds what new jobs carry until their first claim, so that it needs no
// read where it comes soon. The writer's alone; the oldest go first.
type recent struct {
	jobs  map[int64]createdJob
	order []int64 // as they came; some may be gone
	bytes int
}

// keep takes a job that was committed. Its content is copied where it may be
// part of something larger.
func (r *recent) keep(seq int64, m createdJob) {
	n := *m.job
	size := n.Content.Size() + jobOverhead
	if size > recentLargest {
		return
	}
	n.Content = job.Content{Payload: bytes.Clone(n.Content.Payload), Head: bytes.Clone(n.Content.Head)}
	n.Key = ""
	if r.jobs == nil {
		r.jobs = map[int64]createdJob{}
	}
	r.jobs[seq] = createdJob{job: &n, at: m.at}
	r.order = append(r.order, seq)
	r.bytes += size
	for r.bytes > recentBytes || len(r.jobs) > recentJobs {
		r.oldest()
	}
	if len(r.order) > 2*recentJobs {
		r.compact()
	}
}

// take returns a job and forgets it.
func (r *recent) take(seq int64) (m createdJob, ok bool) {
	m, ok = r.jobs[seq]
	if ok {
		r.forget(seq, m.job)
	}
	return m, ok
}

func (r *recent) forget(seq int64, n *store.NewJob) {
	delete(r.jobs, seq)
	r.bytes -= n.Content.Size() + jobOverhead
}

func (r *recent) oldest() {
	seq := r.order[0]
	r.order = r.order[1:]
	if m, ok := r.jobs[seq]; ok {
		r.forget(seq, m.job)
	}
}

// compact drops the places of those that are gone.
func (r *recent) compact() {
	left := r.order[:0:0]
	for _, seq := range r.order {
		if _, ok := r.jobs[seq]; ok {
			left = append(left, seq)
		}
	}
	r.order = left
}
