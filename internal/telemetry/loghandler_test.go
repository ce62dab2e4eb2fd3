package telemetry

import (
	"bytes"
	"encoding/json/v2"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"
)

type leaky struct{ Token string }

func (l leaky) String() string { return "leaky " + l.Token }

type late struct{ token string }

func (l late) LogValue() slog.Value { return slog.StringValue(l.token) }

func redact(s string) string { return strings.ReplaceAll(s, "hunter2\n", "[secret]") }

// everyFormat runs test with each form that lines can have.
func everyFormat(t *testing.T, test func(t *testing.T, log *slog.Logger, out *bytes.Buffer)) {
	for name, h := range map[string]func(LogOptions) slog.Handler{
		"json":     func(o LogOptions) slog.Handler { o.Format = LogJSON; return newLogHandler(o, pipe, false) },
		"text":     func(o LogOptions) slog.Handler { return newLogHandler(o, pipe, false) },
		"terminal": func(o LogOptions) slog.Handler { return newLogHandler(o, terminal, true) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			test(t, slog.New(h(LogOptions{Out: &out, Redact: redact})), &out)
		})
	}
}

func TestNoSecretInAnyPlaceOfALine(t *testing.T) {
	const secret = "hunter2\n"
	everyFormat(t, func(t *testing.T, log *slog.Logger, out *bytes.Buffer) {
		log.With("with", secret).WithGroup("g"+secret).Info("message "+secret,
			"plain", secret,
			"key "+secret, 1,
			"error", errors.New("dial "+secret),
			"struct", leaky{secret},
			"list", []string{secret},
			"late", late{secret},
			slog.Group("group", "deep", secret),
			"long", strings.Repeat("x", maxLogValue-6)+secret,
		)
		if strings.Contains(out.String(), "hunter") {
			t.Errorf("a secret came through:\n%s", out)
		}
		if n := strings.Count(out.String(), "[secret]"); n < 8 {
			t.Errorf("%d of the secrets left a mark, want at least 8:\n%s", n, out)
		}
		if strings.Count(out.String(), "\n") != 1 {
			t.Errorf("not one line:\n%s", out)
		}
	})
}

func TestNothingForgesALine(t *testing.T) {
	everyFormat(t, func(t *testing.T, log *slog.Logger, out *bytes.Buffer) {
		rapid.Check(t, func(rt *rapid.T) {
			out.Reset()
			hostile := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune("\n\r\x1b\x9b\u2028\u202e\x00")))).Draw(rt, "hostile")
			log.Info("m"+hostile, "id", hostile, "k"+hostile, errors.New(hostile))
			body, end := strings.CutSuffix(out.String(), "\n")
			if !end {
				rt.Fatalf("no end of line: %q", out.String())
			}
			for _, r := range body {
				if !unicode.IsPrint(r) {
					rt.Fatalf("%U in %q", r, body)
				}
			}
		})
	})
}

func TestLogFormats(t *testing.T) {
	var out bytes.Buffer
	slog.New(newLogHandler(LogOptions{Out: &out, Format: LogJSON}, terminal, false)).Warn("hello", "id", "a\nb")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if line["msg"] != "hello" || line["level"] != "WARN" || line["id"] != `a\nb` {
		t.Errorf("line = %v", line)
	}

	const colour = "\x1b["
	out.Reset()
	slog.New(newLogHandler(LogOptions{Out: &out}, terminal, false)).Warn("hello")
	if !strings.Contains(out.String(), colour) {
		t.Errorf("no colour on a terminal: %q", &out)
	}
	out.Reset()
	slog.New(newLogHandler(LogOptions{Out: &out}, terminal, true)).Warn("hello")
	if strings.Contains(out.String(), colour) {
		t.Errorf("colour in spite of NO_COLOR: %q", &out)
	}
	out.Reset()
	slog.New(NewLogHandler(LogOptions{Out: &out})).Debug("hello")
	if out.Len() > 0 {
		t.Errorf("debug was logged at the default level: %q", &out)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if deviceOf(w) != pipe {
		t.Error("a pipe was taken for a terminal")
	}
}

func TestLongValuesAreCut(t *testing.T) {
	for in, want := range map[string]string{
		strings.Repeat("a", maxLogValue):   strings.Repeat("a", maxLogValue),
		strings.Repeat("a", maxLogValue+2): strings.Repeat("a", maxLogValue) + "… (2 bytes more)",
		// A rune of two bytes across the limit goes as a whole.
		strings.Repeat("a", maxLogValue-1) + "é": strings.Repeat("a", maxLogValue-1) + "… (2 bytes more)",
	} {
		if got := shorten(in); got != want {
			t.Errorf("shorten(%d bytes) ends %q, want %q", len(in), got[len(got)-24:], want[len(want)-24:])
		}
	}
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "plain ü", "a\nb\tc", "\x00\x1b[31m", "\xff\xfe", "\u202e\ufffd", "back\\slash"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := printable(s)
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("printable(%q) = %q holds %U", s, got, r)
			}
		}
		if again := printable(got); again != got {
			t.Fatalf("printable is not stable: %q, then %q", got, again)
		}
	})
}

// A duration is written as people write it, in every format: JSON would make a
// number of nanoseconds of it.
func TestDurationsAreReadable(t *testing.T) {
	everyFormat(t, func(t *testing.T, log *slog.Logger, out *bytes.Buffer) {
		log.Info("stopping", "timeout", 25*time.Second)
		if !strings.Contains(out.String(), "25s") {
			t.Errorf("no 25s in %s", out)
		}
	})
}
