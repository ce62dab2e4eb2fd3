package deliver

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/limit"
)

// quota is what a destination may send, however many endpoints it has. It is kept
// under the lock of its post.
type quota struct {
	bucket *limit.Bucket // nil: no rate limit
	budget *limit.Budget // nil: no retry budget
	// configured is the rate limit of the configuration, nil for none; lever is
	// what a person put in its place, nil for nothing.
	configured, lever *limit.Rate
	// counted gets a value when the budget has counted something that other relays
	// are to be told of; nil where it is counted here alone.
	counted chan struct{}
}

// tells says that the budget has counted.
func (q *quota) tells() {
	select {
	case q.counted <- struct{}{}:
	default:
	}
}

// wait is when a token of the rate limit comes for one who stands behind others
// that take one each; zero for now.
func (q *quota) wait(now time.Time, others int) time.Time {
	if q.bucket == nil {
		return time.Time{}
	}
	if at := q.bucket.LookPast(now, others); at.After(now) {
		return at
	}
	return time.Time{}
}

// charge asks the budget for a retry or a hedge. False means that it is spent.
func (q *quota) charge(now time.Time) bool {
	if q.budget == nil {
		return true
	}
	q.tells()
	return q.budget.Take(now)
}

// take uses what a send costs: a token, which wait saw at this very moment, and a
// place among the budget's first attempts.
func (q *quota) take(now time.Time, t try) {
	if q.bucket != nil {
		q.bucket.Take(now)
	}
	if q.budget != nil && t == firstTry {
		q.budget.First(now)
		q.tells()
	}
}

// setRate puts the rate in force that the lever or else the configuration says.
// A limit that changes gives no tokens away: as many are missing as before.
func (q *quota) setRate(now time.Time) {
	switch r := q.rate(); {
	case r == nil:
		q.bucket = nil
	case q.bucket == nil:
		q.bucket = limit.NewBucket(*r, now)
	default:
		q.bucket.Configure(now, *r)
	}
}

// rate is the rate limit that holds; nil for none.
func (q *quota) rate() *limit.Rate {
	if q.lever != nil {
		return q.lever
	}
	return q.configured
}

// setBudget puts the numbers in force; nil takes the budget away.
func (q *quota) setBudget(now time.Time, s *limit.BudgetSettings) {
	switch {
	case s == nil:
		q.budget = nil
	case q.budget == nil:
		q.budget = limit.NewBudget(*s, now)
	default:
		q.budget.Configure(now, *s)
	}
}

// try is what a send is to the retry budget.
type try uint8

const (
	firstTry  try = iota // a message's first at the destination: counts for the budget
	repeating            // another round's, charged when that was scheduled, or another member's: no retry
	hedging              // is charged with the send, which does not wait
)
