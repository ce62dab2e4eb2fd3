package config

import (
	"encoding/json/jsontext"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// MinScrubbed is the shortest secret, in bytes, that Redact hides: replacing
// shorter texts would tear unrelated words apart. A shorter secret is a lint
// warning.
const MinScrubbed = 4

const scrubbed = "***"

// Redactor replaces secret values in texts. Safe for concurrent use once Load
// has returned it; the zero value and nil hide nothing.
type Redactor struct {
	values   map[string]struct{}
	replacer *strings.Replacer // of those that are long enough
}

// Redact returns s with every secret value of at least MinScrubbed bytes
// replaced by ***, also in the forms that quoting, JSON and URLs give it.
func (r *Redactor) Redact(s string) string {
	if r == nil || r.replacer == nil {
		return s
	}
	return r.replacer.Replace(s)
}

// Same reports whether other hides what r does, and nothing else.
func (r *Redactor) Same(other *Redactor) bool {
	if r == nil || other == nil {
		return r == other
	}
	return maps.Equal(r.values, other.values)
}

func (r *Redactor) add(value string) {
	if value == "" {
		return
	}
	if r.values == nil {
		r.values = map[string]struct{}{}
	}
	r.values[value] = struct{}{}
}

// seal builds the replacer. Longer texts go first, so that a secret that
// begins another one does not leave the other's tail.
func (r *Redactor) seal() {
	forms := map[string]struct{}{}
	for value := range r.values {
		for _, f := range shapes(value) {
			if len(f) >= MinScrubbed {
				forms[f] = struct{}{}
			}
		}
	}
	sorted := make([]string, 0, len(forms))
	for f := range forms {
		sorted = append(sorted, f)
	}
	slices.SortFunc(sorted, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, f := range sorted {
		pairs = append(pairs, f, scrubbed)
	}
	if len(pairs) > 0 {
		r.replacer = strings.NewReplacer(pairs...)
	}
}

// shapes returns the value and what the usual escapings make of it, and the
// long lines of a value of several lines (a private key printed line by line).
func shapes(value string) []string {
	quoted := strconv.Quote(value)
	ascii := strconv.QuoteToASCII(value)
	forms := []string{
		value, quoted[1 : len(quoted)-1], ascii[1 : len(ascii)-1],
		url.QueryEscape(value), url.PathEscape(value), printable(value),
	}
	if text, err := jsontext.AppendQuote(nil, value); err == nil {
		forms = append(forms, string(text[1:len(text)-1]))
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= 2*MinScrubbed {
				forms = append(forms, line)
			}
		}
	}
	return forms
}
