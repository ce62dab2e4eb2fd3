package guide_test

// Catches: a README that shows another configuration than the tour's, and
// output of lint, try and explain in it that pawl does not print.

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/cli"
)

const tour = root + "/examples/tour"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTourIsWhatTheREADMEShows(t *testing.T) {
	shown := strings.Join(blocks(read(t, root+"/README.md"), "yaml"), "")
	if shown == "" || !strings.Contains(read(t, tour+"/pawl.yaml"), shown) {
		t.Errorf("examples/tour/pawl.yaml does not have what the README shows of it:\n%s", shown)
	}
}

// step is a command of a console block and what it printed.
type step struct{ command, output string }

func steps(block string) []step {
	var all []step
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, step{command: strings.TrimSpace(command)})
		} else if len(all) > 0 {
			all[len(all)-1].output += line
		}
	}
	return all
}

func TestREADMEPrintsWhatPawlPrints(t *testing.T) {
	page := read(t, root+"/README.md")
	folder := t.TempDir()
	config := read(t, tour+"/pawl.yaml")
	broken := strings.NewReplacer("deadline:", "deadlin:", "to: [ shop ]", "to: [ shp ]").Replace(config)
	for name, text := range map[string]string{
		"pawl.yaml": config, "order.json": read(t, tour+"/order.json"), "broken.yaml": broken,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	tested := 0
	for _, block := range blocks(page, "console") {
		for _, s := range steps(block) {
			words := strings.Fields(s.command)
			if words[0] != "pawl" || words[1] != "lint" && words[1] != "try" && words[1] != "explain" {
				continue // it talks to a running pawl
			}
			tested++
			var out bytes.Buffer
			cli.Main(words[1:], strings.NewReader(""), &out, &out)
			got := out.String()
			if begin, cut := strings.CutSuffix(s.output, "…\n"); cut { // the rest is not shown
				s.output, got = begin, got[:min(len(begin), len(got))]
			}
			if d := cmp.Diff(strings.TrimSpace(s.output), strings.TrimSpace(got)); d != "" {
				t.Errorf("README: $ %s (-README +pawl):\n%s", s.command, d)
			}
		}
	}
	if tested < 4 {
		t.Errorf("only %d commands of the README were tried", tested)
	}
}
