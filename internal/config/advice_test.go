package config_test

// Would catch: advice that is not given, stands at another place, or is wrong
// about the numbers; and a warning at what is well and only near the bound.

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
)

// TestAdvice loads every file of testdata/advice and compares the report with the
// golden file beside it (go test -update writes them anew).
func TestAdvice(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "advice"))
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 11 {
		t.Fatalf("only %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			_, report := config.Load([]string{file}, config.Options{Registry: builtin.Connectors()})
			if err := report.Err(); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := report.Write(&got, config.Plain); err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(file, ".yaml") + ".golden"
			if flag.Lookup("update").Value.String() == "true" {
				if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
