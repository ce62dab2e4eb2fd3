package connector_test

// Catches: a body that is changed where it need not be, one that breaks out of
// its line, and an envelope that does not read back.

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

func TestPlainLine(t *testing.T) {
	for body, want := range map[string]string{
		`{"a": 1.50, "b":"ü"}`:             `{"a": 1.50, "b":"ü"}`,
		"{\n  \"a\": 1.50,\r\n \"a\":2\n}": `{"a":1.50,"a":2}`,
		"[\n12345678901234567890.0\n]":     `[12345678901234567890.0]`,
		"hello":                            "hello",
		"\xff\xfe":                         "\xff\xfe",
		"hello\nworld":                     `"hello\nworld"`,
		"":                                 `""`,
		"\n":                               `"\n"`,
		"a\x00b":                           `"a\u0000b"`,
		"\xff\n":                           `{"body":"/wo=","body_encoding":"base64"}`,
		"{\"a\":\n\"\xff\"}":               "{\"a\":\"\xff\"}",
	} {
		m := &message.Message{ID: "1", Body: []byte(body)}
		got, err := connector.LinePlain.Line(m)
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v; want %q", body, got, err, want)
		}
		if string(m.Body) != body {
			t.Errorf("%q: the message's own body was changed to %q", body, m.Body)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	m := &message.Message{ID: "1", Body: bytes.Repeat([]byte("x"), message.MaxLine+1)}
	for _, f := range []connector.LineFormat{connector.LinePlain, connector.LineEnvelope} {
		_, err := f.Line(m)
		if e := failure.From(err); e == nil || e.Class != failure.Permanent {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestFormatCheck(t *testing.T) {
	if got := connector.LineFormat("csv").Check(); got == "" {
		t.Error("csv is taken for a format")
	}
	if got := connector.LinePlain.Check() + connector.LineEnvelope.Check(); got != "" {
		t.Error(got)
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{"", "\n", "{\n}", "a\nb", "\x00", "\xff\n", "{\"a\":\n1}x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m := &message.Message{ID: "1", Source: "s", Body: body}
		for _, format := range []connector.LineFormat{connector.LinePlain, connector.LineEnvelope} {
			line, err := format.Line(m)
			if err != nil {
				t.Fatal(err)
			}
			if len(line) == 0 || bytes.ContainsAny(line, "\n\x00") {
				t.Errorf("%s: not a line: %q", format, line)
			}
			if format == connector.LineEnvelope {
				back, err := message.Decode(line)
				if err != nil || !cmp.Equal(string(back.Body), string(body)) {
					t.Errorf("read back: %v", err)
				}
			}
		}
	})
}
