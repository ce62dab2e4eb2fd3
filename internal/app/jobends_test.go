package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// Catches: a series for each queue that somebody makes up, and a counter that goes
// back, or jumps, when a reload names a queue or names it no more.
func TestEndsAreCountedByTheNamesOfTheirMoment(t *testing.T) {
	with := func(queues ...string) *config.Config {
		c := &config.Config{Jobs: &config.Jobs{Queues: map[string]config.Queue{}}}
		for _, q := range queues {
			c.Jobs.Queues[q] = config.Queue{}
		}
		return c
	}
	e := newJobEnds(with("a"))
	ends := []store.Finished{
		{Queue: "a", Status: job.Succeeded, Jobs: 2}, {Queue: "b", Status: job.Succeeded, Jobs: 3},
		{Queue: "a", Status: job.Failed, Jobs: 1}, {Queue: "c", Status: job.Succeeded, Jobs: 4},
	}
	e.add(ends)
	e.configure(with("b"))
	e.add(ends)
	want := map[string]map[job.Status]int64{
		"a":                   {job.Succeeded: 2, job.Failed: 1},
		"b":                   {job.Succeeded: 3},
		telemetry.OtherQueues: {job.Succeeded: 7 + 6, job.Failed: 1},
	}
	if diff := cmp.Diff(want, e.read()); diff != "" {
		t.Error(diff)
	}
}
