package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/histogram"
	"github.com/pawlhq/pawl/internal/core/job"
)

// JobState is the job server and its store at one moment.
type JobState struct {
	// Queues count the jobs by where they are. A name may be there twice.
	Queues []QueueState
	// Created, Found and Claimed count jobs since the start: made, named by an
	// idempotency key again, and given to workers.
	Created, Found, Claimed int64
	// Ended counts the attempts that ended since the start.
	Ended map[job.Outcome]int64
	// Finished counts the jobs that came to their end since the start, by queue.
	Finished map[string]map[job.Status]int64
	// Cancelled, Retried and Deleted count the jobs that were moved by hand, one by
	// one.
	Cancelled, Retried, Deleted int64
	// Delivered and Undelivered count the tries of events that subscriptions get.
	Delivered, Undelivered int64
	// Delay is from when jobs could run to their claims, Run from claims to the
	// reports that ended the attempts.
	Delay, Run histogram.Snapshot
	// Circuits are those of endpoints that are not closed, by their state.
	Circuits map[circuit.State]int64
	// LeaseLost and Invalid count reports that changed nothing.
	LeaseLost, Invalid int64
	// Graced counts leases that were lengthened since nobody could report.
	Graced int64
	// Parked are claims that wait for a job now.
	Parked int

	Bytes, WALBytes int64
	// CommitTimes are in seconds, CommitSizes in operations.
	CommitTimes, CommitSizes histogram.Snapshot
	Lanes                    int
}

// QueueState counts the jobs of one queue by their status.
type QueueState struct {
	Name string
	Jobs map[job.Status]int64
	// Oldest is for how long the job that waits longest has been due; 0 for none.
	Oldest time.Duration
}

const (
	// MaxQueueNames is how many queues are a label, those that the configuration
	// names included, which always are: each is nine series, and the API takes
	// 10,000 queues from who may define some.
	MaxQueueNames = 1000
	// OtherQueues is the label of all others. No queue can have this name.
	OtherQueues = "(other)"

	otherHelp = "The queue " + OtherQueues + " is all those past 1,000 names, those of subscriptions, and those that nobody defines."
)

// endings are the outcomes that an attempt can have as yet.
var endings = []job.Outcome{
	job.OutcomeSucceeded, job.OutcomeFailed, job.OutcomeReleased, job.OutcomeTimedOut, job.OutcomeLost, job.OutcomeUnreceived,
}

// ends are the statuses in which a job is finished.
var ends = []job.Status{job.Succeeded, job.Failed, job.Cancelled}

// jobDescs are the metrics of the job server.
type jobDescs struct {
	jobs, created, found, claimed, attempts, finished, refused, graced, parked *prometheus.Desc
	hand, events, delay, run, oldest, circuits                                 *prometheus.Desc
	bytes, wal, commitTimes, commitSizes, lanes                                *prometheus.Desc
}

func newJobDescs() jobDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return jobDescs{
		jobs:        desc("pawl_jobs", "Jobs in the store. "+otherHelp, "queue", "status"),
		created:     desc("pawl_jobs_created_total", "Jobs created, those that the relay made of messages included."),
		found:       desc("pawl_jobs_repeated_total", "Creates that an idempotency key led to a job that was there."),
		claimed:     desc("pawl_jobs_claimed_total", "Jobs given to workers, the relay included."),
		attempts:    desc("pawl_job_attempts_total", "Attempts that ended, by how. A report that a worker sends twice counts twice.", "outcome"),
		finished:    desc("pawl_jobs_finished_total", "Jobs that came to their end: succeeded, dead letters, cancelled. One that is retried and ends again counts again. "+otherHelp, "queue", "status"),
		refused:     desc("pawl_job_reports_refused_total", "Reports of workers that changed nothing: too late, or wrong.", "status"),
		graced:      desc("pawl_job_leases_graced_total", "Leases lengthened once because nobody could report for a while."),
		parked:      desc("pawl_claims_parked", "Claims that wait for a job."),
		hand:        desc("pawl_jobs_moved_by_hand_total", "Jobs that were cancelled, retried or deleted one by one.", "action"),
		events:      desc("pawl_event_deliveries_total", "Tries to bring events to where subscriptions want them.", "outcome"),
		delay:       desc("pawl_job_queue_delay_seconds", "From when a job could run to its claim."),
		run:         desc("pawl_job_run_seconds", "From the claim to the report that ended the attempt."),
		oldest:      desc("pawl_jobs_oldest_due_seconds", "For how long the job that waits longest has been due; of the queues that count as one the longest. "+otherHelp, "queue"),
		circuits:    desc("pawl_circuits", "Circuits of endpoints that are not closed.", "state"),
		bytes:       desc("pawl_store_bytes", "Size of the job store's file."),
		wal:         desc("pawl_store_wal_bytes", "Size of the job store's write-ahead log."),
		commitTimes: desc("pawl_store_commit_seconds", "How long commits of the job store took, the flush to the disk included."),
		commitSizes: desc("pawl_store_commit_operations", "Operations in a commit of the job store: how well commits are shared."),
		lanes:       desc("pawl_store_lanes", "Lanes of the job store: a queue, task, version, endpoint and priority each."),
	}
}

func (d *jobDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.jobs, d.created, d.found, d.claimed, d.attempts, d.finished, d.refused, d.graced, d.parked,
		d.hand, d.events, d.delay, d.run, d.oldest, d.circuits,
		d.bytes, d.wal, d.commitTimes, d.commitSizes, d.lanes,
	}
}

// collect sends the metrics of s; of nil there are none.
func (d *jobDescs) collect(ch chan<- prometheus.Metric, s *JobState) {
	if s == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	counter := func(desc *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), labels...)
	}
	for name, q := range mergeQueues(s.Queues) {
		for _, status := range job.Statuses() {
			gauge(d.jobs, float64(q.Jobs[status]), name, string(status))
		}
		gauge(d.oldest, q.Oldest.Seconds(), name)
	}
	counter(d.hand, s.Cancelled, "cancel")
	counter(d.hand, s.Retried, "retry")
	counter(d.hand, s.Deleted, "delete")
	counter(d.events, s.Delivered, "delivered")
	counter(d.events, s.Undelivered, "failed")
	for desc, h := range map[*prometheus.Desc]histogram.Snapshot{
		d.delay: s.Delay, d.run: s.Run, d.commitTimes: s.CommitTimes, d.commitSizes: s.CommitSizes,
	} {
		buckets := make(map[float64]uint64, len(h.Bounds))
		for i, bound := range h.Bounds {
			buckets[bound] = h.Counts[i]
		}
		ch <- prometheus.MustNewConstHistogram(desc, h.Count, h.Sum, buckets)
	}
	for name, n := range s.Finished {
		for _, status := range ends {
			counter(d.finished, n[status], name, string(status))
		}
	}
	for _, state := range []circuit.State{circuit.Open, circuit.HalfOpen} {
		gauge(d.circuits, float64(s.Circuits[state]), string(state))
	}
	counter(d.created, s.Created)
	counter(d.found, s.Found)
	counter(d.claimed, s.Claimed)
	for _, outcome := range endings {
		counter(d.attempts, s.Ended[outcome], string(outcome))
	}
	counter(d.refused, s.LeaseLost, "lease_lost")
	counter(d.refused, s.Invalid, "invalid")
	counter(d.graced, s.Graced)
	gauge(d.parked, float64(s.Parked))
	gauge(d.bytes, float64(s.Bytes))
	gauge(d.wal, float64(s.WALBytes))
	gauge(d.lanes, float64(s.Lanes))
}

func mergeQueues(all []QueueState) map[string]QueueState {
	by := make(map[string]QueueState, len(all))
	for _, q := range all {
		merged, there := by[q.Name]
		if !there {
			merged = QueueState{Name: q.Name, Jobs: map[job.Status]int64{}}
		}
		for status, n := range q.Jobs {
			merged.Jobs[status] += n
		}
		merged.Oldest = max(merged.Oldest, q.Oldest)
		by[q.Name] = merged
	}
	return by
}
