// Package message holds what flows through the relay: the message itself, the
// record of what was tried with it, and the dead letter it may become. The
// written form (one JSON object a line) is here too; reading it gives back
// exactly the same message.
package message

import (
	"encoding/json/jsontext"
	"maps"
	"sync/atomic"
	"time"
)

// Message is one unit of work. It is never changed after its source made it:
// a step that alters something works on a copy (With), and may share the
// parts it leaves alone. Safe for concurrent reading.
type Message struct {
	// ID is the caller's own key or one that the source derived. It is the
	// idempotency key of every attempt. At most MaxID bytes, no control
	// characters, never empty.
	ID string
	// Source is the name of the source it came in by.
	Source string
	// Time is when the source took it.
	Time time.Time
	// Key is the sender's partition or grouping key; often empty.
	Key string
	// Headers are the sender's, keys in lower case, without hop-by-hop ones
	// and credentials.
	Headers map[string][]string
	// ContentType is the media type of Body as the sender gave it.
	ContentType string
	Body        []byte
	// Attributes are what the relay records beside the message: dlq, ai, http.
	Attributes map[string]jsontext.Value

	parsed atomic.Pointer[parsed]
}

// MaxID is the longest id in bytes.
const MaxID = 256

type parsed struct {
	value any
	err   error
}

// Parse returns the body as jq sees it (the parsed JSON, or the body as a
// string where it is not JSON), decoding it once a message, or once for each of
// several that ask at the same moment first. The value is shared: callers must
// not change it.
func (m *Message) Parse(decode func([]byte) (any, error)) (any, error) {
	if p := m.parsed.Load(); p != nil {
		return p.value, p.err
	}
	v, err := decode(m.Body)
	m.parsed.Store(&parsed{v, err})
	return v, err
}

// With returns a copy that change may alter. The copy's maps are its own; the
// body's bytes are shared, so replace the slice, do not write into it.
func (m *Message) With(change func(*Message)) *Message {
	c := &Message{
		ID: m.ID, Source: m.Source, Time: m.Time, Key: m.Key,
		Headers: maps.Clone(m.Headers), ContentType: m.ContentType,
		Body: m.Body, Attributes: maps.Clone(m.Attributes),
	}
	change(c)
	return c
}
