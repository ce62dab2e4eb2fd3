package jobserver

import "sync/atomic"

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
}

type totals struct {
	created, found, claimed                               atomic.Int64
	succeeded, failed, released, leaseLost, invalid       atomic.Int64
	sweptTimedOut, sweptLost, sweptUnreceived, sweptGrace atomic.Int64
}

// Totals returns the counts as of now.
func (s *Server) Totals() Totals {
	t := &s.totals
	return Totals{
		Created: t.created.Load(), Found: t.found.Load(), Claimed: t.claimed.Load(),
		Succeeded: t.succeeded.Load(), Failed: t.failed.Load(), Released: t.released.Load(),
		LeaseLost: t.leaseLost.Load(), Invalid: t.invalid.Load(),
		TimedOut: t.sweptTimedOut.Load(), Lost: t.sweptLost.Load(), Unreceived: t.sweptUnreceived.Load(), Graced: t.sweptGrace.Load(),
	}
}
