package limit

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
)

// The bounds of a budget.
const (
	maxRatio  = 10
	minWindow = 100 * time.Millisecond
	maxWindow = 24 * time.Hour
)

// BudgetSettings are the numbers of a Budget.
type BudgetSettings struct {
	// Ratio is how many repeats each first attempt allows: 0 to 10, counted in
	// whole millionths.
	Ratio float64
	// MinPerSecond is how many repeats a second are allowed without any first
	// attempt, so that a destination with little traffic can retry at all: 0 to
	// MaxPerSecond, counted in whole millionths.
	MinPerSecond float64
	// Window is how far back both are counted: 100ms to 24h.
	Window time.Duration
}

// DefaultBudget returns the settings that hold where the user says nothing of
// them.
func DefaultBudget() BudgetSettings {
	return BudgetSettings{
		// A fifth more load is what an endpoint in trouble can be expected to
		// bear; each failing message retried four times is five times the load.
		Ratio: 0.2,
		// Enough for a hundred messages in ten seconds, too few to hurt.
		MinPerSecond: 10,
		// As long as a spike of failures lasts that retries can get past.
		Window: 10 * time.Second,
	}
}

// Check returns every problem of the settings at once.
func (s BudgetSettings) Check() []Problem {
	var found []Problem
	add := func(field, format string, args ...any) {
		found = append(found, Problem{field, fmt.Sprintf(format, args...)})
	}
	if !(s.Ratio >= 0 && s.Ratio <= maxRatio) { // NaN too
		add("ratio", "must be from 0 to 10, not %v", s.Ratio)
	}
	if !(s.MinPerSecond >= 0 && s.MinPerSecond <= MaxPerSecond) {
		add("min_per_second", "must be from 0 to 100000, not %v", s.MinPerSecond)
	}
	if s.Window < minWindow || s.Window > maxWindow {
		add("window", "must be from 100ms to 24h, not %s", duration.Text(s.Window))
	}
	return found
}

const (
	million = 1_000_000
	// maxFirsts bounds what is multiplied: more than a day at a million a second.
	maxFirsts = 100_000_000_000
)

// allowance is a budget's formula in whole numbers, millionths of a repeat.
type allowance struct {
	each  int64 // for each first attempt
	floor int64 // for the window
}

// allowance returns the formula, with the window that is in force.
func (s BudgetSettings) allowance(window time.Duration) allowance {
	perSecond := math.Round(between(0, s.MinPerSecond, MaxPerSecond) * million)
	high, low := bits.Mul64(uint64(perSecond), uint64(window))
	floor, _ := bits.Div64(high, low, uint64(time.Second)) // at most a day's, 8.64·10^15
	return allowance{
		each:  int64(math.Round(between(0, s.Ratio, maxRatio) * million)),
		floor: int64(floor),
	}
}

// left returns how many more repeats are allowed, 0 where more were taken than
// that. The product is at most 10^18.
func (a allowance) left(c Counts) int64 {
	return max((a.each*min(c.Firsts, maxFirsts)+a.floor)/million-c.Taken, 0)
}
