package setting

import (
	"fmt"
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
	d, err := duration.Parse(s)
	return Duration(d), err
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
