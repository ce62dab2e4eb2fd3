package message

import (
	"encoding/binary"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The head of a message is everything but its body, in a compact binary form
// for stores that keep the body apart. Version 1 is, in this order:
//
//	the version, one byte
//	id, source                      texts: their length as an uvarint, their bytes
//	time                            Unix seconds as a varint, nanoseconds as an uvarint
//	key, content_type               texts
//	headers                         how many, then each: its name, how many values, the values
//	attributes                      how many, then each: its name, its JSON as a text
//
// Headers and attributes stand in the order of their names, so that equal
// messages have equal heads. Unlike the written form it takes any bytes as
// text: what a source let in must come out of a store again, whatever it is.

// headVersion is the version that AppendHead writes.
const headVersion = 1

// Errors of DecodeHead to ask for with errors.Is.
var (
	// ErrHeadVersion: a newer pawl wrote the head.
	ErrHeadVersion = errors.New("the head of the message has a version that this pawl does not know")
	// ErrHeadDamaged: it is no head, or not a whole one.
	ErrHeadDamaged = errors.New("the head of the message is damaged")
)

// AppendHead appends the head of m to b and returns the extended slice.
func AppendHead(b []byte, m *Message) []byte {
	b = append(b, headVersion)
	b = appendText(b, m.ID)
	b = appendText(b, m.Source)
	b = binary.AppendVarint(b, m.Time.Unix())
	b = binary.AppendUvarint(b, uint64(m.Time.Nanosecond()))
	b = appendText(b, m.Key)
	b = appendText(b, m.ContentType)
	b = binary.AppendUvarint(b, uint64(len(m.Headers)))
	for _, name := range inOrder(m.Headers) {
		b = appendText(b, name)
		b = binary.AppendUvarint(b, uint64(len(m.Headers[name])))
		for _, v := range m.Headers[name] {
			b = appendText(b, v)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.Attributes)))
	for _, name := range inOrder(m.Attributes) {
		b = appendText(b, name)
		b = appendText(b, m.Attributes[name])
	}
	return b
}

// inOrder returns the keys of a map, sorted; nothing is allocated for an empty
// one.
func inOrder[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// DecodeHead returns the message of a head and a body, whose bytes it shares;
// with head it shares nothing. The time is in UTC; empty and absent come back
// as nil. An error is ErrHeadVersion or ErrHeadDamaged.
func DecodeHead(head, body []byte) (*Message, error) {
	if len(head) == 0 {
		return nil, ErrHeadDamaged
	}
	if head[0] != headVersion {
		return nil, fmt.Errorf("%w: %d", ErrHeadVersion, head[0])
	}
	r := headReader{rest: string(head[1:])} // one allocation for all its texts
	m := &Message{ID: r.text(), Source: r.text()}
	m.Time = r.time()
	m.Key, m.ContentType = r.text(), r.text()
	m.Headers = readMap(&r, func() []string {
		var values []string
		for range r.count() {
			values = append(values, r.text())
		}
		return values
	})
	m.Attributes = readMap(&r, func() jsontext.Value { return jsontext.Value(r.text()) })
	if r.rest != "" {
		r.damaged = true // something follows
	}
	if r.damaged {
		return nil, ErrHeadDamaged
	}
	if len(body) > 0 {
		m.Body = body
	}
	return m, nil
}

// headReader takes a head apart. After damage everything it reads is empty.
type headReader struct {
	rest    string
	damaged bool
}

func (r *headReader) fail() {
	r.damaged, r.rest = true, ""
}

// number returns the bytes that a number of varying length may take.
func (r *headReader) number() []byte {
	return []byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)])
}

func (r *headReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.number())
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads how many things follow: each takes a byte at least, so that
// damage can't make the reader wait or allocate for more than there is.
func (r *headReader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *headReader) text() string {
	n := r.count()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *headReader) time() time.Time {
	seconds, n := binary.Varint(r.number())
	if n <= 0 {
		r.fail()
		return time.Time{}
	}
	r.rest = r.rest[n:]
	nanos := r.uvarint()
	if nanos >= uint64(time.Second) {
		r.fail()
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanos)).UTC()
}

// readMap reads entries in the order of their names.
func readMap[V any](r *headReader, value func() V) map[string]V {
	n := r.count()
	if n == 0 {
		return nil
	}
	m := map[string]V{}
	last := ""
	for i := range n {
		name := r.text()
		if i > 0 && name <= last {
			r.fail()
		}
		if r.damaged {
			return nil
		}
		m[name], last = value(), name
	}
	return m
}
