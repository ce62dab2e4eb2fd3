package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
)

// waiting is why a job waits, or why that can't be told; the zero value where
// nobody has asked.
type waiting struct {
	httpapi.Explanation
	err error
}

// blockLines says how a job is, for people. The first line has its status. now is
// the server's time.
func blockLines(j *httpapi.Job, why *waiting, now time.Time) []string {
	var lines []string
	line := func(name, text string) {
		lines = append(lines, printable(fmt.Sprintf("%-8s %s", name, text)))
	}
	line("status", strings.TrimSuffix(string(j.Status)+"  "+jobWord(j), "  "))
	line("job", fmt.Sprintf("%s, %s in %s", j.ID, j.Task, j.Queue))
	line("attempt", fmt.Sprintf("%d, %d of %d charged", j.Attempt, j.AttemptsCharged, j.Retry.MaxAttempts))
	if j.Status == job.Queued {
		line("next run", localTime(j.RunAt))
		if why.err != nil {
			line("waits", "why can't be told: "+why.err.Error())
		}
		if why.Status == job.Queued { // else it has moved on since
			for i := range why.Causes {
				line("waits", why.Causes[i].Kind+": "+why.Causes[i].Text)
			}
		}
	}
	if made, err := time.Parse(time.RFC3339, string(j.CreatedAt)); err == nil {
		elapsed := now.Sub(made).Truncate(time.Second) // now is known to a second
		if j.FinishedAt != nil {
			if at, err := time.Parse(time.RFC3339, string(*j.FinishedAt)); err == nil {
				elapsed = at.Sub(made)
			}
		}
		line("elapsed", round(elapsed))
	}
	return lines
}

// block is lines on a terminal that are drawn over the ones before.
type block struct {
	out      io.Writer
	size     func() (width, height int) // of the terminal
	coloured bool
	drawn    []int // the lengths of the lines that stand there
}

// indent is what stands before the texts of a block.
const indent = "         "

// wrap breaks a line at its spaces so that it fits; what follows stands below its
// text. A word that is longer than a line is left to be cut.
func wrap(text string, width int) (lines []string) {
	for {
		r := []rune(text)
		if len(r) <= width || width <= 2*len(indent) {
			return append(lines, text)
		}
		at := len(indent)
		for i := width; i > len(indent); i-- {
			if r[i] == ' ' {
				at = i
				break
			}
		}
		if at == len(indent) {
			return append(lines, text)
		}
		lines = append(lines, string(r[:at]))
		text = indent + string(r[at+1:])
	}
}

// draw puts lines in the place of the last ones, in one write, broken at the width
// of the terminal; it does not wrap them itself meanwhile, as some letters take two
// columns.
// Where it is too low for them all, the last one says how many are left out: what
// has scrolled away could not be drawn over.
func (b *block) draw(lines []string, colour string) error {
	width, height := b.size()
	width = max(width, 1)
	var broken []string
	for _, text := range lines {
		broken = append(broken, wrap(text, width)...)
	}
	lines = broken
	if fit := max(height-1, 1); len(lines) > fit { // the cursor stands below them
		left := len(lines) - fit + 1
		lines = append(lines[:fit-1:fit-1], fmt.Sprintf("… and %d lines more", left))
	}
	var s strings.Builder
	up := 0
	for _, n := range b.drawn { // a terminal made narrower has wrapped them
		up += max((n+width-1)/width, 1)
	}
	up = min(up, max(height-1, 0)) // one made lower has scrolled them away
	if up > 0 {
		fmt.Fprintf(&s, "\x1b[%dA\r", up)
	}
	s.WriteString("\x1b[?7l")
	b.drawn = b.drawn[:0]
	for i, text := range lines {
		r := []rune(text)
		r = r[:min(len(r), width)]
		b.drawn = append(b.drawn, len(r))
		text = string(r)
		if i == 0 && b.coloured {
			text = colour + text + "\x1b[0m"
		}
		fmt.Fprintf(&s, "\x1b[2K%s\n", text)
	}
	s.WriteString("\x1b[0J\x1b[?7h") // what is left of a longer block
	_, err := io.WriteString(b.out, s.String())
	return err
}

// leave lets the lines stand; the next ones are drawn below.
func (b *block) leave() { b.drawn = nil }

func statusColour(s job.Status) string {
	switch s {
	case job.Succeeded:
		return "\x1b[32m"
	case job.Failed:
		return "\x1b[31m"
	case job.Queued, job.Running, job.Cancelled:
	}
	return "\x1b[33m"
}
