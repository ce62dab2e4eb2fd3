package setting

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Size is a number of bytes, written 65536, 64KiB, 1MB, 1.5GiB.
type Size int64

var units = []struct {
	name  string
	bytes uint64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// MaxSize is the largest size, 4 EiB.
const MaxSize Size = 1 << 62

// ParseSize reads a size: a number without a sign and a unit. It is never
// negative and at most MaxSize; a part of a byte is cut off.
func ParseSize(s string) (Size, error) {
	text, unit := strings.TrimSpace(s), uint64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	if text == "" || strings.Trim(text, "0123456789.eE-") != "" || text[0] == '-' {
		return 0, fmt.Errorf("bad size %q; write it like 65536, 64KiB or 1MB", s)
	}
	// Whole numbers exactly: a float has 53 bits.
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		if hi, lo := bits.Mul64(n, unit); hi == 0 && lo <= uint64(MaxSize) {
			return Size(lo), nil
		}
		return 0, fmt.Errorf("bad size %q: it is too large", s)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("bad size %q; write it like 65536, 64KiB or 1MB", s)
	}
	if v *= float64(unit); v > float64(MaxSize) {
		return 0, fmt.Errorf("bad size %q: it is too large", s)
	}
	return Size(v), nil
}

// String writes the size in the largest binary unit that holds it whole.
func (z Size) String() string {
	for _, u := range []struct {
		name  string
		bytes Size
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if z >= u.bytes && z%u.bytes == 0 {
			return strconv.FormatInt(int64(z/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(z), 10)
}

// UnmarshalYAML reads the value from a scalar.
func (z *Size) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("a size is wanted here, like 64KiB")
	}
	v, err := ParseSize(n.Value)
	if err != nil {
		return err
	}
	*z = v
	return nil
}

// MarshalText writes what String writes.
func (z Size) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// Ratio is a share from 0 to 1, written 0.5 or 50%.
type Ratio float64

// ParseRatio reads a ratio.
func ParseRatio(s string) (Ratio, error) {
	text, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) || strings.ContainsAny(text, "xXpP_+") {
		return 0, fmt.Errorf("bad ratio %q; write it like 0.5 or 50%%", s)
	}
	if percent {
		v /= 100
	}
	if v < 0 || v > 1 {
		return 0, fmt.Errorf("bad ratio %q: it must be from 0 to 1, or 0%% to 100%%", s)
	}
	return Ratio(v), nil
}

// String writes the ratio as a decimal number.
func (r Ratio) String() string { return strconv.FormatFloat(float64(r), 'g', -1, 64) }

// UnmarshalYAML reads the value from a scalar.
func (r *Ratio) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("a ratio is wanted here, like 0.5 or 50%%")
	}
	v, err := ParseRatio(n.Value)
	if err != nil {
		return err
	}
	*r = v
	return nil
}

// MarshalText writes what String writes.
func (r Ratio) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
