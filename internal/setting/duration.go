package setting

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/duration"
)

// Duration is a length of time, written as a Go duration with d for days:
// 250ms, 1m30s, 7d, 1d12h. Never negative.
type Duration time.Duration

// D returns the value as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String writes the shortest form that ParseDuration reads back.
func (d Duration) String() string { return duration.Text(d.D()) }

// ParseDuration reads a duration. A number without a unit is an error but for
// 0, and so are a negative one and one past 292 years.
func ParseDuration(s string) (Duration, error) {
	bad := func() (Duration, error) {
		return 0, fmt.Errorf("bad duration %q; write it like 250ms, 30s, 5m, 2h or 7d", s)
	}
	rest := strings.TrimSpace(s)
	if rest == "" {
		return bad()
	}
	if strings.HasPrefix(rest, "-") {
		return 0, fmt.Errorf("bad duration %q: it can't be negative", s)
	}
	var total time.Duration
	if n, after, ok := strings.Cut(rest, "d"); ok {
		days, err := strconv.ParseFloat(n, 64)
		if err != nil || days < 0 || math.IsNaN(days) || strings.ContainsAny(n, "eExXpP_+iInN") {
			return bad()
		}
		if days > float64(math.MaxInt64)/float64(duration.Day) {
			return 0, fmt.Errorf("bad duration %q: it is too long", s)
		}
		total = time.Duration(days * float64(duration.Day))
		if rest = after; rest == "" {
			return Duration(total), nil
		}
	}
	if rest[0] == '+' || rest[0] == '-' {
		return bad()
	}
	t, err := time.ParseDuration(rest)
	if err != nil || t < 0 {
		return bad()
	}
	if t > math.MaxInt64-total {
		return 0, fmt.Errorf("bad duration %q: it is too long", s)
	}
	return Duration(total + t), nil
}

// UnmarshalYAML reads the value from a scalar.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("a duration is wanted here, like 30s")
	}
	v, err := ParseDuration(n.Value)
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// MarshalText writes what String writes.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
