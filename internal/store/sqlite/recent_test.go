package sqlite

import (
	"bytes"
	"testing"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// Catches: a cache of new jobs that grows without bound, gives a job out twice,
// or lends memory that its producer may use again.

func TestRecentIsBounded(t *testing.T) {
	var r recent
	payload := bytes.Repeat([]byte("x"), 10<<10)
	for seq := int64(1); seq <= 5*recentJobs; seq++ {
		r.keep(seq, createdJob{job: &store.NewJob{Content: job.Content{Payload: payload}}, at: seq})
		if seq%3 == 0 {
			r.take(seq)
		}
		if r.bytes > recentBytes || len(r.jobs) > recentJobs || len(r.order) > 2*recentJobs+1 {
			t.Fatalf("%d bytes, %d jobs, %d places after %d", r.bytes, len(r.jobs), len(r.order), seq)
		}
	}
	if len(r.jobs) < 1000 {
		t.Errorf("only %d jobs are kept", len(r.jobs))
	}
	for seq := range r.jobs {
		r.take(seq)
	}
	if r.bytes != 0 {
		t.Errorf("%d bytes are left of no jobs", r.bytes)
	}
	r.keep(1, createdJob{job: &store.NewJob{Content: job.Content{Payload: make([]byte, recentLargest)}}})
	if len(r.jobs) != 0 {
		t.Error("a large job is kept")
	}
}

func TestRecentGivesOnceAndItsOwnMemory(t *testing.T) {
	var r recent
	payload := []byte(`{"n":1}`)
	r.keep(7, createdJob{job: &store.NewJob{Queue: "q", Content: job.Content{Payload: payload}}, at: 3})
	clear(payload)
	got, ok := r.take(7)
	if !ok || got.at != 3 || got.job.Queue != "q" || string(got.job.Content.Payload) != `{"n":1}` {
		t.Errorf("%+v, %t", got, ok)
	}
	if _, again := r.take(7); again {
		t.Error("it is given twice")
	}
}
