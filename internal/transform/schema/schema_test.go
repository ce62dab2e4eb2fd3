package schema

// These tests would catch a schema that reads files or the network outside its
// folder, a body let through that should not be, an error that shows the body
// or grows with it, and a number that hangs or crashes the check.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
)

// load writes files into a folder and loads the one named main.json.
func load(t testing.TB, files map[string]string) (*Schema, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "schemas")
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Load(filepath.Join(dir, "main.json"))
}

func mustLoad(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := load(t, map[string]string{"main.json": text})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const order = `{
	"type": "object",
	"required": ["id", "items"],
	"properties": {
		"id": {"type": "string", "pattern": "^o-[0-9]+$"},
		"email": {"type": "string", "format": "email"},
		"total": {"type": "number", "minimum": 0, "multipleOf": 0.01},
		"n": {"const": 9007199254740993},
		"items": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}
	},
	"additionalProperties": false
}`

func TestApply(t *testing.T) {
	s := mustLoad(t, order)
	for _, tt := range []struct {
		body string
		want []Violation
	}{
		{`{"id":"o-1","items":[1,2],"total":12.50,"email":"a@example.com","n":9007199254740993}`, nil},
		{`{"id":"o-1","items":[1.0]}`, nil},
		{`not json`, []Violation{{"", "it is not JSON"}}},
		{``, []Violation{{"", "it is not JSON"}}},
		{`[]`, []Violation{{"", "got array, want object"}}},
		{`{}`, []Violation{{"", "missing properties 'id', 'items'"}}},
		{`{"id":"secret-text","items":[]}`, []Violation{{"/id", `it does not match the pattern "^o-[0-9]+$"`}}},
		{`{"id":"o-1","items":[],"email":"secret-text"}`, []Violation{{"/email", "it is no valid email"}}},
		{`{"id":"o-1","items":["x"]}`, []Violation{{"/items/0", "got string, want integer"}}},
		{`{"id":"o-1","items":[],"a/b~c":1}`, []Violation{{"", "additional properties 'a/b~c' not allowed"}}},
		{`{"id":"o-1","items":[],"n":9007199254740992}`, []Violation{{"/n", "value must be 9007199254740993"}}},
		{`{"id":"o-1","items":[],"total":1e999999999}`, []Violation{{"/total", "the number's exponent is past 1000"}}},
		{`{"id":"o-1","items":[],"total":1e-999999999}`, []Violation{{"/total", "the number's exponent is past 1000"}}},
		{`{"id":"o-1","items":[1e99999999999999999999]}`, []Violation{{"/items/0", "the number's exponent is past 1000"}}},
	} {
		m := &message.Message{Body: []byte(tt.body)}
		got, err := s.Apply(t.Context(), m)
		if tt.want == nil {
			if err != nil || got != m {
				t.Errorf("%s: %v", tt.body, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v", tt.body, err)
			continue
		}
		if diff := cmp.Diff(tt.want, e.Violations); diff != "" {
			t.Errorf("%s: %s", tt.body, diff)
		}
		if strings.Contains(err.Error(), "secret-text") {
			t.Errorf("the body is shown: %v", err)
		}
	}
}

func TestPointersAreEscaped(t *testing.T) {
	s := mustLoad(t, `{"additionalProperties": {"type": "string"}}`)
	_, err := s.Apply(t.Context(), &message.Message{Body: []byte(`{"a/b~c":1}`)})
	if err == nil || !strings.Contains(err.Error(), "/a~1b~0c: got number, want string") {
		t.Errorf("got %v", err)
	}
}

func TestViolationsAreBounded(t *testing.T) {
	s := mustLoad(t, order)
	body := `{"id":"o-1","items":["` + strings.Repeat(`x","`, 999) + `y"],"` + strings.Repeat("long", 5000) + `":1}`
	_, err := s.Apply(t.Context(), &message.Message{Body: []byte(body)})
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if len(e.Violations) != MaxViolations || e.Total < 1000 {
		t.Errorf("%d violations listed of %d", len(e.Violations), e.Total)
	}
	if text := err.Error(); len(text) > 10_000 || !strings.HasSuffix(text, fmt.Sprintf("; and %d more", e.Total-MaxViolations)) {
		t.Errorf("%d bytes: …%s", len(text), text[max(len(text)-60, 0):])
	}
}

// TestErrorIsAlwaysTheSame has enough names for every run to meet another order
// of Go's maps.
func TestErrorIsAlwaysTheSame(t *testing.T) {
	s := mustLoad(t, `{"properties": {"f": {"additionalProperties": false}}, "additionalProperties": {"type": "object", "required": ["x"]}}`)
	var fields, inner []string
	for i := range 26 {
		fields = append(fields, fmt.Sprintf(`"%c":1`, 'z'-i))
		inner = append(inner, fmt.Sprintf(`"%c":1`, 'z'-i))
	}
	fields[20] = `"f":{` + strings.Join(inner, ",") + `}` // z down to a: the 21st is f
	check := func(body string, first, last Violation) {
		t.Helper()
		for range 20 {
			_, err := s.Apply(t.Context(), &message.Message{Body: []byte(body)})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff([]Violation{first, last}, []Violation{e.Violations[0], e.Violations[len(e.Violations)-1]}); diff != "" {
				t.Fatal(diff)
			}
		}
	}
	check(`{`+strings.Join(fields, ",")+`}`, Violation{"/a", "got number, want object"}, Violation{"/t", "got number, want object"})
	names := "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z'"
	inside := Violation{"/f", "additional properties " + names + " not allowed"}
	check(`{`+fields[20]+`}`, inside, inside)
	far := Violation{"/a", "the number's exponent is past 1000"}
	check(strings.ReplaceAll(`{`+strings.Join(fields, ",")+`}`, ":1", ":1e9999"), far, far)
}

func TestReferences(t *testing.T) {
	s, err := load(t, map[string]string{
		"main.json":        `{"properties": {"a": {"$ref": "defs/a.json"}, "b": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "null"}}}`,
		"defs/a.json":      `{"$ref": "deep/b.json#/$defs/x"}`,
		"defs/deep/b.json": `{"$defs": {"x": {"type": "string"}}}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), &message.Message{Body: []byte(`{"a":"x","b":null}`)}); err != nil {
		t.Error(err)
	}
	if _, err := s.Apply(t.Context(), &message.Message{Body: []byte(`{"a":1}`)}); err == nil || !strings.Contains(err.Error(), "/a: got number, want string") {
		t.Error(err)
	}
}

func TestLoadRefuses(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(outside, []byte(`{"type":"string"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	many := map[string]string{}
	var refs []string
	for i := range MaxFiles {
		many[fmt.Sprintf("f%d.json", i)] = `{}`
		refs = append(refs, fmt.Sprintf(`{"$ref": "f%d.json"}`, i))
	}
	many["main.json"] = `{"allOf": [` + strings.Join(refs, ",") + `]}`
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a file elsewhere":  {map[string]string{"main.json": `{"$ref": "file://` + outside + `"}`}, "only files in the schema's own folder"},
		"the network":       {map[string]string{"main.json": `{"$ref": "https://example.com/a.json"}`}, "only files in the schema's own folder"},
		"an absolute id":    {map[string]string{"main.json": `{"$id": "https://example.com/main.json", "$ref": "a.json"}`, "a.json": `{}`}, "remove it"},
		"the folder above":  {map[string]string{"main.json": `{"$ref": "../` + filepath.Base(outside) + `"}`}, "no such file"},
		"escaped dots":      {map[string]string{"main.json": `{"$ref": "x/%2e%2e/%2e%2e/outside.json"}`}, "main.json"},
		"no such file":      {map[string]string{"other.json": `{}`}, "no such file"},
		"no JSON":           {map[string]string{"main.json": `{`}, "unexpected EOF"},
		"not a schema":      {map[string]string{"main.json": `{"type": "strin"}`}, "/type"},
		"a bad pattern":     {map[string]string{"main.json": `{"pattern": "["}`}, "pattern"},
		"too large":         {map[string]string{"main.json": `{"x": "` + strings.Repeat("x", MaxFile) + `"}`}, "more than 4194304 bytes"},
		"too many files":    {many, "more than 200 files"},
		"a missing pointer": {map[string]string{"main.json": `{"$ref": "#/$defs/nope"}`}, "nope"},
	} {
		_, err := load(t, tt.files)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %v", name, err)
		}
	}
}

func TestLinksDoNotLeaveTheFolder(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(outside, []byte(`{}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.json"), []byte(`{"$ref": "link.json"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(dir, "main.json")); err == nil {
		t.Error("a link out of the folder is followed")
	}
}

func FuzzApply(f *testing.F) {
	s := mustLoad(f, order)
	for _, b := range []string{`{"id":"o-1","items":[1]}`, `{}`, `[]`, `1e999999999`, `{"id":1e400}`, "x", `{"items":[1e5,100000]}`} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := s.Apply(t.Context(), &message.Message{Body: b})
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%q: %v", b, err)
		}
		if err != nil && (len(e.Violations) == 0 || len(e.Violations) > MaxViolations || len(err.Error()) > 20_000) {
			t.Fatalf("%q: %d violations, %d bytes", b, len(e.Violations), len(err.Error()))
		}
	})
}
