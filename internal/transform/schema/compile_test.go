package schema

// These tests would catch: a schema text that reaches outside itself, one that is
// none and is taken, a check that hangs on a schema that refers to itself.

import (
	"errors"
	"strings"
	"testing"
)

func TestCompile(t *testing.T) {
	s, err := Compile([]byte(`{"$defs":{"n":{"type":"integer"}},"type":"array","items":{"$ref":"#/$defs/n"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check([]byte(`[1,2]`)); err != nil {
		t.Error(err)
	}
	var refused *Error
	if err := s.Check([]byte(`[1,"x"]`)); !errors.As(err, &refused) || refused.Total != 1 || refused.Violations[0] != (Violation{"/1", "got string, want integer"}) {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		`{"type":5}`:                      "type",
		`{"$ref":"other.json"}`:           "a schema may refer to its own parts only",
		`{"$ref":"file:///etc/passwd"}`:   "a schema may refer to its own parts only",
		`{"$ref":"https://example.com/"}`: "a schema may refer to its own parts only",
		`{"$ref":"#/$defs/none"}`:         "none",
		`5`:                               "",
		`{`:                               "",
	} {
		if _, err := Compile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Compile([]byte(`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`)); err != nil {
		t.Errorf("a meta-schema: %v", err)
	}
	// One that refers to nothing but itself has no end by its words; the check has.
	for _, text := range []string{`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`, `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`} {
		if s, err := Compile([]byte(text)); err == nil {
			_ = s.Check([]byte(`{}`))
		}
	}
}
