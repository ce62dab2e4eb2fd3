// Package limit bounds how much is sent: Bucket how fast, Budget how many of the
// sends may be repeats.
//
// Both are pure and know no clock: every method is told the time, and a time
// before an earlier one is taken as that one. Neither is safe for concurrent
// use: the caller locks. Neither hands out reservations, so none can be
// forgotten: a caller looks, waits, and takes when it can use what it takes.
package limit
