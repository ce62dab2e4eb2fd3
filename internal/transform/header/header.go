// Package header changes the headers of a message: set_headers and
// drop_headers of a route or destination.
package header

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/transform"
)

var (
	_ transform.Transform = (*Set)(nil)
	_ transform.Transform = (*Drop)(nil)
)

const (
	// MaxName is the longest name in bytes, MaxValue the longest value: what
	// common HTTP servers take in one line.
	MaxName  = 256
	MaxValue = 8 << 10
	// MaxHeaders bounds the headers one step sets and the globs it drops by: as
	// many as a list of the configuration may have.
	MaxHeaders = 256
)

// contentType is a header that is a field of the message.
const contentType = "content-type"

// Set is the step set_headers. Safe for concurrent use.
type Set struct{ fields []field }

type field struct {
	name  string // in lower case
	value connector.Expr
}

// NewSet makes the step of names and values. A value may hold {{ jq }}, which
// compile compiles. Every mistake is reported at once, joined by newlines.
func NewSet(values map[string]string, compile func(expr string) (connector.Expr, error)) (*Set, error) {
	if len(values) > MaxHeaders {
		return nil, fmt.Errorf("set_headers: there are %d headers; %d are the most", len(values), MaxHeaders)
	}
	s := &Set{}
	var wrong []string
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		lower := strings.ToLower(name)
		if other, twice := seen[lower]; twice {
			wrong = append(wrong, fmt.Sprintf("set_headers: %q and %q are one header", other, name))
			continue
		}
		seen[lower] = name
		if err := checkName(lower); err != nil {
			wrong = append(wrong, fmt.Sprintf("set_headers: %q: %v", name, err))
			continue
		}
		value, err := compileValue(values[name], compile)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("set_headers: %q: %v", name, err))
			continue
		}
		s.fields = append(s.fields, field{lower, value})
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return s, nil
}

func compileValue(text string, compile func(string) (connector.Expr, error)) (connector.Expr, error) {
	t, err := connector.ParseTemplate(text)
	if err != nil {
		return nil, err
	}
	if fixed, ok := t.Constant(); ok {
		if err := checkValue(fixed); err != nil {
			return nil, err
		}
	}
	return t.Compile(compile)
}

// Apply sets the headers, each to one value in place of any it had. The
// content type is set in the message's own field. A value that fails to
// evaluate, or that no header can hold, is an error that names the header and
// not the value.
func (s *Set) Apply(ctx context.Context, m *message.Message) (*message.Message, error) {
	if len(s.fields) == 0 {
		return m, nil
	}
	texts := make([]string, len(s.fields))
	for i, f := range s.fields {
		text, err := f.value.String(ctx, m)
		if err == nil {
			err = checkValue(text)
		}
		if err != nil {
			return nil, fmt.Errorf("set_headers: %q: %w", f.name, err)
		}
		texts[i] = text
	}
	return m.With(func(c *message.Message) {
		if c.Headers == nil {
			c.Headers = make(map[string][]string, len(s.fields))
		}
		for i, f := range s.fields {
			if f.name == contentType {
				c.ContentType = texts[i]
				continue
			}
			c.Headers[f.name] = []string{texts[i]}
		}
	}), nil
}

// Drop is the step drop_headers. Safe for concurrent use.
type Drop struct{ globs []string }

// NewDrop makes the step of globs over header names: * is any text, ? any
// character, [a-z] one of them. Upper and lower case are the same.
func NewDrop(globs []string) (*Drop, error) {
	if len(globs) > MaxHeaders {
		return nil, fmt.Errorf("drop_headers: there are %d globs; %d are the most", len(globs), MaxHeaders)
	}
	d := &Drop{}
	var wrong []string
	for _, g := range globs {
		lower := strings.ToLower(g)
		switch _, err := path.Match(lower, ""); {
		case g == "":
			wrong = append(wrong, "drop_headers: a glob is empty; write * for every header")
		case len(g) > MaxName:
			wrong = append(wrong, fmt.Sprintf("drop_headers: a glob has %d bytes; %d are the most", len(g), MaxName))
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("drop_headers: bad glob %q; write it like x-internal-*", g))
		}
		d.globs = append(d.globs, lower)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return d, nil
}

// Apply removes every header that a glob matches. It leaves the content type
// alone, which says what the body is, and gives back m itself where no header
// matches. It never fails.
func (d *Drop) Apply(_ context.Context, m *message.Message) (*message.Message, error) {
	var gone []string
	for name := range m.Headers {
		if d.matches(strings.ToLower(name)) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return m, nil
	}
	return m.With(func(c *message.Message) {
		for _, name := range gone {
			delete(c.Headers, name)
		}
	}), nil
}

func (d *Drop) matches(name string) bool {
	for _, g := range d.globs {
		if ok, _ := path.Match(g, name); ok { // the globs were checked
			return true
		}
	}
	return false
}

// checkName reports what is wrong with a header's name.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > MaxName:
		return fmt.Errorf("the name has %d bytes; %d are the most", len(name), MaxName)
	case !connector.IsToken(name):
		return errors.New("it is no header's name; write it like X-Tenant")
	case connector.IsConnectionField(name):
		return errors.New("the connection sets this header, a message can't")
	}
	return nil
}

// checkValue reports what is wrong with a value, without showing it.
func checkValue(value string) error {
	if len(value) > MaxValue {
		return fmt.Errorf("the value has %d bytes; %d are the most", len(value), MaxValue)
	}
	if !connector.IsFieldValue(value) {
		return errors.New("the value holds a control character, a line end perhaps")
	}
	return nil
}
