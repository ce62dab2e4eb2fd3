package examples_test

// Catches: an example that no longer loads without a problem, that takes its
// sample messages another way than the golden file beside them says, and one
// that has no sample at all.
//
// go test ./examples -update writes the golden files anew; read the diff.

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/message"
)

var update = flag.Bool("update", false, "write the golden files")

// secrets are what the examples name, and values for them.
var secrets = []string{"WEBHOOK_SECRET", "API_TOKEN", "GITHUB_SECRET"}

// examples returns the folders of the examples. The demo's configuration wants
// what the demo sets.
func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*/pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, f := range files {
		if folder := filepath.Dir(f); folder != "demo" {
			folders = append(folders, folder)
		}
	}
	if len(folders) < 8 {
		t.Fatalf("found only the examples %v", folders)
	}
	return folders
}

func load(t *testing.T, folder string) *config.Config {
	t.Helper()
	c, report := app.Load([]string{filepath.Join(folder, "pawl.yaml")}, builtin.Connectors())
	if report.Errors()+report.Warnings() > 0 {
		var text bytes.Buffer
		if err := report.Write(&text, config.Plain); err != nil {
			t.Fatal(err)
		}
		t.Fatalf("an example has no problems, warnings included:\n%s", &text)
	}
	return c
}

func TestExamples(t *testing.T) {
	for _, name := range secrets {
		t.Setenv(name, "an example's secret")
	}
	for _, folder := range examples(t) {
		t.Run(folder, func(t *testing.T) {
			c := load(t, folder)
			samples, err := filepath.Glob(filepath.Join(folder, "*.json"))
			if err != nil {
				t.Fatal(err)
			}
			if len(samples) == 0 {
				t.Fatal("there is no sample message")
			}
			for _, sample := range samples {
				compare(t, strings.TrimSuffix(sample, ".json")+".golden", tried(t, c, sample))
			}
		})
	}
}

// tried says where a sample would go from each source.
func tried(t *testing.T, c *config.Config, sample string) []byte {
	t.Helper()
	body, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	trials := []app.Trial{}
	for i := range c.Sources {
		m := &message.Message{
			ID: "sample", Source: c.Sources[i].Name, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			ContentType: "application/json", Body: body,
		}
		trial, err := app.Try(t.Context(), c, m)
		if err != nil {
			t.Fatal(err)
		}
		trials = append(trials, trial)
	}
	text, err := json.Marshal(trials, jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func compare(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", golden, d)
	}
}

// The examples tell people to set secrets; without them lint must say so.
func TestExamplesNeedTheirSecrets(t *testing.T) {
	for folder, secret := range map[string]string{"webhook-to-api": "WEBHOOK_SECRET", "github-webhook": "GITHUB_SECRET", "stored-intake": "API_TOKEN"} {
		for _, name := range secrets {
			t.Setenv(name, "an example's secret")
		}
		if err := os.Unsetenv(secret); err != nil {
			t.Fatal(err)
		}
		_, report := app.Load([]string{filepath.Join(folder, "pawl.yaml")}, builtin.Connectors())
		if report.Errors() == 0 {
			t.Errorf("%s loads without %s", folder, secret)
		}
	}
}
