package limit

import (
	"fmt"
	"math"
)

// The bounds of a rate.
const (
	// MinPerSecond is one in 100 seconds: what waits longer than that for a
	// token is better put into a queue.
	MinPerSecond = 0.01
	// MaxPerSecond is beyond what one endpoint gets from one relay; a limit
	// above it limits nothing.
	MaxPerSecond = 100_000
	// MaxBurst is ten seconds of the highest rate.
	MaxBurst = 1_000_000
)

// Rate is how fast tokens come, and how many lie ready at most.
type Rate struct {
	// PerSecond is MinPerSecond to MaxPerSecond, counted in whole billionths.
	PerSecond float64
	// Burst is 1 to MaxBurst.
	Burst int
}

// NewRate returns a rate whose burst is a second's worth of tokens, rounded up:
// one second without traffic is made good, never more.
func NewRate(perSecond float64) Rate {
	return Rate{perSecond, int(math.Ceil(between(MinPerSecond, perSecond, MaxPerSecond)))}
}

// Check returns every problem of the rate at once.
func (r Rate) Check() []Problem {
	var found []Problem
	if !(r.PerSecond >= MinPerSecond && r.PerSecond <= MaxPerSecond) { // NaN too
		found = append(found, Problem{"per_second", fmt.Sprintf("must be from 0.01 to 100000, not %v", r.PerSecond)})
	}
	if r.Burst < 1 || r.Burst > MaxBurst {
		found = append(found, Problem{"burst", fmt.Sprintf("must be from 1 to 1000000, not %d", r.Burst)})
	}
	return found
}

// Problem is one thing that is wrong with settings.
type Problem struct {
	// Field is the name of the field in the configuration: "per_second".
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// between returns v within the bounds; not a number is the lower one.
func between(low, v, high float64) float64 {
	if !(v >= low) {
		return low
	}
	return min(v, high)
}
