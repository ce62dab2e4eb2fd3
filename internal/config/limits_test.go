package config

// Catches: a limit or budget that one level says and another loses, a `false`
// that removes nothing, a number that is taken from the wrong level, and a limit
// that nobody asked for.

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/limit"
)

func TestLimitsOverTheLevels(t *testing.T) {
	rate := func(perSecond float64, burst int) *limit.Rate {
		return &limit.Rate{PerSecond: perSecond, Burst: burst}
	}
	budget := func(ratio, least float64, window time.Duration) *limit.BudgetSettings {
		return &limit.BudgetSettings{Ratio: ratio, MinPerSecond: least, Window: window}
	}
	for _, c := range []struct {
		name, defaults, own string
		rate                *limit.Rate
		budget              *limit.BudgetSettings
		from                map[string]string
	}{
		{name: "nothing said", from: map[string]string{"rate_limit": LevelBuiltIn, "retry_budget": LevelBuiltIn}},
		{
			name: "inherited", defaults: "rate_limit: { per_second: 50, burst: 100 }, retry_budget: { ratio: 10% }",
			rate: rate(50, 100), budget: budget(0.1, 10, 10*time.Second),
			from: map[string]string{"rate_limit": LevelDefaults, "rate_limit.burst": LevelDefaults, "retry_budget.ratio": LevelDefaults, "retry_budget.window": LevelBuiltIn},
		},
		{
			name: "field by field", defaults: "rate_limit: { per_second: 50, burst: 100 }, retry_budget: { ratio: 10%, window: 1m }",
			own:  "rate_limit: { per_second: 0.5 }, retry_budget: { ratio: 0, min_per_second: 0.5 }",
			rate: rate(0.5, 100), budget: budget(0, 0.5, time.Minute),
			from: map[string]string{"rate_limit.per_second": LevelDestination, "rate_limit.burst": LevelDefaults, "retry_budget.ratio": LevelDestination, "retry_budget.window": LevelDefaults},
		},
		{
			name: "removed", defaults: "rate_limit: { per_second: 50 }, retry_budget: true", own: "rate_limit: false, retry_budget: false",
			from: map[string]string{"rate_limit": LevelDestination, "retry_budget": LevelDestination},
		},
		{
			name: "brought back", defaults: "rate_limit: false, retry_budget: false", own: "rate_limit: { per_second: 2.5 }, retry_budget: true",
			rate: rate(2.5, 3), budget: budget(0.2, 10, 10*time.Second),
			from: map[string]string{"rate_limit.burst": LevelBuiltIn},
		},
		{
			name: "the numbers of defaults, switched on here", defaults: "rate_limit: { per_second: 50 }", own: "rate_limit: true",
			rate: rate(50, 50), from: map[string]string{"rate_limit": LevelDestination, "rate_limit.per_second": LevelDefaults},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "defaults: { " + c.defaults + " }\ndestinations:\n  - { name: a, type: stdout"
			if c.own != "" {
				text += ", " + c.own
			}
			path := filepath.Join(t.TempDir(), "pawl.yaml")
			write(t, path, text+" }\n")
			got, report := Load([]string{path}, testOptions())
			if got == nil {
				t.Fatal(report.Err())
			}
			d := got.Destinations[0].Delivery
			if diff := cmp.Diff(c.rate, d.RateLimit); diff != "" {
				t.Errorf("rate limit (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.budget, d.RetryBudget); diff != "" {
				t.Errorf("retry budget (-want +got):\n%s", diff)
			}
			for name, level := range c.from {
				if d.From[name] != level {
					t.Errorf("%s is said to come from %q, not %q", name, d.From[name], level)
				}
			}
		})
	}
}
