// These tests catch a value of a policy that comes from the wrong level, a bound
// that is not the one on paper, and a problem that is not named.
package job_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
)

func TestBuiltInPolicyPassesItsOwnBounds(t *testing.T) {
	p := job.BuiltIn()
	o := job.Overlay{MaxAttempts: &p.MaxAttempts, Initial: &p.Initial, Factor: &p.Factor, MaxDelay: &p.MaxDelay, Jitter: &p.Jitter}
	if found := o.Check(); found != nil {
		t.Errorf("%v", found)
	}
	if want := (job.Policy{MaxAttempts: 8, Initial: 10 * time.Second, Factor: 2, MaxDelay: time.Hour, Jitter: 0.25}); p != want {
		t.Errorf("the built-in policy is %+v", p)
	}
}

// Each value is of the first level that says it, by itself.
func TestResolveValueByValue(t *testing.T) {
	levels := []job.Level{job.LevelJob, job.LevelTask, job.LevelEndpoint, job.LevelQueue, job.LevelProject}
	rapid.Check(t, func(t *rapid.T) {
		says := rapid.Bool()
		var said []job.Said
		want := job.Snapshot{Policy: job.BuiltIn(), From: job.Levels{
			MaxAttempts: job.LevelBuiltIn, Initial: job.LevelBuiltIn, Factor: job.LevelBuiltIn, MaxDelay: job.LevelBuiltIn, Jitter: job.LevelBuiltIn,
		}}
		for i, level := range levels {
			var o job.Overlay
			if says.Draw(t, "max_attempts") {
				o.MaxAttempts = new(i + 1)
				if want.From.MaxAttempts == job.LevelBuiltIn {
					want.MaxAttempts, want.From.MaxAttempts = i+1, level
				}
			}
			if says.Draw(t, "initial") {
				o.Initial = new(time.Duration(i))
				if want.From.Initial == job.LevelBuiltIn {
					want.Initial, want.From.Initial = time.Duration(i), level
				}
			}
			if says.Draw(t, "factor") {
				o.Factor = new(1 + float64(i))
				if want.From.Factor == job.LevelBuiltIn {
					want.Factor, want.From.Factor = 1+float64(i), level
				}
			}
			if says.Draw(t, "max_delay") {
				o.MaxDelay = new(time.Duration(i) * time.Hour)
				if want.From.MaxDelay == job.LevelBuiltIn {
					want.MaxDelay, want.From.MaxDelay = time.Duration(i)*time.Hour, level
				}
			}
			if says.Draw(t, "jitter") {
				o.Jitter = new(float64(i) / 10) // 0 is said, too
				if want.From.Jitter == job.LevelBuiltIn {
					want.Jitter, want.From.Jitter = float64(i)/10, level
				}
			}
			said = append(said, job.Said{Level: level, Overlay: o})
		}
		if d := cmp.Diff(want, job.Resolve(said...)); d != "" {
			t.Fatalf("(-want +got)\n%s", d)
		}
	})
}

func TestBounds(t *testing.T) {
	day := 24 * time.Hour
	attempts := func(v int) job.Overlay { return job.Overlay{MaxAttempts: &v} }
	initial := func(v time.Duration) job.Overlay { return job.Overlay{Initial: &v} }
	factor := func(v float64) job.Overlay { return job.Overlay{Factor: &v} }
	most := func(v time.Duration) job.Overlay { return job.Overlay{MaxDelay: &v} }
	jitter := func(v float64) job.Overlay { return job.Overlay{Jitter: &v} }
	both := func(i, m time.Duration) job.Overlay { return job.Overlay{Initial: &i, MaxDelay: &m} }
	for _, c := range []struct {
		what    string
		overlay job.Overlay
		want    []job.Problem
	}{
		{"nothing", job.Overlay{}, nil},
		{"1 attempt", attempts(1), nil},
		{"50 attempts", attempts(50), nil},
		{"0 attempts", attempts(0), []job.Problem{{"max_attempts", "must be from 1 (no retry) to 50, not 0"}}},
		{"51 attempts", attempts(51), []job.Problem{{"max_attempts", "must be from 1 (no retry) to 50, not 51"}}},
		{"initial 0s", initial(0), nil},
		{"initial 24h", initial(day), nil},
		{"initial -1ns", initial(-1), []job.Problem{{"initial", "must be from 0s to 24h, not -1ns"}}},
		{"initial 24h and 1s", initial(day + time.Second), []job.Problem{{"initial", "must be from 0s to 24h, not 1d1s"}}},
		{"factor 1", factor(1), nil},
		{"factor 100", factor(100), nil},
		{"factor 0.99", factor(0.99), []job.Problem{{"factor", "must be from 1 to 100, not 0.99"}}},
		{"factor 100.5", factor(100.5), []job.Problem{{"factor", "must be from 1 to 100, not 100.5"}}},
		{"factor NaN", factor(math.NaN()), []job.Problem{{"factor", "must be from 1 to 100, not NaN"}}},
		{"factor Inf", factor(math.Inf(1)), []job.Problem{{"factor", "must be from 1 to 100, not +Inf"}}},
		{"max_delay 0s", most(0), nil},
		{"max_delay 30d", most(30 * day), nil},
		{"max_delay -1s", most(-time.Second), []job.Problem{{"max_delay", "must be from 0s to 30d, not -1s"}}},
		{"max_delay 31d", most(31 * day), []job.Problem{{"max_delay", "must be from 0s to 30d, not 31d"}}},
		{"jitter 0", jitter(0), nil},
		{"jitter 1", jitter(1), nil},
		{"jitter -0.1", jitter(-0.1), []job.Problem{{"jitter", "must be from 0 to 1, not -0.1"}}},
		{"jitter 1.1", jitter(1.1), []job.Problem{{"jitter", "must be from 0 to 1, not 1.1"}}},
		{"jitter NaN", jitter(math.NaN()), []job.Problem{{"jitter", "must be from 0 to 1, not NaN"}}},
		{"initial as long as max_delay", both(time.Hour, time.Hour), nil},
		{"initial longer than max_delay", both(2*time.Hour, time.Hour), []job.Problem{{"max_delay", "1h is shorter than initial, 2h"}}},
		{"initial longer than no max_delay of this level", initial(2 * time.Hour), nil}, // than the built-in one
	} {
		if d := cmp.Diff(c.want, c.overlay.Check()); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.what, d)
		}
	}
}

// Every problem at once.
func TestEveryProblemIsNamed(t *testing.T) {
	var got []string
	for _, p := range (job.Overlay{
		MaxAttempts: new(0), Initial: new(48 * time.Hour), Factor: new(0.5), MaxDelay: new(time.Second), Jitter: new(2.0),
	}).Check() {
		got = append(got, p.Field)
	}
	if d := cmp.Diff([]string{"max_attempts", "initial", "factor", "jitter", "max_delay"}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// Levels that do not fit each other still make a schedule: max_delay stands.
func TestMixedLevels(t *testing.T) {
	p := job.Resolve(
		job.Said{Level: job.LevelJob, Overlay: job.Overlay{MaxDelay: new(2 * time.Second), Jitter: new(0.0)}},
		job.Said{Level: job.LevelQueue, Overlay: job.Overlay{Initial: new(time.Minute)}},
	)
	for n := 1; n < 10; n++ {
		if got := p.Schedule().Delay(n, 0.5); got != 2*time.Second {
			t.Errorf("wait %d is %v", n, got)
		}
	}
}

// At any number of tries, the wait is within its bounds and never wraps around.
func TestNoScheduleOverflows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy().Draw(t, "policy")
		n := rapid.IntRange(1, math.MaxInt).Draw(t, "n")
		got := p.Schedule().Delay(n, rapid.Float64Range(0, almostOne).Draw(t, "u"))
		if most := 2 * min(p.MaxDelay, job.MaxDelay); got < 0 || got > most {
			t.Fatalf("wait %d is %v, beyond %v", n, got, most)
		}
	})
}
