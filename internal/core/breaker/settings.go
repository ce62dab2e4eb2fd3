package breaker

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
)

// Settings are the numbers of a breaker.
type Settings struct {
	// FailureRatio is the share of failures among outcomes that opens it:
	// above 0, at most 1.
	FailureRatio float64
	// MinRequests is how many messages must have outcomes in the window before
	// the ratio means anything: 1 to 100,000.
	MinRequests int
	// Window is how far back outcomes count: 100ms to 24h.
	Window time.Duration
	// OpenFor is how long it stays open at first: 1ms to 24h.
	OpenFor time.Duration
	// MaxOpenFor is how long it stays open at most after failed rounds of
	// trials; at least OpenFor, up to 24h. Equal to OpenFor, nothing is doubled.
	MaxOpenFor time.Duration
	// HalfOpenMax is how many trials may be in flight while half-open, and how
	// many must pass: 1 to 1,000.
	HalfOpenMax int
}

// Defaults returns the settings that hold where the user says nothing.
func Defaults() Settings {
	return Settings{
		// Half of the traffic failing is an outage, a tenth is a bad deploy of
		// one replica that retries get past.
		FailureRatio: 0.5,
		// Fewer say nothing: three failures of five may be chance.
		MinRequests: 20,
		// Long enough to hold 20 messages at one every three seconds.
		Window: 60 * time.Second,
		// A restart takes seconds; a dead endpoint costs one round of trials
		// each time.
		OpenFor: 5 * time.Second,
		// However long an outage was, its end is noticed within a minute.
		MaxOpenFor: 60 * time.Second,
		// Enough to tell luck from health, few enough not to hurt.
		HalfOpenMax: 5,
	}
}

// Problem is one thing that is wrong with settings.
type Problem struct {
	// Field is the name of the field in the configuration: "open_for".
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// Check returns every problem of the settings at once.
func (s Settings) Check() []Problem {
	const day = 24 * time.Hour
	var found []Problem
	add := func(field, format string, args ...any) {
		found = append(found, Problem{field, fmt.Sprintf(format, args...)})
	}
	if !(s.FailureRatio > 0 && s.FailureRatio <= 1) { // NaN too
		add("failure_ratio", "must be above 0 and at most 1 (100%%), not %v", s.FailureRatio)
	}
	if s.MinRequests < 1 || s.MinRequests > 100_000 {
		add("min_requests", "must be from 1 to 100000, not %d", s.MinRequests)
	}
	if s.Window < 100*time.Millisecond || s.Window > day {
		add("window", "must be from 100ms to 24h, not %s", duration.Text(s.Window))
	}
	if s.OpenFor < time.Millisecond || s.OpenFor > day {
		add("open_for", "must be from 1ms to 24h, not %s", duration.Text(s.OpenFor))
	}
	switch {
	case s.MaxOpenFor > day:
		add("max_open_for", "must be at most 24h, not %s", duration.Text(s.MaxOpenFor))
	case s.MaxOpenFor < s.OpenFor:
		add("max_open_for", "%s is shorter than open_for, %s", duration.Text(s.MaxOpenFor), duration.Text(s.OpenFor))
	}
	if s.HalfOpenMax < 1 || s.HalfOpenMax > 1000 {
		add("half_open_max", "must be from 1 to 1000, not %d", s.HalfOpenMax)
	}
	return found
}
