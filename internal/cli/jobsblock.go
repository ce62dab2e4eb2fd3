package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
)

// blockLines says how a job is, for people. The first line has its status. why
// is nil where nobody has asked why it waits.
func blockLines(j *httpapi.Job, why *httpapi.Explanation, now time.Time) []string {
	var lines []string
	line := func(name, text string) {
		lines = append(lines, printable(fmt.Sprintf("%-8s %s", name, text)))
	}
	line("status", strings.TrimSuffix(string(j.Status)+"  "+jobWord(j), "  "))
	line("job", fmt.Sprintf("%s, %s in %s", j.ID, j.Task, j.Queue))
	line("attempt", fmt.Sprintf("%d, %d of %d charged", j.Attempt, j.AttemptsCharged, j.Retry.MaxAttempts))
	if j.Status == job.Queued {
		line("next run", localTime(j.RunAt))
		if why != nil && why.Status == job.Queued { // else it has moved on since
			for i := range why.Causes {
				line("waits", why.Causes[i].Kind+": "+why.Causes[i].Text)
			}
		}
	}
	if j.FinishedAt != nil {
		if at, err := time.Parse(time.RFC3339, string(*j.FinishedAt)); err == nil {
			now = at
		}
	}
	if made, err := time.Parse(time.RFC3339, string(j.CreatedAt)); err == nil {
		line("elapsed", round(now.Sub(made)))
	}
	return lines
}

// block is lines on a terminal that are drawn over the ones before.
type block struct {
	out      io.Writer
	width    func() int // of the terminal, in columns
	coloured bool
	drawn    []int // the lengths of the lines that stand there
}

// draw puts lines in the place of the last ones, in one write. Lines are cut to
// the terminal; it does not wrap them meanwhile, as some letters take two columns.
func (b *block) draw(lines []string, colour string) error {
	width := max(b.width(), 1)
	var s strings.Builder
	up := 0
	for _, n := range b.drawn { // a terminal made narrower has wrapped them
		up += max((n+width-1)/width, 1)
	}
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
