package transform

// These tests would catch a body that is decoded twice, a number that loses
// digits, JSON taken for text or text for JSON, and a chain that goes on after
// an error or changes the message it was given.

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
)

func TestBody(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want any
		text bool
	}{
		{`{"a":[1,2.50,"x",true,null]}`, map[string]any{"a": []any{json.Number("1"), json.Number("2.50"), "x", true, nil}}, false},
		{` 1e400 `, json.Number("1e400"), false},
		{`"a\u00fcb"`, "aüb", false},
		{`{}`, map[string]any{}, false},
		{`[]`, []any{}, false},
		{`{"a":1,"a":2}`, map[string]any{"a": json.Number("2")}, false},
		{"", "", true},
		{"  ", "  ", true},
		{"plain", "plain", true},
		{"{", "{", true},
		{"[1", "[1", true},
		{"[1,]", "[1,]", true},
		{`{"a"}`, `{"a"}`, true},
		{"1 2", "1 2", true},
		{"01", "01", true},
		{"\"\xff\"", "\"\xff\"", true},
		{strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), true},
		{strings.Repeat("1", maxDigits), json.Number(strings.Repeat("1", maxDigits)), false},
		{strings.Repeat("1", maxDigits+1), strings.Repeat("1", maxDigits+1), true},
	} {
		got, err := Body(&message.Message{Body: []byte(tt.in)})
		if tt.text != errors.Is(err, ErrNotJSON) || !tt.text && err != nil {
			t.Errorf("%.40q: %v", tt.in, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%.40q (-want +got):\n%.300s", tt.in, diff)
		}
	}
}

func TestBodyIsDecodedOnce(t *testing.T) {
	m := &message.Message{Body: []byte(`{"a":1}`)}
	a, err := Body(m)
	if err != nil {
		t.Fatal(err)
	}
	m.Body = []byte("other") // a message is never changed; this only shows that it is not read again
	b, err := Body(m)
	if err != nil || cmp.Diff(a, b) != "" {
		t.Errorf("decoded again: %v, %v", b, err)
	}
}

func FuzzBody(f *testing.F) {
	for _, s := range []string{"", "1", `{"a":[1,{"b":"c"}]}`, "[1,]", `"\ud800"`, "nul", "[[[[", "\"\xff\"", "1e999", "-0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Body(&message.Message{Body: in})
		if errors.Is(err, ErrNotJSON) {
			if v != string(in) {
				t.Fatalf("%q is not JSON and reads %q", in, v)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(in) {
			t.Fatalf("%q is taken for JSON", in)
		}
	})
}

type step func(*message.Message) (*message.Message, error)

func (s step) Apply(_ context.Context, m *message.Message) (*message.Message, error) { return s(m) }

func TestChain(t *testing.T) {
	appendBody := func(b string) Transform {
		return step(func(m *message.Message) (*message.Message, error) {
			return m.With(func(c *message.Message) { c.Body = []byte(string(m.Body) + b) }), nil
		})
	}
	fail := step(func(*message.Message) (*message.Message, error) { return nil, errors.New("broken") })
	never := step(func(*message.Message) (*message.Message, error) { t.Error("went on after an error"); return nil, nil })

	m := &message.Message{Body: []byte("0")}
	got, err := Chain{appendBody("1"), appendBody("2")}.Apply(t.Context(), m)
	if err != nil || string(got.Body) != "012" || string(m.Body) != "0" {
		t.Errorf("got %s, %v, from %s", got.Body, err, m.Body)
	}
	if got, err := (Chain{}).Apply(t.Context(), m); got != m || err != nil {
		t.Errorf("an empty chain gives %v, %v", got, err)
	}
	_, err = Chain{appendBody("1"), fail, never}.Apply(t.Context(), m)
	if err == nil || err.Error() != "transform 2: broken" {
		t.Errorf("got %v", err)
	}
}
