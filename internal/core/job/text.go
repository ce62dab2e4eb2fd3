package job

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// How much is kept of what a worker says, in bytes. A stack of 32 KiB has some
// three hundred frames; what matters of a longer one is at its top.
const (
	MaxErrorType    = 256
	MaxErrorMessage = 8 << 10
	MaxErrorStack   = 32 << 10
	MaxLogMessage   = 8 << 10
	MaxLogLevel     = 32
)

// cutMark ends the text of a log line that was cut; errors have a note instead.
const cutMark = "… (cut)"

// Cleaned says what CleanText did to a text.
type Cleaned struct {
	// Replaced: it had NUL or bytes that are no UTF-8; U+FFFD stands for them.
	Replaced bool
	// Cut: it was longer than the limit.
	Cut bool
}

// CleanText returns s as text that every store and reader takes: valid UTF-8
// without NUL, at most limit bytes, cut between two characters. Whatever a
// worker says is kept, never a reason to refuse its report. A text that is clean
// already is returned as it is, without a copy.
func CleanText(s string, limit int) (string, Cleaned) {
	if len(s) <= limit && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s, Cleaned{}
	}
	var b strings.Builder
	b.Grow(min(len(s), limit))
	var did Cleaned
	bad := false // the bytes just before are no UTF-8: one sign stands for the row
	for at := 0; at < len(s); {
		r, size := utf8.DecodeRuneInString(s[at:])
		invalid := r == utf8.RuneError && size == 1
		if invalid && bad {
			at++
			continue
		}
		bad = invalid
		if invalid || r == 0 {
			r, did.Replaced = utf8.RuneError, true
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			did.Cut = true
			break
		}
		b.WriteRune(r)
		at += size
	}
	return b.String(), did
}

// Clean returns the error as it is kept: every text clean and at most as long as
// MaxErrorType, MaxErrorMessage and MaxErrorStack say. note says what that
// changed; "" for nothing.
func (e Error) Clean() (kept Error, note string) {
	var notes []string
	clean := func(name, s string, limit int) string {
		text, did := CleanText(s, limit)
		if did.Replaced {
			notes = append(notes, name+" had bytes that are no text")
		}
		if did.Cut {
			notes = append(notes, fmt.Sprintf("%s of %d bytes was cut to %d", name, len(s), len(text)))
		}
		return text
	}
	kept = Error{
		Type:    clean("the error's type", e.Type, MaxErrorType),
		Message: clean("the error's message", e.Message, MaxErrorMessage),
		Stack:   clean("the error's stack", e.Stack, MaxErrorStack),
	}
	return kept, strings.Join(notes, "; ")
}

// Clean returns the line as it is kept: clean and at most as long as MaxLogLevel
// and MaxLogMessage say. A message that was cut says so at its end.
func (l LogLine) Clean() LogLine {
	l.Level, _ = CleanText(l.Level, MaxLogLevel)
	message, did := CleanText(l.Message, MaxLogMessage)
	if did.Cut {
		message, _ = CleanText(message, MaxLogMessage-len(cutMark))
		message += cutMark
	}
	l.Message = message
	return l
}
