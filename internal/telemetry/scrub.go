package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLogValue bounds one string of a log line in bytes. An error with the
// answer of an endpoint in it must not become a page.
const maxLogValue = 4096

// scrubber hands records on with their strings cleaned.
type scrubber struct {
	next   slog.Handler
	redact func(string) string
}

// Enabled asks the next handler.
func (s *scrubber) Enabled(ctx context.Context, l slog.Level) bool { return s.next.Enabled(ctx, l) }

// Handle cleans a copy of r.
func (s *scrubber) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, s.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(s.attr(a))
		return true
	})
	return s.next.Handle(ctx, clean)
}

// WithAttrs cleans the attributes once.
func (s *scrubber) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &scrubber{next: s.next.WithAttrs(s.attrs(attrs)), redact: s.redact}
}

// WithGroup opens a group.
func (s *scrubber) WithGroup(name string) slog.Handler {
	return &scrubber{next: s.next.WithGroup(s.text(name)), redact: s.redact}
}

func (s *scrubber) attrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = s.attr(a)
	}
	return clean
}

func (s *scrubber) attr(a slog.Attr) slog.Attr {
	if a.Key != "" { // a group without a key stands for its attributes
		a.Key = s.text(a.Key)
	}
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(s.text(a.Value.String()))
	case slog.KindGroup:
		a.Value = slog.GroupValue(s.attrs(a.Value.Group())...)
	case slog.KindAny:
		// Whatever is inside could hold a secret that only its text shows.
		if v := a.Value.Any(); v != nil {
			a.Value = slog.StringValue(s.text(fmt.Sprint(v)))
		}
	case slog.KindDuration:
		// JSON would have it as a number of nanoseconds.
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindBool, slog.KindFloat64, slog.KindInt64,
		slog.KindTime, slog.KindUint64, slog.KindLogValuer:
		// No text of anybody's; a LogValuer has been resolved above.
	}
	return a
}

// text takes secrets out first: once escaped or cut they would not be found.
func (s *scrubber) text(v string) string { return printable(shorten(s.redact(v))) }

// shorten cuts v to maxLogValue bytes at a rune and says so.
func shorten(v string) string {
	if len(v) <= maxLogValue {
		return v
	}
	end := maxLogValue
	for end > 0 && !utf8.RuneStart(v[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes more)", v[:end], len(v)-end)
}

// printable returns v with everything escaped that is not a letter, a mark, a
// number, a sign or a plain space: control characters, line separators, marks
// of direction, and bytes that are no UTF-8.
func printable(v string) string {
	clean := true
	for _, r := range v {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			clean = false
			break
		}
	}
	if clean {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); {
		r, size := utf8.DecodeRuneInString(v[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, v[i])
		case unicode.IsPrint(r):
			b.WriteString(v[i : i+size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}
