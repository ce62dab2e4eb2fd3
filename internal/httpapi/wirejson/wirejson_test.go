// What these tests would catch: a fault of a request that is not told, told at
// the wrong place, or told of only the first; a document that is refused whole
// where one part of it is wrong, or taken where a text in it would break a
// store; a payload that is not the bytes that came; a scan that fails on
// hostile input.
package wirejson

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// request is what the tests read: one member of every kind.
type request struct {
	Name    string
	Count   int64
	Factor  float64
	Flag    bool
	Wait    *time.Duration
	At      *time.Time
	Payload []byte
	Tags    []string
	Nested  string
	Seen    Seen
}

var members = []string{"name", "count", "factor", "flag", "wait", "at", "payload", "tags", "nested"}

func read(body string, texts Texts) (request, Found, error) {
	var q request
	found, err := Read([]byte(body), texts, func(r *Reader) {
		q.Seen = r.Object(members, func(member string) {
			switch member {
			case "name":
				q.Name = r.Text()
			case "count":
				q.Count = r.Int(-5, 1000)
			case "factor":
				q.Factor = r.Number()
			case "flag":
				q.Flag = r.Flag()
			case "wait":
				q.Wait = r.Duration()
			case "at":
				q.At = r.Time()
			case "payload":
				q.Payload = r.Value(1000)
			case "tags":
				r.Array(3, "tags", func(int) { q.Tags = append(q.Tags, r.Text()) })
			case "nested":
				r.Object([]string{"inner"}, func(string) { q.Nested = r.Text() })
			}
		})
	})
	return q, found, err
}

func TestEveryKindIsRead(t *testing.T) {
	body := ` { "name" : "a\u00e9\"b", "count":1e2, "factor":2.5, "flag":true, "wait":"1d12h", "at":"2026-12-01T04:00:00.123+01:00",
		"payload": { "b" : [1, 2.0 ,"\ud83d\ude00"], "a":null } , "tags":["x","y"], "nest\u0065d":{"inner":"z"}}`
	for _, texts := range []Texts{Refuse, Keep} {
		got, found, err := read(body, texts)
		if err != nil || len(found.Problems) > 0 {
			t.Fatal(err, found)
		}
		want := request{
			Name: `aé"b`, Count: 100, Factor: 2.5, Flag: true, Wait: new(36 * time.Hour),
			At:      new(time.Date(2026, 12, 1, 3, 0, 0, 123e6, time.UTC)),
			Payload: []byte(`{ "b" : [1, 2.0 ,"\ud83d\ude00"], "a":null }`),
			Tags:    []string{"x", "y"}, Nested: "z", Seen: 1<<9 - 1,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", texts, diff)
		}
	}
}

func TestProblemsAreToldAllAtOnce(t *testing.T) {
	body := `{"name":null,"naem":{"deep":[1]},"count":1001,"factor":"2","flag":0,"wait":30,"at":"yesterday","tags":["a",7,"c","d","e"],"nested":[],"x/y~z":1}`
	_, found, err := read(body, Refuse)
	if err != nil {
		t.Fatal(err)
	}
	want := []Problem{
		{"/name", "must be a text, not null (leave it out instead)"},
		{"/naem", `unknown member; did you mean "name"?`},
		{"/count", "must be from -5 to 1000, not 1001"},
		{"/factor", "must be a number, not a text"},
		{"/flag", "must be true or false, not a number"},
		{"/wait", `must be a duration written as text, such as "30s", not a number`},
		{"/at", `must be a time in RFC 3339 such as 2026-12-01T03:00:00Z, not "yesterday"`},
		{"/tags/1", "must be a text, not a number"},
		{"/tags", "5 tags are too many; 3 are allowed"},
		{"/nested", "must be an object, not an array"},
		{"/x~1y~0z", "unknown member; known are name, count, factor, flag, wait, at, payload, tags, nested"},
	}
	if diff := cmp.Diff(want, found.Problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNumbersOutOfRange(t *testing.T) {
	for text, want := range map[string]string{
		"1.5": "must be a whole number, not 1.5", "1e400": "must be from -5 to 1000, not 1e400", "-1e400": "must be from -5 to 1000, not -1e400",
		"99999999999999999999": "must be from -5 to 1000, not 99999999999999999999", "-6": "must be from -5 to 1000, not -6",
	} {
		if _, found, err := read(`{"count":`+text+`}`, Refuse); err != nil || len(found.Problems) != 1 || found.Problems[0].Message != want {
			t.Errorf("%s: %v, %v", text, found, err)
		}
	}
	if _, found, err := read(`{"factor":1e400}`, Refuse); err != nil || len(found.Problems) != 1 || found.Problems[0].Message != "1e400 is out of range" {
		t.Errorf("%v, %v", found, err)
	}
}

func TestWhatIsNoJSONIsRefusedWithItsPlace(t *testing.T) {
	deep := `{"payload":` + strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1) + `}`
	for body, want := range map[string]*Error{
		``:                                  {"", 0, "there is no JSON value"},
		`  `:                                {"", 0, "there is no JSON value"},
		`{"name":"a"`:                       {"", 11, "the JSON ends too early"},
		`{"name":"a`:                        {"/name", 10, "the JSON ends too early"},
		`{"name":"a"} {}`:                   {"", 14, "there is more after the JSON value"},
		`{"name":"a"}}`:                     {"", 12, "it is no JSON: invalid character '}' at start of value"},
		`{"name":'a'}`:                      {"/name", 8, `it is no JSON: invalid character '\'' at start of value`},
		`{"name":"a","name":1}`:             {"/name", 12, `the member "name" is there twice`},
		`{"name":"a","n\u0061me":1}`:        {"/name", 12, `the member "name" is there twice`},
		`{"payload":{"a":[{"b":1,"b":2}]}}`: {"/payload/a/0/b", 24, `the member "b" is there twice`},
		"{\"name\":\"a\xffb\"}":             {"/name", 10, "it is no JSON: invalid UTF-8"},
		"{\"payload\":{\"\xc0\x80\":1}}":    {"/payload", 13, "it is no JSON: invalid UTF-8"},
		`{"name":"a\ud800b"}`:               {"/name", 10, "it is no JSON: invalid surrogate pair `\\ud800b\"}` in string"},
		`{"name":"a\u0000b"}`:               {"/name", 10, `a text holds NUL (\u0000)`},
		`{"payload":[0,{"k\u0000":1}]}`:     {"/payload/1/k\x00", 17, `a text holds NUL (\u0000)`},
		`{"payload":["\\\u0000"]}`:          {"/payload/0", 15, `a text holds NUL (\u0000)`},
		"{\"name\":\"a\x00b\"}":             {"/name", 10, "it is no JSON: invalid character '\\x00' in string (expecting non-control character)"},
		deep:                                {"/payload", 11 + MaxDepth, "the value is nested deeper than 100 levels"},
	} {
		_, _, err := read(body, Refuse)
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Errorf("%.60q (-want +got):\n%s", body, diff)
		}
	}
}

// TestALongDocumentIsReadTheSameWay has the same faults in a document that is
// longer than names are remembered for.
func TestALongDocumentIsReadTheSameWay(t *testing.T) {
	long := strings.Repeat(" ", maxNamed)
	for body, want := range map[string]*Error{
		`{"name":"a",` + long + `"name":1}`:                {"/name", 12 + maxNamed, `the member "name" is there twice`},
		`{"name":"a",` + long + `"n\u0061me":1}`:           {"/name", 12 + maxNamed, `the member "name" is there twice`},
		`{` + long + `"payload":{"a":[{"b":1,"b":2}]}}`:    {"/payload/a/0/b", 24 + maxNamed, `the member "b" is there twice`},
		"{" + long + "\"payload\":{\"\xc0\x80\":1}}":       {"/payload", 13 + maxNamed, "it is no JSON: invalid UTF-8"},
		`{` + long + `"payload":[0,{"k\u0000":1}]}`:        {"/payload/1/k\x00", 17 + maxNamed, `a text holds NUL (\u0000)`},
		`{` + long + `"nested":{"inner":"a","inner":"b"}}`: {"/nested/inner", 23 + maxNamed, `the member "inner" is there twice`},
	} {
		_, _, err := read(body, Refuse)
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Errorf("%.60q (-want +got):\n%s", strings.ReplaceAll(body, long, "…"), diff)
		}
	}
	q, found, err := read(`{`+long+`"payload":{"a":1,"b":{"a":1}},"tags":["x"]}`, Refuse)
	if err != nil || len(found.Problems) > 0 || string(q.Payload) != `{"a":1,"b":{"a":1}}` || q.Tags[0] != "x" {
		t.Error(q, found, err)
	}
}

func TestWhatLooksLikeNULIsNone(t *testing.T) {
	q, found, err := read(`{"name":"\\u0000","payload":["\\\\u0000","u0000"]}`, Refuse)
	if err != nil || len(found.Problems) > 0 || q.Name != `\u0000` {
		t.Error(q, found, err)
	}
}

func TestAValueMayBeAsDeepAndAsLongAsItsLimit(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, MaxDepth/2) + strings.Repeat(`]}`, MaxDepth/2)
	wide := "[" + strings.Repeat(`"[{",`, 150) + `"\"[{"]`
	for _, payload := range []string{deep, wide, `"` + strings.Repeat("x", 998) + `"`} {
		if q, found, err := read(`{"payload":`+payload+`}`, Refuse); err != nil || len(found.Problems) > 0 || string(q.Payload) != payload {
			t.Errorf("%.40s: %v %v", payload, found, err)
		}
	}
	_, _, err := read(`{"payload":"`+strings.Repeat("x", 999)+`"}`, Refuse)
	if diff := cmp.Diff(error(&SizeError{"/payload", 1001, 1000}), err); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, found, err := read(`{"payload":"`+strings.Repeat("x", 999)+`"}`, Keep)
	if err != nil || len(found.Problems) != 1 || found.Problems[0] != (Problem{"/payload", "has 1001 bytes; 1000 are allowed"}) {
		t.Error(found, err)
	}
}

func TestKeepTakesTextsAsTheyCome(t *testing.T) {
	q, found, err := read("{\"name\":\"a\xff\\n\\u0000\xc3\\\"\xe9\xff\",\"tags\":[\"\xff\"],\"nested\":{\"inner\":\"\\ud800x\"}}", Keep)
	if err != nil || len(found.Problems) > 0 {
		t.Fatal(found, err)
	}
	if q.Name != "a\xff\n\x00\xc3\"\xe9\xff" || q.Tags[0] != "\xff" || q.Nested != "\ufffdx" {
		t.Errorf("%q %q %q", q.Name, q.Tags, q.Nested)
	}
}

func TestKeepSaysWhatIsWrongWithAValue(t *testing.T) {
	for payload, want := range map[string]string{
		`{"a":1,"a":2}`: `the member "a" is there twice, at byte 7 of it`,
		"[\"\xff\"]":    "it is no JSON: invalid UTF-8, at byte 2 of it",
		`["\u0000"]`:    `a text holds NUL (\u0000), at byte 2 of it`,
		strings.Repeat("[", 101) + strings.Repeat("]", 101): "the value is nested deeper than 100 levels, at byte 100 of it",
	} {
		q, found, err := read(`{"name":"n","payload":`+payload+`,"name":"m"}`, Keep)
		want := []Problem{{"/payload", want}, {"/name", "is there twice"}}
		if diff := cmp.Diff(want, found.Problems); diff != "" || err != nil || q.Payload != nil || q.Name != "n" {
			t.Errorf("%s: %v (-want +got):\n%s", payload, err, diff)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	name := strings.Repeat("é", 10_000)
	body := `{"tags":` + `["a"]`
	for i := range 150 {
		body += fmt.Sprintf(`,"%s%d":1`, name, i)
	}
	_, found, err := read(body+"}", Refuse) // longer than names are remembered for
	if err != nil || len(found.Problems) != MaxProblems || found.More != 50 {
		t.Fatal(len(found.Problems), found.More, err)
	}
	for _, p := range found.Problems {
		if len(p.Pointer) > maxPointer+3 || len(p.Message) > 200 {
			t.Fatalf("a problem of %d and %d bytes", len(p.Pointer), len(p.Message))
		}
	}
	_, _, err = read(`{"`+name+`":1,"`+name+`":2}`, Refuse)
	if len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestAPartFailsAlone(t *testing.T) {
	var names []string
	var parts []Found
	found, err := Read([]byte(`[{"name":"a"},{"name":1,"x":2},7,{"name":"b"}]`), Keep, func(r *Reader) {
		r.Array(10, "parts", func(int) {
			r.Object([]string{"name"}, func(string) { names = append(names, r.Text()) })
			parts = append(parts, r.Take())
		})
	})
	want := []Found{
		{}, {Problems: []Problem{{"/1/name", "must be a text, not a number"}, {"/1/x", "unknown member; known are name"}}},
		{Problems: []Problem{{"/2", "must be an object, not a number"}}}, {},
	}
	if diff := cmp.Diff(want, parts); diff != "" || err != nil || len(found.Problems) > 0 {
		t.Errorf("%v %v (-want +got):\n%s", found, err, diff)
	}
	if diff := cmp.Diff([]string{"a", "", "b"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsNotReadIsPassedOver(t *testing.T) {
	var last string
	found, err := Read([]byte(`{"a":{"b":[1,{}]},"c":[[],2],"d":"x"}`), Refuse, func(r *Reader) {
		r.Object([]string{"a", "c", "d"}, func(member string) {
			switch member {
			case "c":
				r.Array(5, "things", func(int) {})
			case "d":
				last = r.Text()
			}
		})
	})
	if err != nil || len(found.Problems) > 0 || last != "x" {
		t.Error(found, err, last)
	}
	if _, err := Read([]byte(`{"a":1}`), Refuse, func(*Reader) {}); err != nil {
		t.Error(err)
	}
	if _, err := Read(nil, Refuse, func(*Reader) {}); err == nil {
		t.Error("no document was taken")
	}
}

// FuzzRead compares with the decoder of the standard library: what it takes is
// taken but for NUL and depth, a payload is its own bytes, and nothing panics.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"name":"a","payload":{"x":[1,2,{"y":null}]},"tags":["a","b"],"nested":{"inner":"x"}}`, `[]`, `{"count":1e3,"wait":"7d"}`,
		`{"payload":"\u0000"}`, `{"payload":"\\u0000"}`, "{\"name\":\"\xff\\ud800\"}", `{"a":1,"a":2}`, strings.Repeat(`{"payload":[`, 60),
		`{"at":"2026-12-01T00:00:00Z","flag":false,"factor":-0}`, `{"payload":{"a":"\"[[[{{{"}}`, `{"payload":1} x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		valid := jsontext.Value(body).IsValid()
		for _, texts := range []Texts{Refuse, Keep} {
			q, found, err := read(string(body), texts)
			if err == nil && q.Payload != nil {
				if !jsontext.Value(q.Payload).IsValid() || !bytes.Contains(body, q.Payload) || len(q.Payload) > 1000 {
					t.Fatalf("payload %q of %q", q.Payload, body)
				}
			}
			if err == nil && texts == Refuse && !valid {
				t.Fatalf("%q was taken", body)
			}
			if err != nil && valid && len(body) <= 1000 && !bytes.Contains(body, escapedNUL) && bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) <= MaxDepth {
				t.Fatalf("%q was refused: %v", body, err)
			}
			if len(found.Problems) > MaxProblems {
				t.Fatal("too many problems")
			}
			if e, ok := err.(*Error); ok && (e.Offset < 0 || e.Offset > int64(len(body)) || e.Message == "") {
				t.Fatalf("%+v", e)
			}
		}
		if !bytes.Equal(before, body) {
			t.Fatal("the document was changed")
		}
	})
}

func BenchmarkRead(b *testing.B) {
	body := []byte(`{"name":"emails","count":5,"payload":{"user_id":7,"text":"` + strings.Repeat("hello ", 50) + `"},"tags":["a"]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var q request
		_, err := Read(body, Refuse, func(r *Reader) {
			r.Object(members, func(member string) {
				switch member {
				case "name":
					q.Name = r.Text()
				case "count":
					q.Count = r.Int(0, 10)
				case "payload":
					q.Payload = r.Value(1 << 20)
				}
			})
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func TestADurationOfAnyLength(t *testing.T) {
	longest := time.Duration(math.MaxInt64)
	for body, want := range map[string]*time.Duration{
		`"90s"`: new(90 * time.Second), `"99999999999s"`: &longest, `"300000d"`: &longest, `"106751d9999999h"`: &longest, `"1.5"`: nil,
		`"99999999999"`: nil, `"-99999999999s"`: nil, `"99999999999x"`: nil, `"0x99999999999s"`: nil, `""`: nil, `" 99999999999s"`: nil, `99999999999`: nil,
	} {
		var got *time.Duration
		found, err := Read([]byte(body), Keep, func(r *Reader) { got = r.AnyDuration() })
		if err != nil || (want == nil) != (got == nil) || got != nil && *got != *want || (len(found.Problems) > 0) != (want == nil) {
			t.Errorf("%s: %v %v %v", body, got, found, err)
		}
		if want == &longest {
			if found, err := Read([]byte(body), Keep, func(r *Reader) { got = r.Duration() }); err != nil || got != nil || len(found.Problems) != 1 {
				t.Errorf("%s where it counts: %v %v %v", body, got, found, err)
			}
		}
	}
}
