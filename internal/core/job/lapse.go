package job

import "time"

// How a sweep uses what is in here, at now, with every running job's Run:
//
//  1. Where Gap(tick, now, lease) holds for a Run, its ends become those of
//     Run.Grace. tick is when the sweep before was; then now is.
//  2. Where a lease has ended by silence, Brake is asked once for the whole
//     sweep. If it holds, the ends of every Run become those of Run.Grace.
//  3. DecideLapse ends what is over by then.
//
// Whoever gives a grace, by either way, remembers when: Silence.Graced. Neither
// that nor Silence.Heard needs to outlive a restart: zero values only make the
// sweep more patient, once.

// MinGap is the shortest pause that Gap takes for one. A sweep comes once a
// second: one that came a second late has kept nobody from reporting.
const MinGap = 2 * time.Second

// Gap reports whether nobody swept from tick to now for so long that workers
// with leases of this length may have had no way to report: more than a third of
// the lease, the time between two heartbeats, and more than MinGap. A zero tick,
// nobody is known to have swept, is a gap: a store that opens, and that nobody
// else can have swept meanwhile, may pass it however short it was closed.
//
// It holds once for one pause, since afterwards tick is now. A server that
// starts again and again within a lease therefore finds no worker lost, and one
// that stays up for a lease finds each.
func Gap(tick, now time.Time, lease time.Duration) bool {
	return now.Sub(tick) > max(lease/3, MinGap)
}

// Silence is what a sweep knows when it finds a lease that silence has ended.
type Silence struct {
	// Heard is when a report, of any lease, was last taken in; zero for never.
	Heard time.Time
	// Graced is when leases were last lengthened because of Gap or Brake; zero
	// for never.
	Graced time.Time
	// Lease is the length of the lease that ended, of the longest where several
	// did.
	Lease time.Duration
	// Running is how many leases there are, Ending how many of them are Ending.
	Running, Ending int
}

// MinBrake is how many leases must end together for Brake to hold. Fewer may
// well be one worker that died, whose jobs should not wait.
const MinBrake = 10

// Brake reports whether it is the path to the workers that is down and not the
// workers: nothing was heard of any of them for two thirds of a lease, and at
// least MinBrake leases and half of the running ones end together. It holds
// once, not again until something was heard.
//
// Two thirds and not the whole: heartbeats come at least every third of a lease,
// each worker's at its own time, so when the path fails the first lease ends two
// thirds of a lease after the last report of all came in, and the others within
// the third after that. For the same reason leases end together when they are
// Ending and not only when they have ended in one sweep.
func Brake(now time.Time, s Silence) bool {
	if !s.Graced.IsZero() && !s.Heard.After(s.Graced) {
		return false
	}
	if !s.Heard.IsZero() && now.Sub(s.Heard) < s.Lease/3*2 {
		return false
	}
	return s.Ending >= MinBrake && s.Ending*2 >= s.Running
}

// Ending reports whether silence has ended the lease, or will within a third of
// its length.
func (r Run) Ending(now time.Time, lease time.Duration) bool {
	return !r.LeaseUntil.After(now.Add(lease / 3))
}

// Grace returns the Run with one full lease from now on, whatever was left of
// the lease and of the timeout; neither gets shorter.
func (r Run) Grace(now time.Time, lease time.Duration) Run {
	least := now.Add(lease)
	r.LeaseUntil, r.Deadline = later(r.LeaseUntil, least), later(r.Deadline, least)
	return r
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
