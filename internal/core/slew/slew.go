// Package slew is a store's clock on one node: it runs with the monotonic clock
// and is drawn to the wall clock slowly, so that a wall clock which is set, by
// hand or by a time service, ends no lease and starts no job by a jump, and two
// readings always differ by about the time that has passed between them.
//
// It is pure: both clocks are handed in.
package slew

import "time"

// Share is how much of the time that passes goes into the correction, at most:
// a tenth, so a wall clock that is 1 s off is reached after 10 s. A lease of 30 s
// is then never shorter than 27 s by another clock.
const Share = 10

// Clock tells a time that never goes back. It is not safe for concurrent use.
type Clock struct {
	at   time.Time     // the newest time told
	mono time.Duration // and when that was
}

// New returns a clock that starts at the wall clock, or at last where that is
// later: the newest time that was kept before a restart, rounded up, or zero for
// none. A wall clock that is behind last is reached slowly, like any other.
func New(wall, last time.Time) *Clock {
	c := &Clock{at: wall.Round(0)} // without a monotonic part, which would count twice
	if last.After(wall) {
		c.at = last.Round(0)
	}
	return c
}

// Now returns the time. mono is how long ago, by the monotonic clock, New was
// called; one that is less than the call before had is taken as that. Where mono
// stood still, so does Now.
func (c *Clock) Now(wall time.Time, mono time.Duration) time.Time {
	passed := max(mono-c.mono, 0)
	c.mono += passed
	c.at = c.at.Add(passed)
	most := passed / Share
	off := min(max(wall.Sub(c.at), -most), most)
	c.at = c.at.Add(off)
	return c.at
}
