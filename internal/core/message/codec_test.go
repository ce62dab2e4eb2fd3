// These tests catch a message that comes back from its written form with one
// byte changed, a line that can be written and not read, a member that is
// silently dropped or taken for another, and a dead letter that loses a part of
// its story.
package message_test

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/message"
)

// same compares messages; empty and absent are the same.
var same = cmp.Options{cmpopts.IgnoreUnexported(message.Message{}), cmpopts.EquateEmpty()}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		m    *message.Message
		line string
	}{
		{"least", &message.Message{ID: "a"},
			`{"id":"a","source":"","time":"0001-01-01T00:00:00Z","body":""}`},
		{"everything", &message.Message{
			ID: "web/1", Source: "web", Time: noon, Key: "customer-7",
			Headers:     map[string][]string{"x-b": {"1", "2"}, "x-a": {""}},
			ContentType: "application/json",
			Attributes:  map[string]jsontext.Value{"http": jsontext.Value(`{"n":1e400}`), "ai": jsontext.Value(`null`)},
			Body:        []byte(`{"a":"<b>&"}`),
		}, `{"id":"web/1","source":"web","time":"2026-11-30T12:00:00.123456789Z","key":"customer-7",` +
			`"headers":{"x-a":[""],"x-b":["1","2"]},"content_type":"application/json",` +
			`"attributes":{"ai":null,"http":{"n":1e400}},"body":"{\"a\":\"<b>&\"}"}`},
		{"not UTF-8", &message.Message{ID: "a", Time: noon, Body: []byte{0xff, 0, 'a'}},
			`{"id":"a","source":"","time":"2026-11-30T12:00:00.123456789Z","body":"/wBh","body_encoding":"base64"}`},
		{"control characters and others", &message.Message{ID: "a", Time: noon, Body: []byte("\x00\n\u2028é\"\\\ufeff")},
			`{"id":"a","source":"","time":"2026-11-30T12:00:00.123456789Z","body":"\u0000\n` + "\u2028é" + `\"\\` + "\ufeff" + `"}`},
	} {
		line, err := message.Encode(c.m)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.line, string(line)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
		back, err := message.Decode(line)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.m, back, same); diff != "" {
			t.Errorf("%s came back changed (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestTimeIsWrittenInUTC(t *testing.T) {
	m := &message.Message{ID: "a", Time: noon.In(time.FixedZone("east", 5*3600+1800))}
	line, err := message.Encode(m)
	if err != nil || !bytes.Contains(line, []byte(`"2026-11-30T12:00:00.123456789Z"`)) {
		t.Errorf("%s, %v", line, err)
	}
}

func TestAttributesStayOnOneLine(t *testing.T) {
	raw := jsontext.Value(" {\n \"a\" : [ 1.0, \"\\u003c\" ]\r\n} ")
	m := &message.Message{ID: "a", Attributes: map[string]jsontext.Value{"x": raw}}
	line, err := message.Encode(m)
	if err != nil || !bytes.Contains(line, []byte(`{"x":{"a":[1.0,"\u003c"]}}`)) {
		t.Errorf("%s, %v", line, err)
	}
	if string(raw) != " {\n \"a\" : [ 1.0, \"\\u003c\" ]\r\n} " {
		t.Error("the message itself was changed")
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	got, err := message.Append([]byte("before "), &message.Message{ID: "a"})
	if err != nil || !strings.HasPrefix(string(got), `before {"id":"a"`) {
		t.Errorf("%s, %v", got, err)
	}
	got, err = message.Append([]byte("before "), &message.Message{ID: "a", Key: "\xff"})
	if err == nil || string(got) != "before " {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	attr := func(v string) map[string]jsontext.Value { return map[string]jsontext.Value{"x": jsontext.Value(v)} }
	for _, c := range []struct {
		m    *message.Message
		want string
	}{
		{&message.Message{}, "the id is empty"},
		{&message.Message{ID: strings.Repeat("a", 257)}, "the id has 257 bytes; at most 256"},
		{&message.Message{ID: "a\nb"}, "the id holds the control character U+000A at byte 1"},
		{&message.Message{ID: "a\u0085"}, "the id holds the control character U+0085"},
		{&message.Message{ID: "\xff"}, "the id is not UTF-8"},
		{&message.Message{ID: "a", Source: "\xff"}, "source is not UTF-8"},
		{&message.Message{ID: "a", Key: "k\xc3"}, "key is not UTF-8"},
		{&message.Message{ID: "a", ContentType: "\xff"}, "content_type is not UTF-8"},
		{&message.Message{ID: "a", Headers: map[string][]string{"\xff": nil}}, "a header's name is not UTF-8"},
		{&message.Message{ID: "a", Headers: map[string][]string{"x-private": {"good", "hidden\xff"}}}, `the value of header "x-private" is not UTF-8`},
		{&message.Message{ID: "a", Attributes: map[string]jsontext.Value{"\xff": jsontext.Value("1")}}, "an attribute's name is not UTF-8"},
		{&message.Message{ID: "a", Attributes: attr("")}, `attribute "x": it is not one valid JSON value`},
		{&message.Message{ID: "a", Attributes: attr("1 2")}, `attribute "x"`},
		{&message.Message{ID: "a", Attributes: attr(`{"a":1,"a":2}`)}, `attribute "x"`},
		{&message.Message{ID: "a", Attributes: attr("\"\xff\"")}, `attribute "x"`},
		{&message.Message{ID: "a", Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "the year 10000"},
		{&message.Message{ID: "a", Time: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, "the year -1"},
		{&message.Message{ID: "a", Body: make([]byte, 11<<20)}, "longer than 64 MiB"}, // six bytes each
	} {
		line, err := message.Encode(c.m)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
		if len(line) != 0 {
			t.Errorf("%s: %d bytes beside the error", c.want, len(line))
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("a header's value is in the error: %v", err)
		}
	}
}

func TestDecodeTakes(t *testing.T) {
	for _, line := range []string{
		" { \"body\" : \"eHl6\" ,\t\"time\":\"2026-11-30T14:00:00+02:00\", \"body_encoding\":\"base64\",\"source\":\"web\",\n\"id\":\"a\" } \n",
		`{"id":"a","source":"web","time":"2026-11-30T12:00:00Z","key":"","headers":{},"attributes":{},"content_type":"","body":"xyz"}`,
	} {
		m, err := message.Decode([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want := &message.Message{ID: "a", Source: "web", Time: noon.Truncate(time.Second), Body: []byte("xyz")}
		if diff := cmp.Diff(want, m, cmpopts.IgnoreUnexported(message.Message{})); diff != "" { // nil, not empty
			t.Errorf("%s (-want +got)\n%s", line, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const rest = `"source":"s","time":"2026-11-30T12:00:00Z","body":""}`
	for _, c := range []struct{ line, want string }{
		{``, "EOF"},
		{`null`, "it must be an object, not null"},
		{`[]`, "it must be an object"},
		{`{`, "EOF"},
		{`{"id":"a",` + rest + `x`, "invalid character"},
		{`{"id":"a",` + rest + `{}`, "something follows the object"},
		{`{` + rest, `member "id" is missing`},
		{`{"id":"a","source":"s","time":"2026-11-30T12:00:00Z"}`, `member "body" is missing`},
		{`{"id":"a","source":"s","body":""}`, `member "time" is missing`},
		{`{"id":"a","time":"2026-11-30T12:00:00Z","body":""}`, `member "source" is missing`},
		{`{"id":"",` + rest, "the id is empty"},
		{`{"id":"a\u0000",` + rest, "control character U+0000"},
		{`{"id":"` + strings.Repeat("a", 257) + `",` + rest, "257 bytes"},
		{`{"id":7,` + rest, "id must be a string, not number"},
		{`{"id":null,` + rest, "id must be a string, not null"},
		{`{"id":"a","id":"b",` + rest, "duplicate"},
		{`{"id":"a","ID":"b",` + rest, `unknown member "ID"`},
		{`{"id":"a","extra":1,` + rest, `unknown member "extra"`},
		{`{"id":"a","key":["k"],` + rest, "key must be a string"},
		{`{"id":"a","key":"\ud800",` + rest, "surrogate"},
		{"{\"id\":\"a\",\"key\":\"\xff\"," + rest, "invalid UTF-8"},
		{`{"id":"a","headers":[],` + rest, "headers must be an object"},
		{`{"id":"a","headers":{"x":"1"},` + rest, "a header's value must be a list of strings, not string"},
		{`{"id":"a","headers":{"x":[1]},` + rest, "a header's value must be a string, not number"},
		{`{"id":"a","headers":{"x":["1"],"x":["2"]},` + rest, "duplicate"},
		{`{"id":"a","headers":{"x":["1"`, "EOF"},
		{`{"id":"a","attributes":7,` + rest, "attributes must be an object"},
		{`{"id":"a","attributes":{"x":{"a":1,"a":2}},` + rest, "duplicate"},
		{`{"id":"a","attributes":{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `},` + rest, "depth"},
		{`{"id":"a","source":"s","time":"yesterday","body":""}`, `time "yesterday" is not RFC 3339`},
		{`{"id":"a","source":"s","time":"2026-11-30 12:00:00Z","body":""}`, "is not RFC 3339"},
		{`{"id":"a","source":"s","time":"2026-11-30T12:00:00","body":""}`, "is not RFC 3339"},
		{`{"id":"a","source":"s","time":"0000-01-01T00:00:00+01:00","body":""}`, "the year -1"},
		{`{"id":"a","source":"s","time":1,"body":""}`, "time must be a string"},
		{`{"id":"a","body_encoding":"hex",` + rest, `body_encoding is "hex"; only "base64" is known`},
		{`{"id":"a","body_encoding":"",` + rest, `body_encoding is ""`},
		{`{"id":"a","source":"s","time":"2026-11-30T12:00:00Z","body":"a","body_encoding":"base64"}`, "body is not base64"},
		{`{"id":"a","source":"s","time":"2026-11-30T12:00:00Z","body":"YR==","body_encoding":"base64"}`, "body is not base64"},
		{`{"id":"a","source":"s","time":"2026-11-30T12:00:00Z","body":{}}`, "body must be a string"},
	} {
		m, err := message.Decode([]byte(c.line))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "reading a message: ") {
			t.Errorf("%.80s: %v, want %q", c.line, err, c.want)
		}
		if m != nil {
			t.Errorf("%.80s: a message beside the error", c.line)
		}
	}
}

func TestLongestLine(t *testing.T) {
	line := append([]byte(`{"id":"a","source":"","time":"2026-11-30T12:00:00Z","body":""}`), bytes.Repeat([]byte(" "), message.MaxLine)...)
	if _, err := message.Decode(line[:message.MaxLine]); err != nil {
		t.Error(err)
	}
	if _, err := message.Decode(line[:message.MaxLine+1]); !errors.Is(err, message.ErrTooLong) {
		t.Error(err)
	}
}

func TestDecodeSharesNothing(t *testing.T) {
	line := []byte(`{"id":"a","source":"s","time":"2026-11-30T12:00:00Z","key":"k","headers":{"x":["1"]},"attributes":{"n":[1]},"body":"body"}`)
	m, err := message.Decode(line)
	if err != nil {
		t.Fatal(err)
	}
	for i := range line {
		line[i] = '!'
	}
	want := &message.Message{ID: "a", Source: "s", Time: noon.Truncate(time.Second), Key: "k", Headers: map[string][]string{"x": {"1"}},
		Attributes: map[string]jsontext.Value{"n": jsontext.Value("[1]")}, Body: []byte("body")}
	if diff := cmp.Diff(want, m, same); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// messages draws any message that a source may make.
func messages() *rapid.Generator[*message.Message] {
	text := rapid.String()
	id := rapid.StringMatching(`[^\p{Cc}]{1,40}`)
	value := rapid.SampledFrom([]string{`null`, `true`, `"a\u003cb"`, `-1.50e+07`, `[]`, `{"b":1,"a":[{}]}`, `12345678901234567890123`})
	return rapid.Custom(func(t *rapid.T) *message.Message {
		m := &message.Message{
			ID: id.Draw(t, "id"), Source: text.Draw(t, "source"), Key: text.Draw(t, "key"), ContentType: text.Draw(t, "content_type"),
			Time:    time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC(),
			Body:    rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(text, func(s string) []byte { return []byte(s) })).Draw(t, "body"),
			Headers: rapid.MapOf(text, rapid.SliceOf(text)).Draw(t, "headers"),
		}
		for name, v := range rapid.MapOf(text, value).Draw(t, "attributes") {
			if m.Attributes == nil {
				m.Attributes = map[string]jsontext.Value{}
			}
			m.Attributes[name] = jsontext.Value(v)
		}
		return m
	})
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messages().Draw(t, "message")
		line, err := message.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(line, "\r\n") || !utf8.Valid(line) {
			t.Fatalf("not one line of UTF-8: %q", line)
		}
		back, err := message.Decode(line)
		if err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		if diff := cmp.Diff(m, back, same); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
		again, err := message.Encode(back)
		if err != nil || !bytes.Equal(line, again) {
			t.Fatalf("%v: one message, two lines\n%s\n%s", err, line, again)
		}
	})
}

// FuzzDecode: no line brings it down, and what it takes comes back the same
// from its written form.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		`{"id":"a","source":"s","time":"2026-11-30T12:00:00.5+02:00","key":"k","headers":{"x":["1","2"]},"content_type":"text/plain","attributes":{"n":{"a":[1, 2]}},"body":"b"}`,
		`{"id":"a","source":"","time":"0001-01-01T00:00:00Z","body":"/wBh","body_encoding":"base64"}`,
		`{"id":"a","body":"\u0000\ud83d\ude00"}`, `{"id":"\ud800"}`, `null`, `{}`, ``, "{\"\xff\":1}", `{"headers":{"":[]},"attributes":{"":null}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := message.Decode(line)
		if err != nil {
			if m != nil {
				t.Fatal("a message beside the error")
			}
			return
		}
		out, err := message.Encode(m)
		if err != nil {
			t.Fatalf("taken, but can't be written: %v", err)
		}
		back, err := message.Decode(out)
		if err != nil {
			t.Fatalf("written, but can't be read: %v\n%s", err, out)
		}
		if diff := cmp.Diff(m, back, same); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	m := &message.Message{ID: "01JE0000000000000000000000", Source: "web", Time: noon, ContentType: "application/json",
		Headers: map[string][]string{"user-agent": {"curl/8"}, "x-request-id": {"1"}}, Body: bytes.Repeat([]byte(`{"a":"b"}`), 114)}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = message.Append(buf[:0], m)
	}
}
