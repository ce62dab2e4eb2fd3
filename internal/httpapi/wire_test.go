package httpapi

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/duration"
)

// Catches: a pattern in the OpenAPI document that a client checks by and that is
// not what the server takes.
func TestTheDurationPatternIsWhatIsTaken(t *testing.T) {
	pattern := regexp.MustCompile(durationPattern)
	part := rapid.SampledFrom([]string{"", "0", "1", "90", "1.5", ".5", "2.", ".", "-1", "+1", "1e3", "d", "h", "m", "s", "ms", "us", "µs", "μs", "ns", "D", "x", "1h", "3d", "30s"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), "")
		_, err := duration.Parse(text)
		taken := err == nil || strings.Contains(err.Error(), "too long")
		if fits := pattern.MatchString(text); fits != taken {
			t.Fatalf("%q: fits the pattern %t, is taken %t (%v)", text, fits, taken, err)
		}
	})
}
