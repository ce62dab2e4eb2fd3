package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/histogram"
	"github.com/pawlhq/pawl/internal/core/job"
)

// Would catch: a figure of the job server under another's name, a status or an
// outcome without its series, a queue that stands twice and breaks the scrape,
// series of a job server that is not there.
func TestJobMetrics(t *testing.T) {
	jobs := &JobState{
		Queues: []QueueState{
			{Name: "emails", Jobs: map[job.Status]int64{job.Queued: 1, job.Running: 2, job.Succeeded: 3, job.Failed: 4, job.Cancelled: 5}, Oldest: 2 * time.Second},
			{Name: "emails", Jobs: map[job.Status]int64{job.Queued: 10}},
			{Name: OtherQueues, Jobs: map[job.Status]int64{job.Queued: 7}, Oldest: 3 * time.Second},
		},
		Created: 21, Found: 22, Claimed: 23,
		Ended: map[job.Outcome]int64{
			job.OutcomeSucceeded: 31, job.OutcomeFailed: 32, job.OutcomeReleased: 33,
			job.OutcomeTimedOut: 34, job.OutcomeLost: 35, job.OutcomeUnreceived: 36,
		},
		Cancelled: 61, Retried: 62, Deleted: 63, Delivered: 64, Undelivered: 65,
		Finished: map[string]map[job.Status]int64{
			"emails":    {job.Succeeded: 81, job.Failed: 82, job.Cancelled: 83},
			OtherQueues: {job.Failed: 84},
		},
		Delay:     histogram.Snapshot{Bounds: []float64{0.1, 5}, Counts: []uint64{1, 3}, Count: 4, Sum: 12.5},
		Run:       histogram.Snapshot{Bounds: []float64{0.1, 5}, Counts: []uint64{2, 2}, Count: 7, Sum: 90},
		Circuits:  map[circuit.State]int64{circuit.Open: 71, circuit.HalfOpen: 72},
		LeaseLost: 41, Invalid: 42, Graced: 43, Parked: 44,
		Bytes: 51, WALBytes: 52, Lanes: 55,
		CommitTimes: histogram.Snapshot{Bounds: []float64{0.001, 0.5}, Counts: []uint64{50, 53}, Count: 53, Sum: 1.5},
		CommitSizes: histogram.Snapshot{Bounds: []float64{1, 16}, Counts: []uint64{52, 53}, Count: 53, Sum: 54},
	}
	now := jobs
	tel := New(Options{StateFolder: ".", Snapshot: func() State { return State{Jobs: now} }})
	var got strings.Builder
	for line := range strings.Lines(scrape(t, tel)) {
		if strings.Contains(line, "pawl_job") || strings.Contains(line, "pawl_store") || strings.Contains(line, "pawl_claims") || strings.Contains(line, "pawl_circuits") || strings.Contains(line, "pawl_event_") {
			got.WriteString(line)
		}
	}
	golden(t, "jobs.golden", got.String())
	now = nil
	if text := scrape(t, tel); strings.Contains(text, "pawl_jobs") || strings.Contains(text, "pawl_store") {
		t.Errorf("without a job server:\n%s", text)
	}
}
