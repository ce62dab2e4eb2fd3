package connector

// These tests would catch a template that ends an expression at the wrong
// brace, loses text between expressions, or takes an unfinished one.

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
)

func TestParseTemplate(t *testing.T) {
	lit := func(s string, at int) TemplatePart { return TemplatePart{Literal: s, At: at} }
	expr := func(s string, at int) TemplatePart { return TemplatePart{Expr: s, At: at} }
	for _, tt := range []struct {
		in   string
		want []TemplatePart
	}{
		{"", nil},
		{"plain", []TemplatePart{lit("plain", 0)}},
		{"{{.id}}", []TemplatePart{expr(".id", 0)}},
		{"/a/{{ .id }}/b", []TemplatePart{lit("/a/", 0), expr(".id", 3), lit("/b", 12)}},
		{"{{ .a }}{{ .b }}", []TemplatePart{expr(".a", 0), expr(".b", 8)}},
		{`{{ "}}" }}!`, []TemplatePart{expr(`"}}"`, 0), lit("!", 10)}},
		{`{{ "\"}}" }}`, []TemplatePart{expr(`"\"}}"`, 0)}},
		{`{{ {a:{b:1}} }}`, []TemplatePart{expr(`{a:{b:1}}`, 0)}},
		{`{{{a:{b:1}}}}`, []TemplatePart{expr(`{a:{b:1}}`, 0)}},
		{`{{ "x\( "}}" + ({a:1}|.a|tostring) )}}" }}`, []TemplatePart{expr(`"x\( "}}" + ({a:1}|.a|tostring) )}}"`, 0)}},
		{"lone }} and { stay", []TemplatePart{lit("lone }} and { stay", 0)}},
		{"{{ .ü }}ö", []TemplatePart{expr(".ü", 0), lit("ö", 9)}},
	} {
		got, err := ParseTemplate(tt.in)
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Parts); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestParseTemplateErrors(t *testing.T) {
	for in, want := range map[string]string{
		"ab{{ .x":          "the {{ at byte 3 has no }}",
		`{{ "}}`:           "the {{ at byte 1 has no }}",
		"a{{ }}":           "the {{ }} at byte 2 is empty",
		"{{ {a:1} } }":     "has no }}",
		"{{ .a }} {{":      "the {{ at byte 10 has no }}",
		manyParts():        "more than 200 parts",
		`{{ "\(.a }} rest`: "has no }}",
	} {
		if _, err := ParseTemplate(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", in, err, want)
		}
	}
}

func manyParts() string { return strings.Repeat("{{.a}}", MaxTemplateParts+1) }

func TestTemplateConstant(t *testing.T) {
	for in, want := range map[string]bool{"": true, "x": true, "x{{.a}}": false} {
		p, err := ParseTemplate(in)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := p.Constant(); ok != want || ok && s != in {
			t.Errorf("%q: Constant is %q, %v", in, s, ok)
		}
	}
}

type constant string

func (c constant) String(context.Context, *message.Message) (string, error) {
	if c == "fail" {
		return "", errors.New("no such field")
	}
	return "<" + string(c) + ">", nil
}

func TestTemplateCompile(t *testing.T) {
	compile := func(expr string) (Expr, error) {
		if expr == "bad" {
			return nil, errors.New("no jq")
		}
		return constant(expr), nil
	}
	for in, want := range map[string]string{"": "", "x": "x", "{{ a }}": "<a>", "x{{ a }}y{{ b }}": "x<a>y<b>"} {
		p, err := ParseTemplate(in)
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Compile(compile)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.String(t.Context(), &message.Message{}); got != want || err != nil {
			t.Errorf("%q gives %q, %v", in, got, err)
		}
	}
	p, _ := ParseTemplate("xy{{ bad }}")
	if _, err := p.Compile(compile); err == nil || err.Error() != "template: the {{ at byte 3: no jq" {
		t.Errorf("got %v", err)
	}
	p, _ = ParseTemplate("x{{ fail }}y")
	e, err := p.Compile(compile)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.String(t.Context(), &message.Message{}); err == nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzParseTemplate(f *testing.F) {
	for _, s := range []string{"", "a{{.b}}c", `{{ "\("}}")" }}`, "{{{}}}", "{{", "}}", `{{"\`, `{{"\(`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseTemplate(s)
		if err != nil {
			return
		}
		for i, part := range p.Parts {
			if (part.Literal == "") == (part.Expr == "") {
				t.Fatalf("part %d of %q is neither or both: %+v", i, s, part)
			}
			if part.Literal != "" && !strings.HasPrefix(s[part.At:], part.Literal) {
				t.Fatalf("part %d of %q does not stand at %d", i, s, part.At)
			}
			if part.Expr != "" && !strings.HasPrefix(s[part.At:], "{{") {
				t.Fatalf("part %d of %q: no {{ at %d", i, s, part.At)
			}
		}
		if text, ok := p.Constant(); ok && text != s {
			t.Fatalf("constant template %q reads %q", s, text)
		}
	})
}
