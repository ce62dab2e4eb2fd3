// Package balance picks the member of a group that a message goes to next, and
// keeps how fast answers came: by member for the strategy LeastLatency, and of a
// whole destination for a hedge after its 95th percentile.
//
// It is pure: it knows no clock and no random source, and every method is told
// the time. A time before an earlier one is taken as that one. Nothing here is
// safe for concurrent use: the caller locks.
package balance
