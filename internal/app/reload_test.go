package app

// Catches: a refused reload whose log is one long line, or that tells a number
// or the problems of no configuration.

import (
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"
)

// record is a line of the log.
type record struct {
	Level      string `json:"level"`
	Text       string `json:"msg"`
	At         string `json:"at"`
	Error      string `json:"error"`
	Generation *int   `json:"generation"`
	Problems   int    `json:"problems"`
}

// records returns the lines of the log about the configuration.
func (w *world) records() (all []record) {
	w.Helper()
	for line := range strings.Lines(w.logged()) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			w.Fatalf("%s: %v", line, err)
		}
		if strings.Contains(r.Text, "configuration") {
			all = append(all, r)
		}
	}
	return all
}

func TestRefusedReloadIsLoggedByProblem(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.conf(ep.URL, ""))
	r := w.start()
	var wrong strings.Builder
	for i := range maxLogged + 5 {
		fmt.Fprintf(&wrong, "nosuch%d: 1\n", i)
	}
	w.write(w.conf(ep.URL, wrong.String()))
	_, err := r.Reload(t.Context())
	if err == nil || strings.Count(err.Error(), "unknown key") != maxLogged+5 {
		t.Errorf("the caller is told: %v", err)
	}
	r.end() // the last lines are written
	var problems, more, refused int
	for _, l := range w.records() {
		switch {
		case strings.HasPrefix(l.Text, "configuration: unknown key"):
			problems++
			if l.Level != "ERROR" || !strings.Contains(l.At, "pawl.yaml:") {
				t.Errorf("a problem: %+v", l)
			}
		case strings.HasPrefix(l.Text, "configuration: more"):
			more = l.Problems
		case l.Text == "configuration refused":
			refused++
			if l.Generation != nil || strings.ContainsAny(l.Error, "\n\\") || !strings.Contains(l.Error, fmt.Sprint(maxLogged+5)) {
				t.Errorf("the refusal: %+v", l)
			}
		}
	}
	if problems != maxLogged || more != 5 || refused != 1 {
		t.Errorf("%d problems, %d more, %d refusals; want %d, 5, 1\n%s", problems, more, refused, maxLogged, w.logged())
	}
}
