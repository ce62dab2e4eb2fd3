package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/adminapi"
)

// ending is what became of a message.
type ending uint8

const (
	atOnce ending = iota
	afterRetries
	byFallback
	asLetter
	sentBack
	endings // how many there are
)

// ends are the endings in words, for the table, and their colours.
var ends = [endings]struct {
	words  string
	colour colour
}{
	atOnce:       {"delivered at the first try", green},
	afterRetries: {"delivered after retries", yellow},
	byFallback:   {"delivered by the fallback", cyan},
	asLetter:     {"kept as a dead letter", magenta},
	sentBack:     {"told to send again", red},
}

// colour is an ANSI colour, for a terminal.
type colour string

const (
	plain   colour = ""
	red     colour = "31"
	green   colour = "32"
	yellow  colour = "33"
	magenta colour = "35"
	cyan    colour = "36"
	bold    colour = "1"
)

// ink says whether colours are used.
type ink uint8

const (
	black ink = iota
	coloured
)

func (i ink) paint(c colour, text string) string {
	if i == black || c == plain {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// story makes a line of each message's end, from what happened to it on its
// way. Safe for concurrent use.
type story struct {
	out   io.Writer
	ink   ink
	began time.Time

	mu    sync.Mutex
	under map[string]*way
	sum   [endings]int
}

// way is what has happened to a message so far.
type way struct {
	failed        int // tries that did
	left, why, to string
}

func newStory(out io.Writer, i ink) *story {
	return &story{out: out, ink: i, began: time.Now(), under: map[string]*way{}}
}

// say prints a line that is about no message.
func (s *story) say(c colour, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(time.Now(), s.ink.paint(c, text))
}

func (s *story) line(at time.Time, text string) {
	fmt.Fprintf(s.out, "%5.1f s  %s\n", max(at.Sub(s.began).Seconds(), 0), text)
}

// take looks at a line of the live view.
func (s *story) take(l adminapi.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.under[l.ID]
	if w == nil {
		w = &way{}
	}
	switch l.Event {
	case "attempt":
		if l.Status != "ok" {
			w.failed++
		}
		s.under[l.ID] = w
	case "hop":
		w.left, w.why, w.to = l.Destination, l.Status, l.To
		s.under[l.ID] = w
	case "breaker":
		s.line(l.At, s.ink.paint(bold, breakerWords(l)))
	case "settled":
		delete(s.under, l.ID)
		end, words := w.end(l)
		s.sum[end]++
		s.line(l.At, fmt.Sprintf("%-10s %s", l.ID, s.ink.paint(ends[end].colour, words))+fmt.Sprintf("  (%.0f ms)", l.Millis))
	}
}

// end says how the message ended.
func (w *way) end(l adminapi.Line) (ending, string) {
	switch {
	case l.Status == "dead_lettered":
		return asLetter, "kept as a dead letter: " + w.reason()
	case l.Status != "delivered":
		return sentBack, "its sender was told to send it again: " + l.Error
	case w.left != "":
		return byFallback, "delivered by the fallback " + w.to + ": " + w.reason()
	case w.failed > 0:
		return afterRetries, fmt.Sprintf("delivered at try %d", w.failed+1)
	}
	return atOnce, "delivered"
}

// reason says why the destination was left.
func (w *way) reason() string {
	if w.why == "breaker_open" {
		return "the breaker of " + w.left + " is open"
	}
	if w.failed == 1 {
		return w.left + " failed once"
	}
	return fmt.Sprintf("%s failed %d times", w.left, w.failed)
}

func breakerWords(l adminapi.Line) string {
	text := "the breaker of " + l.Destination + " "
	switch l.Status {
	case "open":
		return text + "opens: nothing is sent there for 2 s"
	case "half_open":
		return text + "is half open: a few messages try it"
	}
	return text + "closes: everything goes there again"
}

// table counts the endings.
func (s *story) table() {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := 0
	for _, n := range s.sum {
		all += n
	}
	fmt.Fprintf(s.out, "\n%s\n", s.ink.paint(bold, fmt.Sprintf("What became of %d messages", all)))
	for e, n := range s.sum {
		fmt.Fprintf(s.out, "  %s %5d\n", s.ink.paint(ends[e].colour, fmt.Sprintf("%-28s", ends[e].words)), n)
	}
}
