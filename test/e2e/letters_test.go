package e2e

import (
	"encoding/json/v2"
	"strings"
	"testing"
	"time"
)

// letter is a line of `pawl dlq list --json`.
type letter struct {
	Letter      string    `json:"letter"`
	ID          string    `json:"id"`
	Reason      string    `json:"reason"`
	Destination string    `json:"destination"`
	Route       string    `json:"route"`
	At          time.Time `json:"at"`
	Attempts    int       `json:"attempts"`
	Error       string    `json:"error"`
	Replays     int       `json:"replays"`
}

// letters lists the open dead letters.
func (s *site) letters(args ...string) []letter {
	s.Helper()
	r := s.run(append([]string{"dlq", "list", "--json"}, args...)...)
	if r.code != 0 {
		s.Fatalf("dlq list exited %d: %s", r.code, r.errOut)
	}
	return decodeLetters(s.TB, r.out)
}

func decodeLetters(t testing.TB, text string) (all []letter) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l letter
		if err := json.Unmarshal([]byte(line), &l, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("dlq list --json: %v in %s", err, line)
		}
		all = append(all, l)
	}
	return all
}

func ids(all []letter) map[string]bool {
	m := map[string]bool{}
	for _, l := range all {
		m[l.ID] = true
	}
	return m
}

func decode[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func containsAny(text string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
