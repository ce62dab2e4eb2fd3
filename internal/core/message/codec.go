package message

import (
	"bytes"
	"encoding/base64"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"
)

// The written form of a message is one JSON object on one line, its members in
// this order; those with a question mark are left out when empty:
//
//	id, source, time, key?, headers?, content_type?, attributes?, body, body_encoding?
//
// time is RFC 3339 in UTC with nanoseconds. The body is a JSON string where it
// is UTF-8; any other is base64, and body_encoding says so.

// MaxLine is the longest line in bytes, without its newline, that is written or
// read: the largest body that a source may be told to take, several times over
// for the escapes.
const MaxLine = 64 << 20

// ErrTooLong is wrapped by errors about a line beyond MaxLine.
var ErrTooLong = errors.New("longer than 64 MiB")

// base64Name is the one value of body_encoding.
const base64Name = "base64"

// CheckID returns what is wrong with an id: it must be UTF-8 without control
// characters, not empty, and at most MaxID bytes.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("the id is empty")
	case len(id) > MaxID:
		return fmt.Errorf("the id has %d bytes; at most %d are allowed", len(id), MaxID)
	case !utf8.ValidString(id):
		return errors.New("the id is not UTF-8")
	}
	for i, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("the id holds the control character %U at byte %d", r, i)
		}
	}
	return nil
}

// Encode returns the written form of a message, without a newline. It refuses
// what could not be read back unchanged: an id that CheckID refuses, text that
// is not UTF-8 outside the body, an attribute that is not JSON, a time outside
// the years 0 to 9999, a line beyond MaxLine.
func Encode(m *Message) ([]byte, error) {
	// A guess that spares most bodies a second allocation.
	return Append(make([]byte, 0, 256+len(m.Body)+len(m.Body)/8), m)
}

// Append does what Encode does at the end of dst. With an error it returns dst
// as it was.
func Append(dst []byte, m *Message) ([]byte, error) {
	w := writer{buf: dst}
	if w.err = CheckID(m.ID); w.err == nil {
		w.message(m)
	}
	if w.err == nil && len(w.buf)-len(dst) > MaxLine {
		w.err = ErrTooLong
	}
	if w.err != nil {
		return dst, fmt.Errorf("writing a message: %w", w.err)
	}
	return w.buf, nil
}

// writer appends JSON and keeps the first error.
type writer struct {
	buf []byte
	err error
}

func (w *writer) message(m *Message) {
	w.raw(`{"id":`)
	w.text("id", m.ID)
	w.raw(`,"source":`)
	w.text("source", m.Source)
	w.raw(`,"time":`)
	w.time(m.Time)
	if m.Key != "" {
		w.raw(`,"key":`)
		w.text("key", m.Key)
	}
	if len(m.Headers) > 0 {
		w.raw(`,"headers":`)
		w.headers(m.Headers)
	}
	if m.ContentType != "" {
		w.raw(`,"content_type":`)
		w.text("content_type", m.ContentType)
	}
	if len(m.Attributes) > 0 {
		w.raw(`,"attributes":`)
		w.attributes(m.Attributes)
	}
	w.raw(`,"body":`)
	if utf8.Valid(m.Body) {
		w.buf, _ = jsontext.AppendQuote(w.buf, m.Body)
		w.raw(`}`)
		return
	}
	w.raw(`"`)
	w.buf = base64.StdEncoding.AppendEncode(w.buf, m.Body)
	w.raw(`","body_encoding":"base64"}`)
}

func (w *writer) raw(s string) { w.buf = append(w.buf, s...) }

// text writes a string; field names it in an error.
func (w *writer) text(field, s string) {
	var err error
	if w.buf, err = jsontext.AppendQuote(w.buf, s); err != nil && w.err == nil {
		w.err = fmt.Errorf("%s is not UTF-8: %q", field, shorten(s))
	}
}

func (w *writer) time(t time.Time) {
	t = t.UTC()
	if err := checkYear(t); err != nil && w.err == nil {
		w.err = err
	}
	w.raw(`"`)
	w.buf = t.AppendFormat(w.buf, time.RFC3339Nano)
	w.raw(`"`)
}

func checkYear(t time.Time) error {
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("time: the year %d is not within 0 to 9999", y)
	}
	return nil
}

// headers writes them in the order of their names, so that equal messages are
// equal lines.
func (w *writer) headers(h map[string][]string) {
	w.raw(`{`)
	for i, name := range slices.Sorted(maps.Keys(h)) {
		if i > 0 {
			w.raw(`,`)
		}
		w.text("a header's name", name)
		w.raw(`:[`)
		for j, v := range h[name] {
			if j > 0 {
				w.raw(`,`)
			}
			// The value may be private, so an error names the header alone.
			var err error
			if w.buf, err = jsontext.AppendQuote(w.buf, v); err != nil && w.err == nil {
				w.err = fmt.Errorf("the value of header %q is not UTF-8", shorten(name))
			}
		}
		w.raw(`]`)
	}
	w.raw(`}`)
}

func (w *writer) attributes(attrs map[string]jsontext.Value) {
	w.raw(`{`)
	for i, name := range slices.Sorted(maps.Keys(attrs)) {
		if i > 0 {
			w.raw(`,`)
		}
		w.text("an attribute's name", name)
		w.raw(`:`)
		v, err := compact(attrs[name])
		if err != nil && w.err == nil {
			w.err = fmt.Errorf("attribute %q: %w", shorten(name), err)
		}
		w.buf = append(w.buf, v...)
	}
	w.raw(`}`)
}

// compact returns a checked copy of a JSON value without white space, so that
// it stays on its line. Strings and numbers keep their spelling.
func compact(v jsontext.Value) (jsontext.Value, error) {
	if !v.IsValid() {
		return nil, errors.New("it is not one valid JSON value")
	}
	v = v.Clone()
	if err := v.Compact(); err != nil {
		return nil, err
	}
	return v, nil
}

// shorten keeps an error line short.
func shorten(s string) string {
	const most = 64 // bytes; enough to recognise it
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// Decode reads the written form of a message. The result shares nothing with
// line. Empty and absent come back as nil. Members may stand in any order and
// with white space between; an unknown or repeated one, a wrong type, a missing
// id, source, time or body, and what Encode would refuse are errors that name
// the member.
func Decode(line []byte) (*Message, error) {
	if len(line) > MaxLine {
		return nil, fmt.Errorf("reading a message: %w", ErrTooLong)
	}
	r := reader{dec: jsontext.NewDecoder(bytes.NewBuffer(line)), seen: map[string]bool{}}
	m, err := r.message()
	if err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	return m, nil
}

// reader takes a message from its written form.
type reader struct {
	dec      *jsontext.Decoder
	seen     map[string]bool
	body     []byte
	encoding string
}

func (r *reader) message() (*Message, error) {
	m := &Message{}
	if err := r.object("it", func(name string) error { return r.member(m, name) }); err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); err == nil {
		return nil, errors.New("something follows the object")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, name := range []string{"id", "source", "time", "body"} {
		if !r.seen[name] {
			return nil, fmt.Errorf("member %q is missing", name)
		}
	}
	if err := CheckID(m.ID); err != nil {
		return nil, err
	}
	if r.encoding == base64Name {
		b, err := base64.StdEncoding.Strict().AppendDecode(nil, r.body)
		if err != nil {
			return nil, errors.New("body is not base64, though body_encoding says so")
		}
		r.body = b
	}
	if len(r.body) > 0 {
		m.Body = r.body
	}
	return m, nil
}

// member reads the value of one member.
func (r *reader) member(m *Message, name string) (err error) {
	r.seen[name] = true
	switch name {
	case "id":
		m.ID, err = r.text(name)
	case "source":
		m.Source, err = r.text(name)
	case "time":
		m.Time, err = r.time()
	case "key":
		m.Key, err = r.text(name)
	case "headers":
		m.Headers, err = r.headers()
	case "content_type":
		m.ContentType, err = r.text(name)
	case "attributes":
		m.Attributes, err = r.attributes()
	case "body":
		r.body, err = r.bytes(name)
	case "body_encoding":
		if r.encoding, err = r.text(name); err == nil && r.encoding != base64Name {
			err = fmt.Errorf("body_encoding is %q; only \"base64\" is known", shorten(r.encoding))
		}
	default:
		err = fmt.Errorf("unknown member %q", shorten(name))
	}
	return err
}

// object reads an object; member is called at each value.
func (r *reader) object(what string, member func(name string) error) error {
	if err := r.open('{', what, "an object"); err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// open reads the begin of an object or array.
func (r *reader) open(kind jsontext.Kind, what, wanted string) error {
	if k := r.dec.PeekKind(); k != kind && k != 0 {
		return fmt.Errorf("%s must be %s, not %v", what, wanted, k)
	}
	_, err := r.dec.ReadToken()
	return err
}

// bytes reads a string's text.
func (r *reader) bytes(what string) ([]byte, error) {
	if k := r.dec.PeekKind(); k != '"' && k != 0 {
		return nil, fmt.Errorf("%s must be a string, not %v", what, k)
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	return jsontext.AppendUnquote(make([]byte, 0, len(v)-2), v)
}

func (r *reader) text(what string) (string, error) {
	b, err := r.bytes(what)
	return string(b), err
}

func (r *reader) time() (time.Time, error) {
	b, err := r.bytes("time")
	if err != nil {
		return time.Time{}, err
	}
	var t time.Time
	if err := t.UnmarshalText(b); err != nil {
		return time.Time{}, fmt.Errorf("time %q is not RFC 3339, like 2026-11-30T18:00:00Z", shorten(string(b)))
	}
	return t.UTC(), checkYear(t.UTC())
}

func (r *reader) headers() (map[string][]string, error) {
	h := map[string][]string{}
	err := r.object("headers", func(name string) error {
		if err := r.open('[', "a header's value", "a list of strings"); err != nil {
			return err
		}
		var values []string
		for r.dec.PeekKind() != ']' {
			v, err := r.text("a header's value")
			if err != nil {
				return err
			}
			values = append(values, v)
		}
		h[name] = values
		_, err := r.dec.ReadToken()
		return err
	})
	return orNil(h), err
}

func (r *reader) attributes() (map[string]jsontext.Value, error) {
	attrs := map[string]jsontext.Value{}
	err := r.object("attributes", func(name string) error {
		v, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		attrs[name], err = compact(v)
		return err
	})
	return orNil(attrs), err
}

// orNil returns nil for an empty map.
func orNil[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}
