package chaos

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// pageTemplate escapes every name by where it stands.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"ms":      func(m Millis) string { return short(time.Duration(m)) },
	"words":   func(s string) string { return strings.ReplaceAll(s, "_", " ") },
	"outcome": outcomeText,
	"utc":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"load":    func(f float64) string { return fmt.Sprintf("%.2f", f) },
}).Parse(pageText))

// page is what the template sees.
type page struct {
	Report
	Width     unit
	Left      unit
	Right     unit
	RowHeight unit
	Attempts  picture
	Latencies picture
	Counts    Attempts
	// Sampled says that the pictures show a part of the messages.
	Sampled bool
	// Received says that the messages were, so that nothing is proven of them.
	Received bool
	// MoreLetters is how many dead letters the table leaves out.
	MoreLetters int
}

// WriteHTML writes the report as one page: without a script, and with nothing
// that comes from elsewhere. It is XML as well as HTML.
func (r Report) WriteHTML(w io.Writer) error {
	return pageTemplate.Execute(w, page{
		Report: r, Width: pictureWidth, Left: edge, Right: pictureWidth - edge, RowHeight: barHeight,
		Attempts: r.timeline(), Latencies: r.latencies(), Counts: r.Attempts,
		Sampled:     len(r.Timeline.Bars) < r.Timeline.Attempts || len(r.Timeline.Hops) < r.Timeline.HopsSeen,
		Received:    r.Traffic == Received,
		MoreLetters: max(r.Messages.DeadLettered-len(r.Letters), 0),
	})
}
