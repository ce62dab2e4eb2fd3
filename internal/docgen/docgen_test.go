package main

// Catches: a committed reference that is not what the code makes, a page that
// comes out differently the second time, a metric that the telemetry has and
// the page has not, and a command or flag that nobody explained.

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/internal/cli"
	"github.com/pawlhq/pawl/internal/httpapi"
)

const reference = "../../docs/reference"

func TestCommittedReferenceIsFresh(t *testing.T) {
	for _, p := range pages() {
		want, err := p.make()
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		got, err := os.ReadFile(filepath.Join(reference, p.name))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
			t.Errorf("docs/reference/%s is stale; run `go generate ./internal/docgen` and commit (-code +file):\n%s", p.name, d)
		}
	}
}

func TestPagesAreDeterministic(t *testing.T) {
	for range 5 {
		for _, p := range pages() {
			one, err := p.make()
			if err != nil {
				t.Fatal(err)
			}
			two, err := p.make()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(one, two) {
				t.Errorf("%s comes out differently the second time", p.name)
			}
		}
	}
}

// A family without series is not gathered, so the page must be held against
// what is registered.
func TestEveryMetricIsOnThePage(t *testing.T) {
	registry, ok := exemplary().Gatherer().(*prometheus.Registry)
	if !ok {
		t.Fatal("the telemetry has no registry of the known type")
	}
	text, err := metrics()
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc)
	go func() { registry.Describe(descs); close(descs) }()
	name := regexp.MustCompile(`fqName: "(pawl_[a-z_]+)"`)
	found := 0
	for d := range descs {
		m := name.FindStringSubmatch(d.String())
		if m == nil {
			continue // of the runtime
		}
		found++
		if !bytes.Contains(text, []byte("| `"+m[1]+"` |")) {
			t.Errorf("%s is registered and not on the page", m[1])
		}
	}
	if found < 20 {
		t.Errorf("only %d metrics are registered; the test looks in the wrong place", found)
	}
}

// Would catch: a call of the API that the page or the document lacks.
func TestEveryCallIsOnThePage(t *testing.T) {
	page, document := string(apiPage()), string(httpapi.Document(apiVersion))
	calls := httpapi.Calls()
	if len(calls) < 10 {
		t.Errorf("only %d calls", len(calls))
	}
	for _, c := range calls {
		if !strings.Contains(page, "`"+c.Method+" "+c.Path+"` | ") || !strings.Contains(document, `"`+c.Path+`"`) || c.Summary == "" {
			t.Errorf("%s %s is missing, or not explained", c.Method, c.Path)
		}
	}
}

func TestEveryCommandIsExplained(t *testing.T) {
	text := commands(cli.Commands())
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: no short text or no example", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s is not explained", c.CommandPath(), f.Name)
			}
			if !bytes.Contains(text, []byte("--"+f.Name)) {
				t.Errorf("%s: --%s is not on the page", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range shown(c) {
			walk(sub)
		}
	}
	walk(cli.Commands())
}
