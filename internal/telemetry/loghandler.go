package telemetry

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
)

// LogFormat is how log lines are written.
type LogFormat string

// The formats.
const (
	// LogText is key=value pairs; on a terminal short coloured lines, without
	// the colour where NO_COLOR is set.
	LogText LogFormat = "text"
	// LogJSON is one JSON object a line.
	LogJSON LogFormat = "json"
)

// LogOptions are what NewLogHandler needs.
type LogOptions struct {
	Out io.Writer
	// Device is what Out writes to in the end, where Out is something in
	// between; nil is Out itself. It decides whether lines are for a terminal.
	Device io.Writer
	Format LogFormat    // "" is LogText
	Level  slog.Leveler // nil is slog.LevelInfo
	// Redact returns its argument with every secret in it replaced. Every
	// string of a line goes through it. nil means there are no secrets.
	Redact func(string) string
}

// NewLogHandler returns the handler of everything that pawl logs. Secrets are
// redacted and control characters escaped in messages, keys and values, in
// every format, so that nothing a sender chooses can forge a line or steer a
// terminal. Safe for concurrent use if Out's Write is not used elsewhere.
func NewLogHandler(o LogOptions) slog.Handler {
	_, noColor := os.LookupEnv("NO_COLOR")
	device := o.Device
	if device == nil {
		device = o.Out
	}
	return newLogHandler(o, deviceOf(device), noColor)
}

// device is what lines are written to.
type device uint8

const (
	pipe device = iota
	terminal
)

// deviceOf reports whether w is a character device. /dev/null is one too, and
// nobody sees the difference.
func deviceOf(w io.Writer) device {
	f, ok := w.(*os.File)
	if !ok {
		return pipe
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return pipe
	}
	return terminal
}

func newLogHandler(o LogOptions, d device, noColor bool) slog.Handler {
	level := o.Level
	if level == nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	var h slog.Handler
	switch {
	case o.Format == LogJSON:
		h = slog.NewJSONHandler(o.Out, options)
	case d == terminal:
		h = tint.NewTextHandler(o.Out, &tint.Options{Level: level, TimeFormat: "15:04:05.000", NoColor: noColor})
	default:
		h = slog.NewTextHandler(o.Out, options)
	}
	redact := o.Redact
	if redact == nil {
		redact = func(s string) string { return s }
	}
	return &scrubber{next: h, redact: redact}
}
