package schema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/transform"
)

var _ transform.Transform = (*Schema)(nil)

// MaxViolations is how many violations an error lists; more are counted. A
// person mends the first few, and the error is kept in dead letters.
const MaxViolations = 20

// Violation is one way in which a body is not as the schema wants it.
type Violation struct {
	// Pointer says where in the body, as a JSON Pointer (RFC 6901); "" is the
	// whole.
	Pointer string
	// Message says what is wrong. It holds no text of the body but the names
	// of properties.
	Message string
}

// Error tells of a body that the schema refuses.
type Error struct {
	// File is the schema's file as it was given to Load.
	File string
	// Violations are the first MaxViolations by Pointer, then Message, so that
	// the same body always makes the same error. Total counts all.
	Violations []Violation
	Total      int
}

// Error lists the violations on one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the body is not as %s wants it: ", e.File)
	for i, v := range e.Violations {
		if i > 0 {
			b.WriteString("; ")
		}
		pointer := v.Pointer
		if pointer == "" {
			pointer = "(the whole)"
		}
		fmt.Fprintf(&b, "%s: %s", pointer, v.Message)
	}
	if more := e.Total - len(e.Violations); more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// Apply checks the body of m and gives m back. A body that is not JSON, or not
// as the schema wants it, is an *Error.
func (s *Schema) Apply(_ context.Context, m *message.Message) (*message.Message, error) {
	v, err := transform.Body(m)
	switch {
	case errors.Is(err, transform.ErrNotJSON):
		return nil, s.refuse([]Violation{{Message: "it is not JSON"}}, 1)
	case err != nil:
		return nil, err
	}
	var w walk
	if w.look(v, nil); len(w.outOfRange) > 0 {
		slices.Sort(w.outOfRange)
		return nil, s.refuse([]Violation{{Pointer: w.outOfRange[0], Message: fmt.Sprintf("the number's exponent is past %d", maxExponent)}}, 1)
	}
	return m, s.check(v, w.values)
}

func (s *Schema) refuse(vs []Violation, total int) error {
	return &Error{File: s.file, Violations: vs, Total: total}
}

// check validates a value of so many values.
func (s *Schema) check(v any, values int) error {
	c, ok := s.pool.Get().(*checker)
	if !ok {
		return fmt.Errorf("schema %s can't be compiled again", s.file)
	}
	defer s.pool.Put(c)
	err := c.validate(v, values)
	var verr *jsonschema.ValidationError
	if !errors.As(err, &verr) {
		if err != nil {
			err = fmt.Errorf("schema %s: %w", s.file, err)
		}
		return err
	}
	e := &Error{File: s.file}
	e.collect(verr)
	return e
}

// collect adds the leaves of the library's tree: what is behind "one of the
// branches failed" and "the reference failed".
func (e *Error) collect(v *jsonschema.ValidationError) {
	if len(v.Causes) > 0 {
		for _, c := range v.Causes {
			e.collect(c)
		}
		return
	}
	e.Total++
	e.add(Violation{Pointer: bounded(pointer(v.InstanceLocation)), Message: bounded(text(v))})
}

// add keeps v if it is among the first MaxViolations. The library goes through
// objects in random order.
func (e *Error) add(v Violation) {
	at, _ := slices.BinarySearchFunc(e.Violations, v, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	if at == MaxViolations {
		return
	}
	if len(e.Violations) == MaxViolations {
		e.Violations = e.Violations[:MaxViolations-1]
	}
	e.Violations = slices.Insert(e.Violations, at, v)
}

// text is what is wrong at a leaf. The library shows the value where a format
// or pattern fails; a body's text is nothing for logs.
func text(v *jsonschema.ValidationError) string {
	switch k := v.ErrorKind.(type) {
	case *kind.Format:
		return "it is no valid " + k.Want
	case *kind.Pattern:
		return "it does not match the pattern " + strconv.Quote(k.Want)
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
	}
	leaf := &jsonschema.ValidationError{SchemaURL: v.SchemaURL, ErrorKind: v.ErrorKind}
	return strings.TrimPrefix(leaf.Error(), "at '': ")
}

// bounded cuts what a body or a schema can make long: names, pointers, lists.
func bounded(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(escaper.Replace(name))
	}
	return b.String()
}

// maxExponent is the largest power of ten in a number. The library calculates
// with exact fractions, which 1e1000000 makes a million digits long; float64
// ends at 308.
const maxExponent = 1000

// walk is a look at a body before it is checked.
type walk struct {
	values     int
	outOfRange []string // pointers of numbers whose exponent is too large, in no order
}

func (w *walk) look(v any, path []string) {
	w.values++
	switch v := v.(type) {
	case json.Number:
		if i := strings.IndexAny(string(v), "eE"); i >= 0 {
			n, err := strconv.Atoi(string(v[i+1:]))
			if err != nil || n > maxExponent || n < -maxExponent {
				w.outOfRange = append(w.outOfRange, bounded(pointer(path)))
			}
		}
	case []any:
		for i, x := range v {
			w.look(x, append(path, strconv.Itoa(i)))
		}
	case map[string]any:
		for name, x := range v {
			w.look(x, append(path, name))
		}
	}
}
