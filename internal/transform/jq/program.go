package jq

import (
	"context"
	"errors"
	"fmt"

	"github.com/itchyny/gojq"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/transform"
)

// Program is a compiled jq program. Safe for concurrent use.
type Program struct {
	src  string
	code *gojq.Code
	// wantsMsg: $msg is only built for a program that mentions it.
	wantsMsg bool
}

// String evaluates to text: strings as they are, other values as compact JSON.
// null, an error, no value or more than one is an error. It makes a Program a
// connector.Expr; the program's own text is Source.
func (p *Program) String(ctx context.Context, m *message.Message) (string, error) {
	v, err := p.Eval(ctx, m)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case nil:
		return "", fmt.Errorf("jq: %s is null", p.short())
	case string:
		return v, nil
	}
	text, err := encode(v)
	if err != nil {
		return "", err
	}
	return string(text), nil
}

// Source returns the text that the program was compiled from.
func (p *Program) Source() string { return p.src }

// Eval evaluates the program over m to its single value: nil, bool, int,
// float64, *big.Int, json.Number, string, []any or map[string]any. The value
// may share parts with the message's body: callers must not change it.
//
// No value wraps ErrNoValue, more than one ErrManyValues, a bound that was
// reached ErrLimit. An ended ctx is its error.
func (p *Program) Eval(ctx context.Context, m *message.Message) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("jq: %w", err)
	}
	body, err := transform.Body(m)
	if err != nil && !errors.Is(err, transform.ErrNotJSON) {
		return nil, err
	}
	var msg any
	if p.wantsMsg {
		if msg, err = msgValue(m); err != nil {
			return nil, err
		}
	}
	return p.run(ctx, body, msg)
}

// The ways that a program does not give its single value.
var (
	ErrNoValue    = errors.New("it gives no value, and one is wanted")
	ErrManyValues = errors.New("it gives more than one value, and one is wanted; wrap it in [ ] or in first( )")
)

// run evaluates over a body and a $msg. A panic of the engine is an error: a
// message must not be able to take the relay down.
func (p *Program) run(ctx context.Context, body, msg any) (v any, err error) {
	w := newWatch(ctx)
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("jq: %s: the engine failed: %.200s", p.short(), fmt.Sprint(r))
		}
	}()
	it := p.code.RunWithContext(w, body, msg, w)
	v, ok := it.Next()
	if !ok {
		return nil, fmt.Errorf("jq: %s: %w", p.short(), ErrNoValue)
	}
	if err, bad := v.(error); bad {
		return nil, p.explain(w, err)
	}
	next, more := it.Next()
	if err, bad := next.(error); bad {
		return nil, p.explain(w, err)
	}
	if more {
		return nil, fmt.Errorf("jq: %s: %w", p.short(), ErrManyValues)
	}
	return v, nil
}

// explain makes an error of the engine one of ours: bounded, and with the
// program's beginning.
func (p *Program) explain(w *watch, err error) error {
	if w.err != nil {
		return fmt.Errorf("jq: %s: %w", p.short(), w.err)
	}
	if errors.Is(err, ErrLimit) {
		return fmt.Errorf("jq: %s: %w", p.short(), err)
	}
	text := err.Error()
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "…"
	}
	return fmt.Errorf("jq: %s: %s", p.short(), text)
}

// maxErrorText: an error(…) of a program can be as long as a body, and errors
// are kept in dead letters and logs.
const maxErrorText = 300

// short is the program's beginning, for errors.
func (p *Program) short() string {
	const most = 60
	r := []rune(p.src)
	if len(r) > most {
		r = append(r[:most], '…')
	}
	for i, c := range r {
		if c == '\n' || c == '\r' || c == '\t' {
			r[i] = ' '
		}
	}
	return string(r)
}

// Bool evaluates a filter: true only for the value true. false, null, any
// other value and no value at all are not true; an error is an error, and so
// is more than one value.
func (p *Program) Bool(ctx context.Context, m *message.Message) (bool, error) {
	v, err := p.Eval(ctx, m)
	if errors.Is(err, ErrNoValue) {
		return false, nil
	}
	return v == true, err
}

// Key evaluates to a key for grouping or dedupe: the text of the value, or ""
// for null, no value and an empty string, which mean that there is no key.
func (p *Program) Key(ctx context.Context, m *message.Message) (string, error) {
	v, err := p.Eval(ctx, m)
	switch {
	case errors.Is(err, ErrNoValue):
		return "", nil
	case err != nil:
		return "", err
	}
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	text, err := encode(v)
	return string(text), err
}

// Apply makes the program's value the body, as compact JSON, and the content
// type application/json where it was no JSON type. It is the jq step of a
// route. No value and more than one are errors.
func (p *Program) Apply(ctx context.Context, m *message.Message) (*message.Message, error) {
	v, err := p.Eval(ctx, m)
	if err != nil {
		return nil, err
	}
	body, err := encode(v)
	if err != nil {
		return nil, fmt.Errorf("jq: %s: %w", p.short(), err)
	}
	return m.With(func(c *message.Message) {
		c.Body = body
		if !isJSON(c.ContentType) {
			c.ContentType = "application/json"
		}
	}), nil
}
