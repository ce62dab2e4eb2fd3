package circuit

import "time"

// State is whether jobs are let through.
type State string

// The states. The comment says who moves on from them.
const (
	Closed   State = "closed"    // failures in a row, or a person
	Open     State = "open"      // the first claim after the cooldown, or a person
	HalfOpen State = "half_open" // the probe's report, or a person
)

// Settings are the numbers of a circuit.
type Settings struct {
	// Failures in a row open it: 1 to MaxFailures.
	Failures int
	// Cooldown is how long it stays open before one job may find out: MinCooldown
	// to MaxCooldown.
	Cooldown time.Duration
}

// The bounds of the settings, and of what an endpoint may ask for.
const (
	MaxFailures = 1000
	MinCooldown = time.Second
	MaxCooldown = 24 * time.Hour
	// MaxHold is how long a Retry-After holds an endpoint at most: a far side that
	// says more is asked again after an hour.
	MaxHold = time.Hour
	// MinProbe is how long a probe has for itself at least, however short the
	// cooldown is.
	MinProbe = time.Minute
	// MaxKept is how many circuits a store lists.
	MaxKept = 100_000
)

// Defaults are the settings of an endpoint that says nothing.
func Defaults() Settings { return Settings{Failures: 5, Cooldown: time.Minute} }

// Circuit is how a circuit stands. The zero value with State Closed is one that
// nothing happened to.
type Circuit struct {
	State State
	// Failures were counted in a row.
	Failures int
	// Generation counts the changes of state: what began in an older one moves
	// nothing.
	Generation int64
	// OpenedAt is when it opened last, RetryAt when one job may be let through.
	// Both are zero while it is closed.
	OpenedAt, RetryAt time.Time
	// HeldUntil is how long the endpoint asked to be left alone.
	HeldUntil time.Time
	// ProbeAt is when the newest probe was taken; zero where it is not out. Older
	// ones may be, which took too long.
	ProbeAt time.Time
	// FailedTask is the task@version of the probe that failed last: the next one
	// comes from another where one waits.
	FailedTask string
}
