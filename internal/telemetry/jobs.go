package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	// LeaseLost and Invalid count reports that changed nothing.
	LeaseLost, Invalid int64
	// Graced counts leases that were lengthened since nobody could report.
	Graced int64
	// Parked are claims that wait for a job now.
	Parked int

	Bytes, WALBytes     int64
	Commits, Operations int64
	LastCommit          time.Duration
	Lanes               int
}

// QueueState counts the jobs of one queue by their status.
type QueueState struct {
	Name string
	Jobs map[job.Status]int64
}

// OtherQueues is the label of the queues that the configuration does not name:
// their names are no label, since their number has no bound. No queue can have
// this name.
const OtherQueues = "(other)"

// endings are the outcomes that an attempt can have as yet.
var endings = []job.Outcome{
	job.OutcomeSucceeded, job.OutcomeFailed, job.OutcomeReleased, job.OutcomeTimedOut, job.OutcomeLost, job.OutcomeUnreceived,
}

// jobDescs are the metrics of the job server.
type jobDescs struct {
	jobs, created, found, claimed, attempts, refused, graced, parked *prometheus.Desc
	bytes, wal, commits, operations, lastCommit, lanes               *prometheus.Desc
}

func newJobDescs() jobDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return jobDescs{
		jobs:       desc("pawl_jobs", "Jobs in the store. Queues that are not configured count as "+OtherQueues+".", "queue", "status"),
		created:    desc("pawl_jobs_created_total", "Jobs created, those that the relay made of messages included."),
		found:      desc("pawl_jobs_repeated_total", "Creates that an idempotency key led to a job that was there."),
		claimed:    desc("pawl_jobs_claimed_total", "Jobs given to workers, the relay included."),
		attempts:   desc("pawl_job_attempts_total", "Attempts that ended, by how. A report that a worker sends twice counts twice.", "outcome"),
		refused:    desc("pawl_job_reports_refused_total", "Reports of workers that changed nothing: too late, or wrong.", "status"),
		graced:     desc("pawl_job_leases_graced_total", "Leases lengthened once because nobody could report for a while."),
		parked:     desc("pawl_claims_parked", "Claims that wait for a job."),
		bytes:      desc("pawl_store_bytes", "Size of the job store's file."),
		wal:        desc("pawl_store_wal_bytes", "Size of the job store's write-ahead log."),
		commits:    desc("pawl_store_commits_total", "Commits of the job store."),
		operations: desc("pawl_store_operations_total", "Operations in those commits: their ratio is how well commits are shared."),
		lastCommit: desc("pawl_store_last_commit_seconds", "How long the newest commit took, the flush to the disk included."),
		lanes:      desc("pawl_store_lanes", "Lanes of the job store: a queue, task, version, endpoint and priority each."),
	}
}

func (d *jobDescs) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.jobs, d.created, d.found, d.claimed, d.attempts, d.refused, d.graced, d.parked,
		d.bytes, d.wal, d.commits, d.operations, d.lastCommit, d.lanes,
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
	for name, jobs := range mergeQueues(s.Queues) {
		for _, status := range job.Statuses() {
			gauge(d.jobs, float64(jobs[status]), name, string(status))
		}
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
	counter(d.commits, s.Commits)
	counter(d.operations, s.Operations)
	gauge(d.lastCommit, s.LastCommit.Seconds())
	gauge(d.lanes, float64(s.Lanes))
}

func mergeQueues(all []QueueState) map[string]map[job.Status]int64 {
	by := make(map[string]map[job.Status]int64, len(all))
	for _, q := range all {
		if by[q.Name] == nil {
			by[q.Name] = map[job.Status]int64{}
		}
		for status, n := range q.Jobs {
			by[q.Name][status] += n
		}
	}
	return by
}
