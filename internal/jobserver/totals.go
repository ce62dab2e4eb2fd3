package jobserver

import (
	"sync/atomic"

	"github.com/pawlhq/pawl/internal/core/histogram"
)

// Totals count what a Server did since it was made, for metrics.
type Totals struct {
	// Created are the jobs that were made, Found those that a key named already.
	Created, Found int64
	// Claimed are the leases that were given.
	Claimed int64
	// Succeeded, Failed and Released are the attempts that a report ended, the
	// repeats of such a report included.
	Succeeded, Failed, Released int64
	// LeaseLost are the reports that came too late, Invalid those that could
	// not be taken.
	LeaseLost, Invalid int64
	// TimedOut, Lost and Unreceived are the attempts that the sweep ended,
	// Graced the leases that it lengthened.
	TimedOut, Lost, Unreceived, Graced int64
	// Cancelled, Retried and Deleted are the jobs that people and programs moved by
	// hand, one by one.
	Cancelled, Retried, Deleted int64
	// Events are what was handed to subscriptions, by how it went.
	Delivered, DeliveriesFailed int64
	// Delay is from when a job could run to its claim, Run from the claim to the
	// report that ended the attempt, which this process took in both.
	Delay, Run histogram.Snapshot
}

type totals struct {
	created, found, claimed                               atomic.Int64
	succeeded, failed, released, leaseLost, invalid       atomic.Int64
	sweptTimedOut, sweptLost, sweptUnreceived, sweptGrace atomic.Int64
	cancelled, retried, deleted                           atomic.Int64
	delivered, undelivered                                atomic.Int64
	delay, run                                            *histogram.Histogram
}

// Totals returns the counts as of now.
func (s *Server) Totals() Totals {
	t := &s.totals
	return Totals{
		Created: t.created.Load(), Found: t.found.Load(), Claimed: t.claimed.Load(),
		Succeeded: t.succeeded.Load(), Failed: t.failed.Load(), Released: t.released.Load(),
		LeaseLost: t.leaseLost.Load(), Invalid: t.invalid.Load(),
		TimedOut: t.sweptTimedOut.Load(), Lost: t.sweptLost.Load(), Unreceived: t.sweptUnreceived.Load(), Graced: t.sweptGrace.Load(),
		Cancelled: t.cancelled.Load(), Retried: t.retried.Load(), Deleted: t.deleted.Load(),
		Delivered: t.delivered.Load(), DeliveriesFailed: t.undelivered.Load(), Delay: t.delay.Read(), Run: t.run.Read(),
	}
}
