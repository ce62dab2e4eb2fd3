package wirejson

import (
	"bytes"
	"encoding/json/jsontext"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawlhq/pawl/internal/core/duration"
)

// scalar reads a value of one kind, or says that it is of another.
func (r *Reader) scalar(kind jsontext.Kind, what string) (jsontext.Value, bool) {
	v := r.next()
	if v == nil {
		return nil, false
	}
	if k := v.Kind(); k != kind {
		r.Wrong("must be %s, not %s", what, describe(k))
		return nil, false
	}
	return v, true
}

// Text reads a text. With Keep it may hold NUL and bytes that are no UTF-8. It
// returns "" where it is none, which is a problem.
func (r *Reader) Text() string {
	v, ok := r.scalar(jsontext.KindString, "a text")
	if !ok {
		return ""
	}
	return unquote(v)
}

// unquote returns a JSON string's text. Bytes that are no UTF-8 stay as they
// are.
func unquote(v jsontext.Value) string {
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	if utf8.Valid(inner) {
		text, _ := jsontext.AppendUnquote(nil, v) // an error is half of a surrogate pair, replaced by U+FFFD
		return string(text)
	}
	var text, run []byte
	flush := func() {
		if len(run) > 0 {
			text, _ = jsontext.AppendUnquote(text, append(append([]byte{'"'}, run...), '"'))
			run = run[:0]
		}
	}
	for len(inner) > 0 {
		c, size := utf8.DecodeRune(inner)
		if c == utf8.RuneError && size == 1 {
			flush() // no escape is cut in two: what follows a backslash is ASCII
			text = append(text, inner[0])
		} else {
			run = append(run, inner[:size]...)
		}
		inner = inner[size:]
	}
	flush()
	return string(text)
}

// Int reads a whole number from least to most; 0 where it is none, which is a
// problem.
func (r *Reader) Int(least, most int64) int64 {
	v, ok := r.scalar(jsontext.KindNumber, "a whole number")
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		f, _ := strconv.ParseFloat(string(v), 64) // past the range it is an infinity
		if f != math.Trunc(f) {
			r.Wrong("must be a whole number, not %s", short(v))
			return 0
		}
		if math.Abs(f) < 1<<53 { // 1e3 and 1.0 are whole numbers
			n = int64(f)
		} else {
			n = math.MaxInt64
			if f < 0 {
				n = math.MinInt64
			}
		}
	}
	if n < least || n > most {
		r.Wrong("must be from %d to %d, not %s", least, most, short(v))
		return 0
	}
	return n
}

// Number reads a number; 0 where it is none, which is a problem.
func (r *Reader) Number() float64 {
	v, ok := r.scalar(jsontext.KindNumber, "a number")
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		r.Wrong("%s is out of range", short(v))
		return 0
	}
	return f
}

// Flag reads a boolean; false where it is none, which is a problem.
func (r *Reader) Flag() bool {
	v := r.next()
	switch v.Kind() {
	case jsontext.KindTrue:
		return true
	case jsontext.KindFalse, jsontext.KindInvalid:
		return false
	default:
		r.Wrong("must be true or false, not %s", describe(v.Kind()))
		return false
	}
}

// Duration reads a length of time written as text; nil where it is none, which
// is a problem.
func (r *Reader) Duration() *time.Duration { return r.duration(func(string) bool { return false }) }

// AnyDuration reads a length of time that may be longer than a time.Duration can
// say: it is the longest then, for who cuts it anyway.
func (r *Reader) AnyDuration() *time.Duration { return r.duration(tooLong) }

func (r *Reader) duration(longest func(text string) bool) *time.Duration {
	v, ok := r.scalar(jsontext.KindString, "a duration written as text, such as \"30s\"")
	if !ok {
		return nil
	}
	text := unquote(v)
	d, err := duration.Parse(text)
	if err != nil && longest(text) {
		d, err = math.MaxInt64, nil
	}
	if err != nil || strings.TrimSpace(text) != text { // which people's files may hold
		r.Wrong("must be a duration such as 250ms, 30s, 5m, 2h or 7d, not %s", short(v))
		return nil
	}
	return &d
}

// tooLong reports whether a text that is no duration would be one with small
// numbers.
func tooLong(text string) bool {
	var small strings.Builder
	before := 'x'
	for _, c := range text {
		if c >= '0' && c <= '9' {
			c = '1'
		}
		if c != '1' || before != '1' {
			small.WriteRune(c)
		}
		before = c
	}
	_, err := duration.Parse(small.String())
	return err == nil
}

// ZeroTime is what is wrong with a time that nobody set: to take it for one that was
// left out would let everything pass.
const ZeroTime = "is the zero time, which is a time that was not set; leave it out"

// Time reads a moment in RFC 3339; nil where it is none or the zero time, which is a
// problem.
func (r *Reader) Time() *time.Time {
	const example = "2026-12-01T03:00:00Z"
	v, ok := r.scalar(jsontext.KindString, "a time written as text, such as \""+example+"\"")
	if !ok {
		return nil
	}
	t, err := time.Parse(time.RFC3339, unquote(v))
	if err != nil {
		r.Wrong("must be a time in RFC 3339 such as %s, not %s", example, short(v))
		return nil
	}
	if t.IsZero() {
		r.Wrong("%s", ZeroTime)
		return nil
	}
	return &t
}

// Value reads any value and returns its bytes in the document. One of more than
// limit bytes is a *SizeError, one nested deeper than MaxDepth an *Error; with
// Keep both are problems, and so is text that is not clean or a name that is
// there twice, and the value is nil.
func (r *Reader) Value(limit int) []byte {
	v := r.next()
	if v == nil {
		return nil
	}
	end := r.dec.InputOffset()
	start := end - int64(len(v))
	if len(v) > limit {
		if r.texts == Refuse {
			r.err = &SizeError{Pointer: cut(r.pointer()), Size: len(v), Max: limit}
		} else {
			r.Wrong("has %d bytes; %d are allowed", len(v), limit)
		}
		return nil
	}
	err := tooDeep(v)
	if err == nil && !r.named {
		err = clean(v)
	}
	if err != nil {
		if r.texts == Refuse {
			err.Pointer, err.Offset = cut(r.pointer()+err.Pointer), err.Offset+start
			r.err = err
		} else {
			r.Wrong("%s, at byte %d of it", err.Message, err.Offset)
		}
		return nil
	}
	return r.body[start:end:end]
}

// clean says why a value can't pass through that was read without a look at its
// names or texts.
func clean(v jsontext.Value) *Error {
	if err := refuseNUL(v); err != nil {
		return err
	}
	if v.IsValid() {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), strict...)
	if _, err := dec.ReadValue(); err != nil {
		return explain(err, dec.InputOffset())
	}
	return nil
}

// short quotes a scalar in a message.
func short(v jsontext.Value) string {
	const enough = 64
	if len(v) > enough {
		return string(bytes.ToValidUTF8(v[:enough], nil)) + "…"
	}
	return string(v)
}
