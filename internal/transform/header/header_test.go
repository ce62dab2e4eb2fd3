package header

// These tests would catch a header that breaks out of its line, one that is
// set on the message another step still holds, and a glob that drops too much.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/transform/jq"
)

func compile(expr string) (connector.Expr, error) {
	p, err := jq.Compile(expr)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func TestSet(t *testing.T) {
	s, err := NewSet(map[string]string{
		"X-Order": "o-{{ .id }}", "x-fixed": "a b", "X-Empty": "", "Content-Type": "application/{{ .kind }}",
	}, compile)
	if err != nil {
		t.Fatal(err)
	}
	for _, headers := range []map[string][]string{nil, {"x-order": {"old", "older"}, "x-kept": {"1"}}} {
		m := &message.Message{Body: []byte(`{"id":12345678901234567890,"kind":"xml"}`), Headers: headers, ContentType: "text/plain"}
		got, err := s.Apply(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{"x-order": {"o-12345678901234567890"}, "x-fixed": {"a b"}, "x-empty": {""}}
		if headers != nil {
			want["x-kept"] = []string{"1"}
			if diff := cmp.Diff(map[string][]string{"x-order": {"old", "older"}, "x-kept": {"1"}}, m.Headers); diff != "" {
				t.Errorf("the message itself was changed: %s", diff)
			}
		}
		if diff := cmp.Diff(want, got.Headers); diff != "" {
			t.Error(diff)
		}
		if got.ContentType != "application/xml" || m.ContentType != "text/plain" {
			t.Errorf("content type %q, of the message itself %q", got.ContentType, m.ContentType)
		}
	}
}

func TestSetFails(t *testing.T) {
	for value, want := range map[string]string{
		"{{ .crlf }}":    "a control character",
		"{{ .nul }}":     "a control character",
		"{{ .missing }}": "is null",
		"{{ .long }}":    "8192 are the most",
		"{{ .a.b }}":     "expected an object",
	} {
		s, err := NewSet(map[string]string{"X-A": value}, compile)
		if err != nil {
			t.Fatal(err)
		}
		m := &message.Message{Body: fmt.Appendf(nil, `{"crlf":"a\r\nx-evil: 1","nul":"\u0000","a":1,"long":%q}`, strings.Repeat("x", MaxValue+1))}
		_, err = s.Apply(t.Context(), m)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `set_headers: "x-a": `) {
			t.Errorf("%s: %v", value, err)
		}
		if err != nil && strings.Contains(err.Error(), "evil") {
			t.Errorf("the value is shown: %v", err)
		}
	}
}

func TestNewSetMistakes(t *testing.T) {
	_, err := NewSet(map[string]string{
		"": "x", "a b": "x", "ü": "x", "Host": "x", "Transfer-Encoding": "chunked", "x-nl": "a\nb",
		"x-jq": "{{ .a | }}", "x-open": "{{ .a", "x-two": "1", "X-Two": "2", strings.Repeat("x", MaxName+1): "v",
	}, compile)
	if err == nil {
		t.Fatal("all of it is taken")
	}
	for _, want := range []string{
		`"": the name is empty`, `"a b": it is no header's name`, `"ü": it is no header's name`, `"Host": the connection sets`,
		`"Transfer-Encoding": the connection sets`, `"x-nl": the value holds a control character`,
		`"x-jq": template: the {{ at byte 1: jq: line 1`, `"x-open": template: the {{ at byte 1 has no }}`,
		`"X-Two" and "x-two" are one header`, "the name has 257 bytes; 256 are the most",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	many := map[string]string{}
	for i := range MaxHeaders + 1 {
		many[fmt.Sprint("x-", i)] = ""
	}
	if _, err := NewSet(many, compile); err == nil {
		t.Error("too many headers are taken")
	}
	broken := errors.New("no jq here")
	if _, err := NewSet(map[string]string{"a": "{{ . }}"}, func(string) (connector.Expr, error) { return nil, broken }); err == nil {
		t.Error("a failing compile is taken")
	}
}

func TestDrop(t *testing.T) {
	m := &message.Message{ContentType: "text/plain", Headers: map[string][]string{
		"x-internal-a": {"1"}, "x-internal-b": {"2"}, "x-external": {"3"}, "trace": {"4"}, "X-Odd": {"5"},
	}}
	for _, tt := range []struct {
		globs []string
		left  []string
	}{
		{[]string{"X-Internal-*"}, []string{"X-Odd", "trace", "x-external"}},
		{[]string{"trace", "x-?xternal"}, []string{"X-Odd", "x-internal-a", "x-internal-b"}},
		{[]string{"x-odd"}, []string{"trace", "x-external", "x-internal-a", "x-internal-b"}},
		{[]string{"*"}, []string{}},
		{[]string{"x-internal-[b]"}, []string{"X-Odd", "trace", "x-external", "x-internal-a"}},
	} {
		d, err := NewDrop(tt.globs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Apply(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{}
		for _, name := range tt.left {
			want[name] = m.Headers[name]
		}
		if diff := cmp.Diff(want, got.Headers); diff != "" {
			t.Errorf("%v: %s", tt.globs, diff)
		}
		if len(m.Headers) != 5 || got.ContentType != "text/plain" {
			t.Fatalf("%v changed the message itself or the content type", tt.globs)
		}
	}
	d, err := NewDrop([]string{"nothing"})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := d.Apply(t.Context(), m); got != m {
		t.Error("a copy is made though nothing is dropped")
	}
}

func TestNewDropMistakes(t *testing.T) {
	_, err := NewDrop([]string{"", "x-[", strings.Repeat("x", MaxName+1)})
	if err == nil {
		t.Fatal("all of it is taken")
	}
	for _, want := range []string{"a glob is empty", `bad glob "x-["`, "a glob has 257 bytes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if _, err := NewDrop(make([]string, MaxHeaders+1)); err == nil || strings.Contains(err.Error(), "empty") {
		t.Errorf("too many globs: %v", err)
	}
}
