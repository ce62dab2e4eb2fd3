package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Severity says whether a problem stops a start.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	// Info is what somebody should know, though nothing is wrong.
	Info Severity = "info"
)

// rank is the order in which severities keep their room in a report.
func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Info}, s) }

// Problem is one thing that is wrong with a configuration. No field holds a
// secret's value.
type Problem struct {
	File string `json:"file"`
	// Line and Column count from 1, columns in characters; both are 0 where
	// the file as a whole is meant.
	Line     int      `json:"line,omitzero"`
	Column   int      `json:"column,omitzero"`
	Severity Severity `json:"severity"`
	// Message says what is wrong and what to do.
	Message string `json:"message"`
	// Suggestion is the word that was probably meant; "" for none.
	Suggestion string `json:"suggestion,omitzero"`
	// Excerpt is the line of the file, at most excerptRunes long.
	Excerpt string `json:"excerpt,omitzero"`
	// caret is where in Excerpt the problem is, in characters from 0.
	caret int
}

// Text is the message with its suggestion.
func (p Problem) Text() string {
	if p.Suggestion == "" {
		return p.Message
	}
	return fmt.Sprintf("%s; did you mean %q?", p.Message, p.Suggestion)
}

// String is file:line:column: severity: text, on one line.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "%s: %s", p.Severity, p.Text())
	return b.String()
}

// MaxProblems is how many problems a report keeps; the rest is counted. A
// file with more is wrong in one way many times.
const MaxProblems = 500

// Report holds every problem of a configuration, sorted by place.
type Report struct {
	Problems []Problem
	// Left is how many problems beyond MaxProblems were found.
	Left int
}

// Errors returns how many problems stop a start.
func (r *Report) Errors() int { return r.count(Error) }

// Warnings returns how many problems do not stop a start.
func (r *Report) Warnings() int { return r.count(Warning) }

func (r *Report) count(s Severity) int {
	n := 0
	for _, p := range r.Problems {
		if p.Severity == s {
			n++
		}
	}
	return n
}

// Err returns nil when nothing stops a start, else an error with the first
// problem and how many more there are.
func (r *Report) Err() error {
	n := r.Errors()
	if n == 0 {
		return nil
	}
	i := slices.IndexFunc(r.Problems, func(p Problem) bool { return p.Severity == Error })
	if more := n - 1 + r.Left; more > 0 {
		return fmt.Errorf("%s (and %d more)", r.Problems[i], more)
	}
	return fmt.Errorf("%s", r.Problems[i])
}

// Style is how a report is printed.
type Style string

// The styles.
const (
	Plain    Style = "plain"
	Coloured Style = "coloured" // ANSI colours, for a terminal
)

// Write prints every problem with its line of the file and a caret, and where
// there are errors a last line that counts them and the warnings. A report
// without problems prints nothing.
func (r *Report) Write(w io.Writer, style Style) error {
	var b strings.Builder
	for _, p := range r.Problems {
		p.write(&b, style)
	}
	if r.Errors() > 0 {
		fmt.Fprintf(&b, "%s, %s\n", plural(r.Errors(), "error"), plural(r.Warnings(), "warning"))
	}
	if r.Left > 0 {
		fmt.Fprintf(&b, "and %s more that are not shown\n", plural(r.Left, "problem"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

func (p Problem) write(b *strings.Builder, style Style) {
	paint := func(code, s string) string {
		if style == Coloured {
			return "\x1b[" + code + "m" + s + "\x1b[0m"
		}
		return s
	}
	colour := "31" // red
	switch p.Severity {
	case Error:
	case Warning:
		colour = "33" // yellow
	case Info:
		colour = "36" // cyan
	}
	if p.File != "" {
		place := p.File + ":"
		if p.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d:", p.File, p.Line, p.Column)
		}
		b.WriteString(paint("1", place) + " ")
	}
	fmt.Fprintf(b, "%s %s\n", paint(colour, string(p.Severity)+":"), p.Text())
	if p.Excerpt == "" {
		return
	}
	fmt.Fprintf(b, "%5d | %s\n", p.Line, p.Excerpt)
	fmt.Fprintf(b, "      | %s%s\n", indent(p.Excerpt, p.caret), paint(colour, "^"))
}

// indent returns blank space as wide as the first n characters of line. Tabs
// stay tabs, so that the caret stands under its place.
func indent(line string, n int) string {
	var b strings.Builder
	for _, r := range line {
		if n == 0 {
			break
		}
		if n--; r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	b.WriteString(strings.Repeat(" ", n))
	return b.String()
}

// excerptRunes is the longest excerpt: what fits on a wide terminal.
const excerptRunes = 120

// excerpt cuts a line of a file around column (from 1) and makes it safe to
// print: a control character could move the cursor or hide text.
func excerpt(line string, column int) (text string, caret int) {
	runes := []rune(strings.TrimRight(line, "\r\n"))
	caret = min(max(column-1, 0), len(runes))
	if len(runes) > excerptRunes {
		from := min(max(caret-excerptRunes/2, 0), len(runes)-excerptRunes)
		head, tail := from > 0, from+excerptRunes < len(runes)
		runes = slices.Clone(runes[from : from+excerptRunes])
		caret -= from
		if head {
			runes[0] = '…'
		}
		if tail {
			runes[len(runes)-1] = '…'
		}
	}
	for i, r := range runes {
		if r != '\t' && !unicode.IsPrint(r) {
			runes[i] = unicode.ReplacementChar
		}
	}
	return string(runes), caret
}

// printable makes a text safe for one line of a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// settle sorts the problems by place, removes repeats (an alias is decoded
// wherever it is used) and cuts what is too much.
func (r *Report) settle() {
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message),
		)
	})
	r.Problems = slices.CompactFunc(r.Problems, func(a, b Problem) bool { return a == b })
	if n := len(r.Problems); n > MaxProblems {
		// Errors decide whether a configuration is used: they go first.
		slices.SortStableFunc(r.Problems, func(a, b Problem) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
		r.Left += n - MaxProblems
		r.Problems = r.Problems[:MaxProblems]
	}
}

// oneOf writes "a, b or c".
func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
