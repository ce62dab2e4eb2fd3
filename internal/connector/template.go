package connector

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Template is a text with expressions in it, split but not compiled:
// "/orders/{{ .id }}" is the literal "/orders/" and the expression ".id". A
// plain value, safe for concurrent use.
type Template struct {
	// Parts are the pieces in order. A template of "" has none; two literals
	// never stand side by side.
	Parts []TemplatePart
}

// TemplatePart is a literal or an expression; exactly one of them is set.
type TemplatePart struct {
	// Literal is text that stands as it is.
	Literal string
	// Expr is jq, without its braces and the space around it.
	Expr string
	// At is the byte where the part begins in the whole text.
	At int
}

// MaxTemplateParts bounds the parts of one template: a URL or a header with
// more than a hundred fields is a mistake, and each costs an evaluation a
// message.
const MaxTemplateParts = 200

// ParseTemplate splits a text into its parts. An expression stands between
// {{ and }}. A }} inside a jq string does not end it, and neither does one
// that only closes objects ({{ {a:{b:1}} }} ends at the last pair). Outside of
// an expression braces mean nothing, a lone }} included.
//
// An empty expression, one without its end, and too many parts are errors that
// name the byte, counted from 1.
func ParseTemplate(s string) (Template, error) {
	var t Template
	for at := 0; at < len(s); {
		if len(t.Parts) >= MaxTemplateParts {
			return Template{}, fmt.Errorf("template has more than %d parts", MaxTemplateParts)
		}
		open := strings.Index(s[at:], "{{")
		if open < 0 {
			t.Parts = append(t.Parts, TemplatePart{Literal: s[at:], At: at})
			break
		}
		if open > 0 {
			t.Parts = append(t.Parts, TemplatePart{Literal: s[at : at+open], At: at})
			at += open
		}
		end := exprEnd(s, at+2)
		if end < 0 {
			return Template{}, fmt.Errorf("template: the {{ at byte %d has no }}", at+1)
		}
		expr := strings.TrimSpace(s[at+2 : end])
		if expr == "" {
			return Template{}, fmt.Errorf("template: the {{ }} at byte %d is empty; write {{ .field }}", at+1)
		}
		t.Parts = append(t.Parts, TemplatePart{Expr: expr, At: at})
		at = end + 2
	}
	return t, nil
}

// exprEnd returns where the }} begins that ends the expression starting at i,
// or -1. It knows just enough of jq: strings, their escapes, the expressions
// \( ) inside strings, and braces.
func exprEnd(s string, i int) int {
	var (
		depth int   // open braces and parentheses of jq
		marks []int // for each open \( the depth it began at
		text  bool  // inside a string
	)
	for ; i < len(s); i++ {
		c := s[i]
		if text {
			switch {
			case c == '\\' && i+1 < len(s) && s[i+1] == '(':
				marks = append(marks, depth)
				depth++
				text = false
				i++
			case c == '\\':
				i++
			case c == '"':
				text = false
			}
			continue
		}
		switch c {
		case '"':
			text = true
		case '{', '(':
			depth++
		case ')', '}':
			if c == '}' && depth == 0 && strings.HasPrefix(s[i:], "}}") {
				return i
			}
			depth = max(depth-1, 0)
			if n := len(marks); c == ')' && n > 0 && depth == marks[n-1] {
				marks = marks[:n-1]
				text = true
			}
		}
	}
	return -1
}

// Constant reports whether the template has no expression, and its text.
func (t Template) Constant() (string, bool) {
	var b strings.Builder
	for _, p := range t.Parts {
		if p.Expr != "" {
			return "", false
		}
		b.WriteString(p.Literal)
	}
	return b.String(), true
}

// Compile compiles every expression of the template and returns one that
// joins the texts of all parts. compile is Env.Compile; its errors come back
// with the place of the expression in the template.
func (t Template) Compile(compile func(expr string) (Expr, error)) (Expr, error) {
	parts := make(joined, len(t.Parts))
	for i, p := range t.Parts {
		if p.Expr == "" {
			parts[i].literal = p.Literal
			continue
		}
		e, err := compile(p.Expr)
		if err != nil {
			return nil, fmt.Errorf("template: the {{ at byte %d: %w", p.At+1, err)
		}
		parts[i].expr = e
	}
	return parts, nil
}

// joined is a compiled template; a part without expr is literal.
type joined []struct {
	literal string
	expr    Expr
}

// String evaluates the parts in order and stops at the first error.
func (j joined) String(ctx context.Context, m *message.Message) (string, error) {
	if len(j) == 1 && j[0].expr == nil {
		return j[0].literal, nil
	}
	var b strings.Builder
	for _, p := range j {
		if p.expr == nil {
			b.WriteString(p.literal)
			continue
		}
		s, err := p.expr.String(ctx, m)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}
