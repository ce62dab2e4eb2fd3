package deadletter

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Timeline tells a letter's story for people: what it is, and what was tried
// when, with waits, tags and errors. It never shows the body. Texts that came
// from outside are quoted where they hold control characters, so that none can
// play tricks with a terminal. Times stand in UTC, and beside each step the time
// since the message came in. It ends with a newline.
func Timeline(l *message.DeadLetter) string {
	var b strings.Builder
	m := l.Message
	field := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	field("letter", "%s", plain(l.Letter))
	field("message", "%s", plain(m.ID))
	field("came in", "%s by source %s", stamp(m.Time), plain(m.Source))
	if m.ContentType != "" {
		field("body", "%d bytes, %s", len(m.Body), plain(m.ContentType))
	} else {
		field("body", "%d bytes", len(m.Body))
	}
	field("died", "%s in relay %s", stamp(l.At), plain(l.Relay))
	field("reason", "%s", l.Reason)
	if l.Destination != "" {
		field("destination", "%s", plain(l.Destination))
	}
	if l.Source != "" {
		field("from", "the queue of source %s", plain(l.Source))
	}
	if l.Route != "" {
		field("route", "%s", plain(l.Route))
	}
	field("error", "%s", withTags(l.Error, l.Tags))
	field("attempts", "%d", l.Attempts)
	for i := range l.Replays {
		d := &l.Replays[i]
		fmt.Fprintf(&b, "\ndeath %d of %d: %s, letter %s, %s\n", i+1, len(l.Replays)+1, stamp(d.At), plain(d.Letter), d.Reason)
		story(&b, d, m.Time)
	}
	if len(l.Replays) > 0 {
		fmt.Fprintf(&b, "\ndeath %d of %d: %s, this letter\n", len(l.Replays)+1, len(l.Replays)+1, stamp(l.At))
	} else {
		b.WriteByte('\n')
	}
	story(&b, &l.Death, m.Time)
	return b.String()
}

// story writes the hops and attempts of one death.
func story(b *strings.Builder, d *message.Death, since time.Time) {
	for i := range d.Hops {
		h := &d.Hops[i]
		fmt.Fprintf(b, "  to %s\n", plain(h.Destination))
		for j := range h.Attempts {
			attempt(b, &h.Attempts[j], since)
		}
		left := ""
		if len(h.Attempts) == 0 {
			left = ", not tried: " + withTags(h.Error, h.Tags)
		}
		fmt.Fprintf(b, "    %-11s left: %s%s\n", after(h.At, since), h.Reason, left)
	}
	fmt.Fprintf(b, "  %-13s dead: %s\n", after(d.At, since), withTags(d.Error, d.Tags))
}

func attempt(b *strings.Builder, a *message.Attempt, since time.Time) {
	fmt.Fprintf(b, "    %-11s attempt %d", after(a.At, since), a.Number)
	if a.Endpoint != "" {
		fmt.Fprintf(b, " at %s", plain(a.Endpoint))
	}
	if a.Waited > 0 {
		fmt.Fprintf(b, " after waiting %s", span(a.Waited))
	}
	fmt.Fprintf(b, ": %s", ended(a))
	if a.Error != "" || len(a.Tags) > 0 {
		fmt.Fprintf(b, ": %s", withTags(a.Error, a.Tags))
	}
	b.WriteByte('\n')
}

// ended is how an attempt ended, in a sentence.
func ended(a *message.Attempt) string {
	took := span(a.Duration)
	switch a.Outcome {
	case message.OutcomeOK:
		return "delivered in " + took
	case message.OutcomeRetry:
		return "failed in " + took + ", worth a retry"
	case message.OutcomePermanent:
		return "failed in " + took + " for good"
	case message.OutcomeCancelled:
		return "cancelled after " + took
	}
	return plain(string(a.Outcome)) + " in " + took
}

func withTags(text string, tags failure.Tags) string {
	if text == "" {
		text = "no error text"
	}
	text = plain(text)
	if len(tags) > 0 {
		text += " [" + plain(tags.String()) + "]"
	}
	return text
}

// plain quotes a text that a terminal could take for more than text, and an
// empty one.
func plain(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// after is the time of a step since the message came in, with a sign.
func after(t, since time.Time) string {
	d := t.Sub(since)
	if d < 0 {
		return "-" + span(-d)
	}
	return "+" + span(d)
}

// span rounds a duration to what people read: four digits or so.
func span(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
