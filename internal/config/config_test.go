// What these tests would catch: a mistake in a configuration that is not
// reported, is reported without its place, or hides another one; a secret in
// anything that is printed; an inherited value that is wrong; a key that the
// decoder, the schema and the reference do not agree on; a file that makes the
// loader panic or run for ever.
package config

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testSource stands for a kind of source that listens.
type testSource struct {
	Listen  string             `yaml:"listen" doc:"host:port"`
	Path    string             `yaml:"path" default:"/" doc:"the path"`
	TLS     *setting.ServerTLS `yaml:"tls" doc:"files that make it speak TLS"`
	MaxBody setting.Size       `yaml:"max_body" default:"1MiB" doc:"the largest body"`
	Methods []string           `yaml:"methods" doc:"what is taken"`
	Auth    *testAuth          `yaml:"auth" doc:"who may send"`
}

type testAuth struct {
	Bearer []setting.Secret `yaml:"bearer" doc:"tokens"`
	Scheme string           `yaml:"scheme" enum:"bearer,hmac" doc:"how"`
}

func (s *testSource) Check() []connector.Problem {
	var found []connector.Problem
	if s.Listen == "" {
		found = append(found, connector.Problem{Field: "listen", Message: "must be set, such as 127.0.0.1:8080"})
	}
	if s.Auth != nil && len(s.Auth.Bearer) == 0 {
		found = append(found, connector.Problem{Field: "auth.bearer", Message: "lists no token"})
	}
	return found
}

// testDestination stands for a kind of destination with every type of field.
type testDestination struct {
	testCommon `yaml:",inline"`
	Headers    map[string]setting.Secret `yaml:"headers" jq:"template" doc:"sent along"`
	Token      setting.Secret            `yaml:"token" doc:"a bearer token"`
	Share      float64                   `yaml:"share" default:"0.5" doc:"a number"`
	Ports      []uint16                  `yaml:"ports" doc:"numbers"`
	Retries    *bool                     `yaml:"fresh" doc:"true or false"`
	CA         string                    `yaml:"ca" path:"read" doc:"a file"`
	Wait       setting.Duration          `yaml:"wait" default:"1s" doc:"a duration"`
	Part       setting.Ratio             `yaml:"part" doc:"a ratio"`
}

// CheckBatch stands for a setting that a batch rules out.
func (s *testDestination) CheckBatch(l connector.Load) []connector.Problem {
	if l == connector.ManyMessages && s.Retries != nil {
		return []connector.Problem{{Field: "fresh", Message: "can't go with batch"}}
	}
	return nil
}

type testCommon struct {
	URL string `yaml:"url" doc:"where to"`
}

func (s *testDestination) Check() []connector.Problem {
	var found []connector.Problem
	if !strings.Contains(s.URL, "://") {
		found = append(found, connector.Problem{Field: "url", Message: "must be a URL, not " + s.URL})
	}
	if strings.HasPrefix(s.URL, "http://") {
		found = append(found, connector.Problem{Field: "url", Message: "is not encrypted", Warning: true})
	}
	return found
}

type testFile struct {
	Path string `yaml:"path" path:"append" doc:"the file"`
}

func (s *testFile) Check() []connector.Problem {
	if s.Path == "" {
		return []connector.Problem{{Field: "path", Message: "path must be set"}}
	}
	return nil
}

type testPipe struct{}

func (*testPipe) Check() []connector.Problem { return nil }

// testQueue stands for the kinds on a queue, as source and as destination.
type testQueue struct {
	Queue   string   `yaml:"queue" doc:"the queue"`
	Task    string   `yaml:"task" doc:"the task of what goes in"`
	Version string   `yaml:"version" doc:"its version"`
	Tasks   []string `yaml:"tasks" doc:"the tasks that are taken"`
}

func (s *testQueue) Check() []connector.Problem {
	if s.Queue == "" {
		return []connector.Problem{{Field: "queue", Message: "must be set"}}
	}
	return nil
}

func testRegistry() *connector.Registry {
	return connector.NewRegistry(
		[]connector.SourceKind{{Type: "http", Doc: "Takes requests.", New: func() connector.Settings {
			return &testSource{Path: "/", MaxBody: 1 << 20, Methods: []string{"POST"}}
		}}, {Type: "queue", Doc: "Works a queue.", Pauses: true, New: func() connector.Settings { return &testQueue{} }}},
		[]connector.DestinationKind{
			{Type: "https", Doc: "Sends requests.", Batches: true, Checks: true, ChecksPath: true, New: func() connector.Settings {
				return &testDestination{Share: 0.5, Wait: setting.Duration(1e9)}
			}},
			{Type: "queue", Doc: "Fills a queue.", New: func() connector.Settings { return &testQueue{} }},
			{Type: "file", Doc: "Appends to a file.", Batches: true, Checks: true, New: func() connector.Settings { return &testFile{} }},
			{Type: "stdout", Doc: "Prints.", Pipe: true, New: func() connector.Settings { return &testPipe{} }},
		},
	)
}

const (
	testSecret  = "s3cr3t-value-that-nobody-may-see"
	multiSecret = "first line of a key\nsecond line of a key"
)

func testOptions() Options {
	env := map[string]string{
		"PORT": "8080", "HOST": "127.0.0.1", "EMPTY": "", "WORKERS": "8",
		"TOKEN": testSecret, "KEY": multiSecret, "PIN": "123", "BRACES": "a{{.b}}c", "NUMBER": "12x34",
	}
	return Options{
		Registry: testRegistry(),
		CheckExpr: func(src string) error {
			if strings.Count(src, "(") != strings.Count(src, ")") {
				return &exprError{src}
			}
			return nil
		},
		CheckStore: func(s Store) error {
			switch {
			case strings.Contains(s.Prefix, "{"):
				return errors.New("prefix: must not hold {")
			case strings.HasSuffix(s.URL.Reveal(), "/zero"):
				return errors.New("url: the database is a number, not in " + s.URL.Reveal())
			}
			return nil
		},
		CheckContract: func(text []byte) error {
			if !jsontext.Value(text).IsValid() {
				return errors.New("is no JSON")
			}
			return nil
		},
		EventTypes: []string{"job.created", "job.failed", "circuit.opened"},
		LookupEnv:  func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	}
}

// exprError quotes the expression, as an error of jq does.
type exprError struct{ src string }

func (e *exprError) Error() string { return "unexpected end of " + e.src }

// TestMistakes loads every file (or folder) of testdata/mistakes and compares
// the report with the golden file beside it.
func TestMistakes(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "mistakes"))
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".yaml")
		if !e.IsDir() && name == e.Name() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := e.Name()
			if e.IsDir() {
				path = filepath.Join(path, "pawl.yaml")
			}
			c, report := Load([]string{path}, testOptions())
			if (c == nil) != (report.Errors() > 0) {
				t.Errorf("configuration %v beside %d errors", c != nil, report.Errors())
			}
			if len(report.Problems) == 0 {
				t.Error("no problem was reported")
			}
			var got bytes.Buffer
			if err := report.Write(&got, Plain); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".golden", got.Bytes())
			noSecret(t, got.String())
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// noSecret fails when one of the test's secrets is in s.
func noSecret(t *testing.T, s string) {
	t.Helper()
	for _, secret := range []string{testSecret, "second line of a key", "12x34", ".b}}c"} {
		if strings.Contains(s, secret) {
			t.Errorf("a secret value is in:\n%s", s)
		}
	}
}
