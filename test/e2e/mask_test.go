package e2e

import "regexp"

var masks = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
	{regexp.MustCompile(`"(waited_ms|duration_ms|ms)":[\d.]+`), `"$1":N`},
	{regexp.MustCompile(`\d+(\.\d+)?(µs|ms|s)\b`), "TOOK"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`), "ULID"},
	{regexp.MustCompile(` +`), " "},
}

// masked replaces what differs between two runs.
func masked(s string) string {
	for _, m := range masks {
		s = m.find.ReplaceAllString(s, m.with)
	}
	return s
}
