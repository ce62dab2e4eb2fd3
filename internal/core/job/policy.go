package job

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/duration"
)

// The bounds of a policy's values.
const (
	MaxAttempts = 50                  // of max_attempts: with the default waits fifty take almost two days
	MaxFactor   = 100                 // of factor: more reaches any cap in two steps
	MaxInitial  = 24 * time.Hour      // of initial
	MaxDelay    = 30 * 24 * time.Hour // of max_delay, retry_in and retry_after: as long as a dead letter is kept
)

// Policy says how a job is retried.
type Policy struct {
	// MaxAttempts counts the first try: 1 never retries.
	MaxAttempts int
	// Initial is the first wait, Factor how much longer each next one is, up to
	// MaxDelay. Jitter spreads each by that share up and down.
	Initial  time.Duration
	Factor   float64
	MaxDelay time.Duration
	Jitter   float64
}

// BuiltIn is the policy where no level says otherwise: about 21 minutes from
// the first try to the last.
func BuiltIn() Policy {
	return Policy{MaxAttempts: 8, Initial: 10 * time.Second, Factor: 2, MaxDelay: time.Hour, Jitter: 0.25}
}

// Schedule is the policy's waits: Delay(n) = Initial·Factor^(n−1), at most
// MaxDelay, times a random number from 1−Jitter to 1+Jitter.
func (p Policy) Schedule() backoff.Schedule {
	return backoff.Schedule{Initial: p.Initial, Max: p.MaxDelay, Factor: p.Factor, Jitter: backoff.Spread, Spread: p.Jitter}
}

// Level is where a value of a policy comes from, the most specific first.
type Level string

// The levels.
const (
	LevelJob      Level = "job"
	LevelTask     Level = "task"
	LevelEndpoint Level = "endpoint"
	LevelQueue    Level = "queue"
	LevelProject  Level = "project"
	LevelBuiltIn  Level = "built-in"
)

// Levels says where each value of a policy comes from.
type Levels struct{ MaxAttempts, Initial, Factor, MaxDelay, Jitter Level }

// Snapshot is a policy as a job keeps it: later edits of a level change no
// existing job.
type Snapshot struct {
	Policy
	From Levels
	// Repeat is its task's; "" is RepeatSafe.
	Repeat Repeat
	// Input and Output name the schemas of its task's contract by the SHA-256 of
	// their text; zero for none.
	Input, Output SchemaHash
}

// SchemaHash is the SHA-256 of a JSON Schema's text.
type SchemaHash [32]byte

// Overlay is what one level says of a policy. A nil field says nothing.
type Overlay struct {
	MaxAttempts *int
	Initial     *time.Duration
	Factor      *float64
	MaxDelay    *time.Duration
	Jitter      *float64
}

// Said is an overlay and its level.
type Said struct {
	Level   Level
	Overlay Overlay
}

// Resolve takes each value from the first of the levels that says it, the most
// specific first, and from the built-in policy where none does.
func Resolve(levels ...Said) Snapshot {
	s := Snapshot{Policy: BuiltIn(), From: Levels{LevelBuiltIn, LevelBuiltIn, LevelBuiltIn, LevelBuiltIn, LevelBuiltIn}}
	for i := len(levels) - 1; i >= 0; i-- {
		l, o := levels[i].Level, levels[i].Overlay
		set(&s.MaxAttempts, &s.From.MaxAttempts, o.MaxAttempts, l)
		set(&s.Initial, &s.From.Initial, o.Initial, l)
		set(&s.Factor, &s.From.Factor, o.Factor, l)
		set(&s.MaxDelay, &s.From.MaxDelay, o.MaxDelay, l)
		set(&s.Jitter, &s.From.Jitter, o.Jitter, l)
	}
	return s
}

func set[T any](value *T, from *Level, said *T, level Level) {
	if said != nil {
		*value, *from = *said, level
	}
}

// The names of a policy's values, in requests and in the configuration.
const (
	FieldMaxAttempts = "max_attempts"
	FieldInitial     = "initial"
	FieldFactor      = "factor"
	FieldMaxDelay    = "max_delay"
	FieldJitter      = "jitter"
)

// Problem is one thing that is wrong with a level's overlay.
type Problem struct{ Field, Message string }

// Check returns every problem of the overlay at once. It looks at this level
// alone: where an initial wait passes another level's max_delay, the formula's
// minimum stands.
func (o Overlay) Check() []Problem {
	var found []Problem
	add := func(field, format string, args ...any) {
		found = append(found, Problem{field, fmt.Sprintf(format, args...)})
	}
	if v := o.MaxAttempts; v != nil && (*v < 1 || *v > MaxAttempts) {
		add(FieldMaxAttempts, "must be from 1 (no retry) to %d, not %d", MaxAttempts, *v)
	}
	if v := o.Initial; v != nil && (*v < 0 || *v > MaxInitial) {
		add(FieldInitial, "must be from 0s to 24h, not %s", duration.Text(*v))
	}
	if v := o.Factor; v != nil && !(*v >= 1 && *v <= MaxFactor) { // NaN too
		add(FieldFactor, "must be from 1 to %d, not %v", MaxFactor, *v)
	}
	if v := o.MaxDelay; v != nil && (*v < 0 || *v > MaxDelay) {
		add(FieldMaxDelay, "must be from 0s to 30d, not %s", duration.Text(*v))
	}
	if v := o.Jitter; v != nil && !(*v >= 0 && *v <= 1) {
		add(FieldJitter, "must be from 0 to 1, not %v", *v)
	}
	if o.Initial != nil && o.MaxDelay != nil && *o.MaxDelay >= 0 && *o.MaxDelay < *o.Initial {
		add(FieldMaxDelay, "%s is shorter than initial, %s", duration.Text(*o.MaxDelay), duration.Text(*o.Initial))
	}
	return found
}
