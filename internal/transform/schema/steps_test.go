package schema

// What these tests would catch: a body of a few bytes that keeps a core busy for as
// long as it likes, and a large honest one that is refused.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	recursive = `{%s"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[
		{"type":"object","properties":{"l":{"$ref":"#/$defs/n"}},"required":["l","x"]},
		{"type":"object","properties":{"l":{"$ref":"#/$defs/n"}}}]}}}`
	draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
)

// doubling is a schema in which each of so many levels looks twice at the next.
func doubling(levels int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"a%d":{"type":"object"}}}`, levels)
	return b.String()
}

func TestACheckIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ schema, body string }{
		"2020-12":  {fmt.Sprintf(recursive, ""), strings.Repeat(`{"l":`, 90) + "{}" + strings.Repeat("}", 90)},
		"draft-07": {fmt.Sprintf(recursive, draft7), strings.Repeat(`{"l":`, 90) + "{}" + strings.Repeat("}", 90)},
		"doubling": {doubling(40), "{}"},
	} {
		s, err := Compile([]byte(c.schema))
		if err != nil {
			t.Fatal(name, err)
		}
		if err := s.Check([]byte(c.body)); !errors.Is(err, errSteps) {
			t.Errorf("%s: %v", name, err)
		}
		// It is good for the next body.
		if err := s.Check([]byte(`{}`)); name != "doubling" && err != nil {
			t.Errorf("%s, the next: %v", name, err)
		}
	}
}

func TestALargeBodyIsChecked(t *testing.T) {
	s, err := Compile([]byte(`{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"allOf":[{"type":"integer"},{"minimum":0}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	large := "[" + strings.Repeat("1,", 200_000)
	if err := s.Check([]byte(large + "1]")); err != nil {
		t.Error(err)
	}
	var refused *Error
	if err := s.Check([]byte(large + `"x"]`)); !errors.As(err, &refused) || refused.Violations[0].Pointer != "/200000" {
		t.Errorf("a wrong one at its end: %v", err)
	}
}

func TestChecksAtOnceCountForThemselves(t *testing.T) {
	s, err := Compile([]byte(fmt.Sprintf(recursive, "")))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				depth := 3 + 90*(i%2)
				err := s.Check([]byte(strings.Repeat(`{"l":`, depth) + "{}" + strings.Repeat("}", depth)))
				if (i%2 == 0) != (err == nil) {
					t.Errorf("depth %d: %v", depth, err)
				}
			}
		})
	}
	all.Wait()
}

// Copies for checks at once are made of what was read at first, whatever became of
// the files.
func TestCopiesNeedNoFiles(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"a.json": `{"properties":{"b":{"$ref":"b.json"}}}`, "b.json": `{"type":"integer"}`} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load(filepath.Join(folder, "a.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	for range 3 { // nobody gives one back
		c, ok := s.pool.Get().(*checker)
		if !ok {
			t.Fatal("no copy was made")
		}
		if err := c.validate(map[string]any{"b": "x"}, 2); err == nil || errors.Is(err, errSteps) {
			t.Errorf("a copy lets a wrong one through: %v", err)
		}
	}
}
