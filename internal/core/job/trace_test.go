package job

import (
	"strings"
	"testing"
)

// What this would catch: a header that is no trace context and is kept, or passed
// on; a good one that is lost.
func TestParseTrace(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	long := strings.Repeat("a", MaxTraceState)
	for _, c := range []struct {
		parent, state, wantParent, wantState string
		sampled                              bool
	}{
		{good, "", good, "", true},
		{good, "a=1,b=2", good, "a=1,b=2", true},
		{good, "a=1, b=2", good, "a=1, b=2", true},
		{good, long, good, long, true},
		{good[:len(good)-2] + "00", "a=1", good[:len(good)-2] + "00", "a=1", false},
		{good[:len(good)-2] + "0b", "", good[:len(good)-2] + "0b", "", true},
		{good[:len(good)-2] + "0a", "", good[:len(good)-2] + "0a", "", false},
		{good, long + "a", good, "", true},
		{good, "a=\n", good, "", true},
		{good, "a=\xff", good, "", true},
		{good, "ä=1", good, "", true},
		{"", "a=1", "", "", false},
		{"x", "", "", "", false},
		{good + "0", "", "", "", false},
		{strings.ToUpper(good), "", "", "", false},
		{strings.Replace(good, "-", "0", 1), "", "", "", false},
		{strings.Replace(good, "a", "g", 1), "", "", "", false},
		{"ff" + good[2:], "", "", "", false},
		{strings.Replace(good, "b7ad6b7169203331", strings.Repeat("0", 16), 1), "", "", "", false},
		{strings.Replace(good, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1), "", "", "", false},
	} {
		got := ParseTrace(c.parent, c.state)
		if got.Parent() != c.wantParent || got.State() != c.wantState || got.Sampled() != c.sampled {
			t.Errorf("%q %q is %q %q, sampled %t", c.parent, c.state, got.Parent(), got.State(), got.Sampled())
		}
	}
}
