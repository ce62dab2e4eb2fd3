package message_test

// These tests catch a head that comes back from a store with something changed
// or missing, two heads of one message, and damage that brings the reader down
// or is taken for a message.

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/message"
)

func TestHeadGolden(t *testing.T) {
	m := &message.Message{
		ID: "a1", Source: "web", Time: time.Unix(3, 5), Key: "k", ContentType: "t",
		Headers:    map[string][]string{"x-b": {"2", ""}, "x-a": nil},
		Attributes: map[string]jsontext.Value{"n": jsontext.Value(`{"z":1}`)},
		Body:       []byte("not in it"),
	}
	want := "\x01\x02a1\x03web\x06\x05\x01k\x01t" + "\x02\x03x-a\x00\x03x-b\x02\x012\x00" + "\x01\x01n\x07{\"z\":1}"
	head := message.AppendHead([]byte("before"), m)
	if diff := cmp.Diff("before"+want, string(head)); diff != "" {
		t.Errorf("what stores hold can't be read any more (-want +got)\n%s", diff)
	}
	back, err := message.DecodeHead([]byte(want), m.Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, back, same); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHeadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messages().Draw(t, "message")
		m.Key += rapid.SampledFrom([]string{"", "\xff", "\x00"}).Draw(t, "bytes that are no text")
		head := message.AppendHead(nil, m)
		body := bytes.Clone(m.Body)
		back, err := message.DecodeHead(head, body)
		if err != nil {
			t.Fatal(err)
		}
		if again := message.AppendHead(nil, back); !bytes.Equal(head, again) {
			t.Fatalf("one message, two heads:\n%q\n%q", head, again)
		}
		for i := range head {
			head[i] = '!'
		}
		if diff := cmp.Diff(m, back, same); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
		if !m.Time.Equal(back.Time) {
			t.Fatalf("the time %v came back as %v", m.Time, back.Time)
		}
	})
}

// TestHeadDamage: no part of a head is a head, nor is one with more behind it.
func TestHeadDamage(t *testing.T) {
	m := &message.Message{
		ID: "id", Source: "s", Time: noon, Headers: map[string][]string{"a": {"1"}, "b": {"2"}},
		Attributes: map[string]jsontext.Value{"n": jsontext.Value("1")},
	}
	head := message.AppendHead(nil, m)
	for n := range head {
		if back, err := message.DecodeHead(head[:n], nil); !errors.Is(err, message.ErrHeadDamaged) || back != nil {
			t.Errorf("the first %d bytes: %v, %v", n, back, err)
		}
	}
	for _, damaged := range []string{
		string(head) + "\x00",
		"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",                  // a text longer than everything
		"\x01\x01a\x00\x00\x80\x94\xeb\xdc\x03\x00\x00\x00\x00",         // a whole second of nanoseconds
		"\x01\x01a\x00\x00\x00\x00\x00\x02\x01b\x00\x01a\x00\x00",       // headers out of order
		"\x01\x01a\x00\x00\x00\x00\x00\x02\x01a\x00\x01a\x00\x00",       // a header twice
		"\x01\x01a\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", // a time that is too long
	} {
		if _, err := message.DecodeHead([]byte(damaged), nil); !errors.Is(err, message.ErrHeadDamaged) {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

// TestHeadVersion: what a newer pawl wrote is refused by name, not misread.
func TestHeadVersion(t *testing.T) {
	head := message.AppendHead(nil, &message.Message{ID: "a"})
	for _, v := range []byte{0, 2, 255} {
		head[0] = v
		if _, err := message.DecodeHead(head, nil); !errors.Is(err, message.ErrHeadVersion) {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// FuzzDecodeHead: nothing brings it down, and what it takes comes back.
func FuzzDecodeHead(f *testing.F) {
	f.Add(message.AppendHead(nil, &message.Message{ID: "a"}))
	f.Add(message.AppendHead(nil, &message.Message{
		ID: "a", Source: "web", Time: noon, Key: "k", Headers: map[string][]string{"a": {"1", "2"}, "b": nil},
		ContentType: "text/plain", Attributes: map[string]jsontext.Value{"n": jsontext.Value(`[1]`)},
	}))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, head []byte) {
		m, err := message.DecodeHead(head, []byte("body"))
		if err != nil {
			return
		}
		back, err := message.DecodeHead(message.AppendHead(nil, m), []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, back, same); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

func BenchmarkHead(b *testing.B) {
	m := &message.Message{
		ID: "web/01k9c3", Source: "web", Time: noon, ContentType: "application/json", Body: make([]byte, 1024),
		Headers: map[string][]string{"user-agent": {"curl/8"}, "traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},
	}
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf = message.AppendHead(buf[:0], m)
		if _, err := message.DecodeHead(buf, m.Body); err != nil {
			b.Fatal(err)
		}
	}
}
