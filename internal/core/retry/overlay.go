package retry

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// The bounds that Check holds an overlay to.
const (
	// MaxAttempts bounds the tries per endpoint: with the longest default wait
	// a hundred are a quarter of an hour, and a queue is the better place for
	// what takes longer.
	MaxAttempts = 100
	// MaxWait bounds every wait: 30 days, the longest a dead letter is usually
	// kept for.
	MaxWait = 30 * 24 * time.Hour
	// MaxTags bounds each list; there are not that many tags that differ.
	MaxTags = 256
)

// Overlay is what one level of the configuration says about retrying. A nil
// field says nothing, so that zero, false and the empty list can be said.
type Overlay struct {
	// Attempts are the tries per endpoint, the first included: 1 to MaxAttempts.
	Attempts *int
	// Backoff is the wait before the first retry; each next is twice as long.
	Backoff *time.Duration
	// MaxBackoff caps the waits.
	MaxBackoff *time.Duration
	// Jitter spreads the waits: full, equal or none.
	Jitter *backoff.Jitter
	// RetryOn are tags that are retried, NeverOn tags that are not.
	RetryOn, NeverOn *failure.Tags
	// RespectRetryAfter says to wait what the endpoint asked for.
	RespectRetryAfter *bool
	// MaxRetryAfter caps what the endpoint may ask for. Nowhere set, it is the
	// resolved MaxBackoff.
	MaxRetryAfter *time.Duration
}

// The names of the fields in the configuration, which Problem.Field and
// Policy.From use.
const (
	FieldAttempts          = "attempts"
	FieldBackoff           = "backoff"
	FieldMaxBackoff        = "max_backoff"
	FieldJitter            = "jitter"
	FieldRetryOn           = "retry_on"
	FieldNeverOn           = "never_on"
	FieldRespectRetryAfter = "respect_retry_after"
	FieldMaxRetryAfter     = "max_retry_after"
)

// BuiltIn returns what holds where no level says otherwise.
func BuiltIn() Overlay {
	return Overlay{
		// Five tries over about three seconds ride out a restart or a dropped
		// connection; what takes longer is for the breaker and the fallbacks.
		Attempts: new(5),
		// Below the time in which people notice, above a network's round trip.
		Backoff: new(200 * time.Millisecond),
		// Longer waits than this hold places that new messages need.
		MaxBackoff: new(10 * time.Second),
		// Callers that failed together must not come back together.
		Jitter:            new(backoff.Full),
		RetryOn:           &failure.Tags{failure.Connect, failure.Timeout, failure.Status5xx, "429"},
		NeverOn:           &failure.Tags{failure.Status4xx},
		RespectRetryAfter: new(true),
	}
}

// Problem is one thing that is wrong with an overlay.
type Problem struct {
	// Field is the name of the field in the configuration.
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// Check returns every problem of the overlay at once, in the order of its
// fields. It looks at this level alone: values that only mixed with another
// level's make little sense are no problem, the smaller one then counts.
func (o Overlay) Check() []Problem {
	var found []Problem
	add := func(field, format string, args ...any) {
		found = append(found, Problem{field, fmt.Sprintf(format, args...)})
	}
	if o.Attempts != nil && (*o.Attempts < 1 || *o.Attempts > MaxAttempts) {
		add(FieldAttempts, "must be from 1 (no retry) to %d, not %d", MaxAttempts, *o.Attempts)
	}
	waits := []struct {
		field string
		value *time.Duration
	}{{FieldBackoff, o.Backoff}, {FieldMaxBackoff, o.MaxBackoff}, {FieldMaxRetryAfter, o.MaxRetryAfter}}
	for _, w := range waits {
		if w.value != nil && (*w.value < 0 || *w.value > MaxWait) {
			add(w.field, "must be from 0s to 30d, not %s", duration.Text(*w.value))
		}
	}
	if o.Backoff != nil && o.MaxBackoff != nil && *o.Backoff > *o.MaxBackoff {
		add(FieldBackoff, "%s is longer than max_backoff, %s", duration.Text(*o.Backoff), duration.Text(*o.MaxBackoff))
	}
	if o.Jitter != nil {
		switch *o.Jitter {
		case backoff.Full, backoff.Equal, backoff.None:
		default: // spread too: a level of the relay has no number for it
			add(FieldJitter, "must be full, equal or none, not %q", string(*o.Jitter))
		}
	}
	for _, l := range []struct {
		field string
		tags  *failure.Tags
	}{{FieldRetryOn, o.RetryOn}, {FieldNeverOn, o.NeverOn}} {
		if l.tags == nil {
			continue
		}
		if len(*l.tags) > MaxTags {
			add(l.field, "holds %d tags; at most %d are allowed", len(*l.tags), MaxTags)
		}
		for _, t := range *l.tags {
			if !t.Valid() {
				add(l.field, "unknown tag %q", string(t))
			}
		}
	}
	if o.RetryOn != nil && o.NeverOn != nil {
		for _, t := range *o.NeverOn {
			if o.RetryOn.Has(t) {
				add(FieldNeverOn, "%q is in retry_on of the same level too; leave it in one of them", string(t))
			}
		}
	}
	return found
}

// Layer is an overlay with the name of the level that it comes from:
// "built-in", "defaults", "group tickets", "destination ledger".
type Layer struct {
	Level string
	Overlay
}

// LevelBuiltIn is the level that Resolve gives to values nobody set.
const LevelBuiltIn = "built-in"

// Resolve makes a policy of the layers, farthest first: a later one wins value
// by value, a list replaces the inherited one whole. BuiltIn stands before the
// first and need not be among them.
//
// A tag that the two lists of different layers both hold stays in the nearer
// one's only. It is not checked: Check each overlay before.
func Resolve(layers ...Layer) Policy {
	var (
		o     = BuiltIn()
		from  = map[string]string{}
		depth = map[string]int{}
	)
	fields := []string{FieldAttempts, FieldBackoff, FieldMaxBackoff, FieldJitter,
		FieldRetryOn, FieldNeverOn, FieldRespectRetryAfter}
	for _, f := range fields {
		from[f] = LevelBuiltIn
	}
	for i, l := range layers {
		set := func(field string) { from[field], depth[field] = l.Level, i+1 }
		take(&o.Attempts, l.Attempts, FieldAttempts, set)
		take(&o.Backoff, l.Backoff, FieldBackoff, set)
		take(&o.MaxBackoff, l.MaxBackoff, FieldMaxBackoff, set)
		take(&o.Jitter, l.Jitter, FieldJitter, set)
		take(&o.RetryOn, l.RetryOn, FieldRetryOn, set)
		take(&o.NeverOn, l.NeverOn, FieldNeverOn, set)
		take(&o.RespectRetryAfter, l.RespectRetryAfter, FieldRespectRetryAfter, set)
		take(&o.MaxRetryAfter, l.MaxRetryAfter, FieldMaxRetryAfter, set)
	}
	if o.MaxRetryAfter == nil {
		o.MaxRetryAfter, from[FieldMaxRetryAfter] = o.MaxBackoff, from[FieldMaxBackoff]
	}
	retryOn, neverOn := slices.Clone(*o.RetryOn), slices.Clone(*o.NeverOn)
	switch r, n := depth[FieldRetryOn], depth[FieldNeverOn]; {
	case r > n:
		neverOn = without(neverOn, retryOn)
	case n > r:
		retryOn = without(retryOn, neverOn)
	}
	return Policy{
		Attempts: *o.Attempts,
		Schedule: backoff.Schedule{Initial: *o.Backoff, Max: *o.MaxBackoff, Factor: 2, Jitter: *o.Jitter},
		RetryOn:  retryOn, NeverOn: neverOn,
		RespectRetryAfter: *o.RespectRetryAfter,
		MaxRetryAfter:     *o.MaxRetryAfter,
		From:              from,
	}
}

// take lets a nearer value win where there is one.
func take[T any](value **T, nearer *T, field string, set func(field string)) {
	if nearer != nil {
		*value = nearer
		set(field)
	}
}

// without returns list but for the tags that other holds.
func without(list, other failure.Tags) failure.Tags {
	return slices.DeleteFunc(list, other.Has)
}
