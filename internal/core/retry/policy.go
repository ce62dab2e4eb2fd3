// Package retry decides whether a failed attempt is worth another, and when.
//
// A policy is resolved from the levels of the configuration (Resolve) and then
// asked after each failure (Decide). The rule: each tag has a rank
// (failure.Rank). Of the failure's tags that stand in either list the highest
// rank decides; where both lists hold one of that rank, never_on wins. A
// failure that matches neither list is retried unless its protocol calls it
// permanent. So a list names only exceptions.
//
// The package is pure: the number of the attempt and the random number are
// handed in. Everything is a plain value and safe for concurrent use; lists
// and maps must not be changed once a policy is in use.
package retry

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// Policy is how one destination retries, with nothing left open.
type Policy struct {
	// Attempts are the tries per endpoint, the first included.
	Attempts int
	// Schedule gives the waits between them.
	Schedule backoff.Schedule
	// RetryOn and NeverOn are the exceptions from the failure's own class.
	RetryOn, NeverOn failure.Tags
	// RespectRetryAfter says to wait what the endpoint asked for instead of
	// the computed backoff, up to MaxRetryAfter.
	RespectRetryAfter bool
	MaxRetryAfter     time.Duration
	// From holds, for each field by its name in the configuration, the level
	// that it comes from.
	From map[string]string
}

// By is what decided that a failure is or is not retried.
type By uint8

// What can decide.
const (
	// ByTransient: no list names the failure, and its class is transient.
	ByTransient By = iota
	// ByPermanent: no list names the failure, and its class is permanent.
	ByPermanent
	// ByRetryOn: the list retry_on names it.
	ByRetryOn
	// ByNeverOn: the list never_on names it.
	ByNeverOn
)

// String returns "class transient", "class permanent", or the list's name.
func (b By) String() string {
	switch b {
	case ByTransient:
		return "class transient"
	case ByPermanent:
		return "class permanent"
	case ByRetryOn:
		return FieldRetryOn
	case ByNeverOn:
		return FieldNeverOn
	}
	return fmt.Sprintf("by(%d)", uint8(b))
}

// Reason says what decided whether a failure is retried.
type Reason struct {
	By By
	// Tag is the failure's tag that the deciding list names, and Rank its
	// rank; empty and zero where the class decided.
	Tag  failure.Tag
	Rank failure.Rank
}

// Retried reports whether the failure is worth another try.
func (r Reason) Retried() bool { return r.By == ByRetryOn || r.By == ByTransient }

// String says it in words: "retry_on names 503", "class permanent".
func (r Reason) String() string {
	if r.Tag == "" {
		return r.By.String()
	}
	return fmt.Sprintf("%v names %s", r.By, r.Tag)
}

// Retryable applies the rule to a failure, which must not be nil.
func (p Policy) Retryable(f *failure.Error) Reason {
	retryRank, neverRank := f.Tags.Highest(p.RetryOn), f.Tags.Highest(p.NeverOn)
	switch {
	case retryRank == 0 && neverRank == 0:
		if f.Class == failure.Permanent {
			return Reason{By: ByPermanent}
		}
		return Reason{By: ByTransient}
	case retryRank > neverRank:
		return Reason{ByRetryOn, named(f.Tags, p.RetryOn, retryRank), retryRank}
	default:
		return Reason{ByNeverOn, named(f.Tags, p.NeverOn, neverRank), neverRank}
	}
}

// named returns the first of tags that the list holds and that has the rank.
func named(tags, list failure.Tags, rank failure.Rank) failure.Tag {
	for _, t := range tags {
		if t.Rank() == rank && list.Has(t) {
			return t
		}
	}
	return ""
}

// Verdict is what becomes of a message after a failed attempt.
type Verdict uint8

// The verdicts.
const (
	// Again: another attempt after Decision.Wait.
	Again Verdict = iota
	// Exhausted: worth another try, but that was the last.
	Exhausted
	// Permanent: not worth another try.
	Permanent
)

// String returns the verdict's name.
func (v Verdict) String() string {
	switch v {
	case Again:
		return "again"
	case Exhausted:
		return "exhausted"
	case Permanent:
		return "permanent"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// Decision is what to do after a failed attempt.
type Decision struct {
	Verdict Verdict
	// Wait is the time from the failure to the next attempt; zero unless Again.
	Wait time.Duration
	// Hold is what the endpoint asked to wait, cut to MaxRetryAfter, and so for
	// how long no message should go there. It is set whatever the verdict; zero
	// where it asked for nothing or is not to be respected.
	Hold time.Duration
	// Why says what decided between trying again and not.
	Why Reason
}

// Decide says what to do after the given attempt (the first is 1) failed with
// f, which must not be nil. u is a random number in [0, 1).
func (p Policy) Decide(f *failure.Error, attempt int, u float64) Decision {
	d := Decision{Why: p.Retryable(f)}
	if p.RespectRetryAfter && f.RetryAfter > 0 {
		d.Hold = min(f.RetryAfter, max(p.MaxRetryAfter, 0))
	}
	switch {
	case !d.Why.Retried():
		d.Verdict = Permanent
	case attempt >= p.Attempts:
		d.Verdict = Exhausted
	case d.Hold > 0:
		d.Wait = d.Hold
	default:
		d.Wait = p.Schedule.Delay(attempt, u)
	}
	return d
}
