package cli

import "testing"

func TestParseMeminfo(t *testing.T) {
	for text, want := range map[string]int64{
		"MemFree: 1 kB\nMemTotal:       24599540 kB\n": 24599540 << 10,
		"MemTotal: lots\n": 0,
		"":                 0,
	} {
		if got := parseMeminfo([]byte(text)); got != want {
			t.Errorf("parseMeminfo(%q) = %d, want %d", text, got, want)
		}
	}
}
