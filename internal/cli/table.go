package cli

import (
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pawlhq/pawl/internal/setting"
)

// grid is a table of results: aligned columns, a plain look that survives a
// pipe.
type grid struct{ w table.Writer }

func (sh *shell) table(header ...string) *grid {
	w := table.NewWriter()
	s := table.StyleDefault
	s.Options = table.OptionsNoBordersAndSeparators
	s.Box.PaddingLeft, s.Box.PaddingRight = "", "   "
	w.SetStyle(s)
	g := &grid{w}
	row := make(table.Row, len(header))
	for i, h := range header {
		row[i] = h
	}
	w.AppendHeader(row)
	return g
}

func (g *grid) row(cells ...string) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	g.w.AppendRow(row)
}

// String is the table without its last line's end, and without the blanks
// after the last column.
func (g *grid) String() string {
	lines := strings.Split(g.w.Render(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// round writes a time with three digits that count: 1.23s, 45ms, 2h3m, 1h.
func round(d time.Duration) string {
	d = max(d, 0) // clocks differ
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	}
	return setting.Duration(d).String()
}

// ago writes how long ago a time was.
func ago(now, t time.Time) string { return round(now.Sub(t)) + " ago" }
