// Package guide_test holds the guide against the code.
package guide_test

// Catches: YAML in the guide or the README that pawl does not take, a link to
// a page, file or heading that is not there, a command or flag in a shell
// block that pawl does not have, and a metric that it does not have.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/cli"
	"github.com/pawlhq/pawl/internal/config"
)

const root = "../.."

// pages returns every page that people read, by its path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, glob := range []string{"*.md", "docs/*.md", "docs/guide/*.md", "docs/adr/*.md", "docs/reference/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(text)
		}
	}
	if len(all) < 15 {
		t.Fatalf("found only %d pages", len(all))
	}
	return all
}

// blocks returns a page's code blocks of a language.
func blocks(page, language string) []string {
	var found []string
	for rest := page; ; {
		_, after, ok := strings.Cut(rest, "\n```"+language+"\n")
		if !ok {
			return found
		}
		block, tail, _ := strings.Cut(after, "\n```")
		found, rest = append(found, block+"\n"), tail
	}
}

var secret = regexp.MustCompile(`\{\{secrets\.([A-Z_]+)\}\}`)

// The YAML of a page, a file a block, is one configuration. What is no
// configuration of pawl stands in blocks of yml.
func TestYAMLOfEachPageIsAConfiguration(t *testing.T) {
	tested := 0
	for name, page := range pages(t) {
		found := blocks(page, "yaml")
		if len(found) == 0 {
			continue
		}
		tested++
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.CopyFS(filepath.Join(folder, "schemas"), os.DirFS("testdata/schemas")); err != nil {
				t.Fatal(err)
			}
			var paths []string
			for i, block := range found {
				for _, m := range secret.FindAllStringSubmatch(block, -1) {
					t.Setenv(m[1], "bm90IGEgcmVhbCBzZWNyZXQ=") // base64, as Standard Webhooks wants it
				}
				path := filepath.Join(folder, fmt.Sprintf("block%d.yaml", i+1))
				if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
					t.Fatal(err)
				}
				paths = append(paths, path)
			}
			_, report := app.Load(paths, builtin.Connectors())
			if report.Errors() > 0 {
				var text bytes.Buffer
				if err := report.Write(&text, config.Plain); err != nil {
					t.Fatal(err)
				}
				t.Errorf("\n%s", &text)
			}
		})
	}
	if tested < 10 {
		t.Errorf("only %d pages have YAML", tested)
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	all := pages(t)
	for name, page := range all {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, m[1])
				continue
			}
			if anchor != "" && !hasHeading(all[file], anchor) {
				t.Errorf("%s: %s has no heading for the link %s", name, file, m[1])
			}
		}
	}
}

// hasHeading says whether a page has the heading that an anchor means.
func hasHeading(page, anchor string) bool {
	for line := range strings.Lines(page) {
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(strings.TrimSpace(title)))
		if slug == anchor {
			return true
		}
	}
	return false
}

var call = regexp.MustCompile(`(?m)(?:^|\$ |/|sudo |[(|] ?)pawl ([a-z][^#|\n)]*)`)

// Every pawl command in a shell block is one that pawl has, with its flags.
func TestCommands(t *testing.T) {
	tested := 0
	for name, page := range pages(t) {
		for _, language := range []string{"sh", "console"} {
			for _, block := range blocks(page, language) {
				for _, m := range call.FindAllStringSubmatch(block, -1) {
					tested++
					checkCall(t, name, m[1])
				}
			}
		}
	}
	if tested < 40 {
		t.Errorf("only %d calls of pawl were found", tested)
	}
}

var flag = regexp.MustCompile(`(?:^| )--?([a-z][a-z-]*)`)

func checkCall(t *testing.T, page, words string) {
	t.Helper()
	commands := cli.Commands()
	c, rest, err := commands.Find(strings.Fields(words))
	if err != nil || c == commands {
		t.Errorf("%s: pawl %s: there is no such command", page, words)
		return
	}
	for _, m := range flag.FindAllStringSubmatch(" "+strings.Join(rest, " "), -1) {
		if !hasFlag(c, m[1]) {
			t.Errorf("%s: pawl %s: there is no flag %s", page, words, m[1])
		}
	}
}

func hasFlag(c *cobra.Command, name string) bool {
	if len(name) == 1 {
		return c.Flags().ShorthandLookup(name) != nil || c.InheritedFlags().ShorthandLookup(name) != nil
	}
	return c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil
}

var metric = regexp.MustCompile(`pawl_[a-z]+(?:_[a-z]+)+`)

// Every metric on a page is in the reference, which is written from the code.
func TestMetrics(t *testing.T) {
	all := pages(t)
	reference := all["docs/reference/metrics.md"]
	tested := 0
	for name, page := range all {
		for _, m := range metric.FindAllString(page, -1) {
			tested++
			if !strings.Contains(reference, "`"+m+"`") {
				t.Errorf("%s: there is no metric %s", name, m)
			}
		}
	}
	if tested < 40 {
		t.Errorf("only %d metrics were found", tested)
	}
}
