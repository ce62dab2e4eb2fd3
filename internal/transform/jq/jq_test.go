package jq

// These tests would catch a number that loses digits on its way, an error
// without its place, and a filter that takes a message it should not.

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/transform"
)

var (
	_ connector.Expr      = (*Program)(nil)
	_ transform.Transform = (*Program)(nil)
)

func compile(t testing.TB, src string) *Program {
	t.Helper()
	p, err := Compile(src)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return p
}

func body(s string) *message.Message { return &message.Message{ID: "m1", Body: []byte(s)} }

func TestApply(t *testing.T) {
	for _, tt := range []struct{ src, in, want string }{
		{".", `{"a":1}`, `{"a":1}`},
		{".", ` {"b" : 1, "a": [ ] } `, `{"a":[],"b":1}`},
		{"{id: .order.id, total: .order.total}", `{"order":{"id":"o1","total":12.50}}`, `{"id":"o1","total":12.50}`},
		{".", `123456789012345678901234567890`, `123456789012345678901234567890`},
		{".n", `{"n":9007199254740993}`, `9007199254740993`},
		{".n", `{"n":1.10}`, `1.10`},
		{".n", `{"n":1E400}`, `1E400`},
		{".n + 1", `{"n":9007199254740993}`, `9007199254740994`},
		{".n * 2", `{"n":9223372036854775807}`, `18446744073709551614`},
		{".a + .b", `{"a":0.1,"b":0.2}`, `0.30000000000000004`},
		{".n == 1.0", `{"n":1}`, `true`},
		{".", `not json`, `"not json"`},
		{".", ``, `""`},
		{". + 1 | tostring", `1`, `"2"`},
		{`"a" * 3`, `0`, `"aaa"`},
		{`3 * "a"`, `0`, `"aaa"`},
		{`{a:{b:1}} * {a:{c:2}}`, `0`, `{"a":{"b":1,"c":2}}`},
		{"[1,2,3,1] - [1]", `0`, `[2,3]`},
		{"5 - 3 - 1", `0`, `1`},
		{"[(1,2) - (10,20)]", `0`, `[-9,-8,-19,-18]`},
		{"[(1,2) * (10,20)]", `0`, `[10,20,20,40]`},
		{"[(1,2) < (1,2)]", `0`, `[false,false,true,false]`},
		{".a += 2 | .b -= 1 | .c *= 3", `{"a":1,"b":1,"c":2}`, `{"a":3,"b":0,"c":6}`},
		{`.a[.i] = 9`, `{"a":[1,2],"i":1}`, `{"a":[1,9],"i":1}`},
		{`[.[] | add]`, `[[1,2],["a","b"],[]]`, `[3,"ab",null]`},
		{`add(.[]; .)?`, `[1]`, ``},
		{`add(.[])`, `[1,2]`, `3`},
		{`join("-")`, `["a",1,null,true]`, `"a-1--true"`},
		{`"x\(.a)y\(.b)"`, `{"a":1,"b":[2]}`, `"x1y[2]"`},
		{`@json "v=\(.a)"`, `{"a":"q\""}`, `"v=\"q\\\"\""`},
		{`@base64`, `"hi"`, `"aGk="`},
		{`transpose`, `[[1,2],[3]]`, `[[1,3],[2,null]]`},
		{`contains({a:[1]})`, `{"a":[1,2]}`, `true`},
		{`index("b")`, `"abc"`, `1`},
		{`flatten | sort | unique`, `[[3,1],[1]]`, `[1,3]`},
		{`flatten(1)`, `[[[1]]]`, `[[1]]`},
		{`sort_by(.a) | group_by(.b) | length`, `[{"a":1,"b":1},{"a":0,"b":1}]`, `1`},
		{`[min, max, min_by(-.), max_by(-.)]`, `[1,2]`, `[1,2,2,1]`},
		{`setpath(["a",1];3) | getpath(["a",1])`, `{}`, `3`},
		{`[fromstream(tostream)]`, `{"a":[1]}`, `[{"a":[1]}]`},
		{`split("") | length`, `"abc"`, `3`},
		{`tonumber`, `"12"`, `12`},
		{`def join(x): "own"; join(1)`, `0`, `"own"`},
		{`def f(g): g + 1; f(2)`, `0`, `3`},
		{`.a as {b: $x} | $x * 2`, `{"a":{"b":4}}`, `8`},
		{`if .a > 1 then "big" elif .a == 1 then "one" else "small" end`, `{"a":1}`, `"one"`},
		{`try error("x") catch .`, `0`, `"x"`},
		{`try error catch .`, `{"a":1}`, `{"a":1}`},
		{`reduce .[] as $x (0; . + $x)`, `[1,2]`, `3`},
		{`[foreach .[] as $x (0; . + $x; [., $x])]`, `[1,2]`, `[[1,1],[3,2]]`},
		{`del(.[] | select(. == 2))`, `[1,2,3]`, `[1,3]`},
		{`(.[] | select(. > 1)) += 1`, `[1,2]`, `[1,3]`},
		{`to_entries | map("\(.key)=\(.value)") | join("&")`, `{"a":1,"b":"x"}`, `"a=1&b=x"`},
		{`walk(if type == "number" then . * 2 else . end)`, `{"a":[1]}`, `{"a":[2]}`},
		{`.[-1:]`, `[1,2]`, `[2]`},
		{`.["a"], 1 | select(. == 1)`, `{"a":0}`, `1`},
		{`label $out | 1, break $out`, `0`, `1`},
		{`nan`, `0`, `null`},
		{`{"a\(.x)": .x}`, `{"x":1}`, `{"a1":1}`},
		{`[.[] | test("^a")]`, `["ab","b"]`, `[true,false]`},
		{`.a`, `{"a":1,"a":2}`, `2`},
	} {
		if tt.want == "" {
			if _, err := Compile(tt.src); err == nil {
				t.Errorf("%s compiles", tt.src)
			}
			continue
		}
		m, err := compile(t, tt.src).Apply(t.Context(), body(tt.in))
		if err != nil {
			t.Errorf("%s over %s: %v", tt.src, tt.in, err)
			continue
		}
		if string(m.Body) != tt.want {
			t.Errorf("%s over %s gives %s, want %s", tt.src, tt.in, m.Body, tt.want)
		}
	}
}

func TestApplyContentType(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "application/json",
		"text/plain":                     "application/json",
		"application/json":               "application/json",
		"application/json; charset=utf8": "application/json; charset=utf8",
		"application/cloudevents+json":   "application/cloudevents+json",
		"not/a/type;;":                   "application/json",
	} {
		m := body("1")
		m.ContentType = in
		got, err := compile(t, ".").Apply(t.Context(), m)
		if err != nil || got.ContentType != want {
			t.Errorf("%q becomes %q, %v; want %q", in, got.ContentType, err, want)
		}
		if m.ContentType != in {
			t.Errorf("the message itself was changed")
		}
	}
}

func TestMsg(t *testing.T) {
	m := &message.Message{
		ID: "id-1", Source: "web", Key: "k", ContentType: "text/plain", Body: []byte("x"),
		Time:    time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)),
		Headers: map[string][]string{"x-a": {"1", "2"}},
		Attributes: map[string]jsontext.Value{
			"http": jsontext.Value(`{"path":"/p","query":"a=1","method":"POST"}`),
			"n":    jsontext.Value(`12345678901234567890`),
		},
	}
	const want = `{"attributes":{"http":{"method":"POST","path":"/p","query":"a=1"},"n":12345678901234567890},` +
		`"content_type":"text/plain","headers":{"x-a":["1","2"]},"id":"id-1","key":"k","method":"POST","path":"/p",` +
		`"query":"a=1","source":"web","time":"2026-01-02T02:04:05.000000006Z"}`
	got, err := compile(t, "$msg").Apply(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got.Body)); diff != "" {
		t.Error(diff)
	}
}

func TestCompileErrors(t *testing.T) {
	for src, want := range map[string]string{
		"":                                   "is empty",
		"  \n":                               "is empty",
		".a |":                               "line 1, column 5: unexpected EOF",
		".a\n  | }":                          "line 2, column 5: unexpected token",
		`"ü" ]`:                              "line 1, column 5: unexpected token",
		".a | foo":                           "line 1, column 6: function not defined: foo/0",
		".foo | foo":                         "line 1, column 8: function not defined: foo/0",
		"$nope":                              "line 1, column 1: variable not defined: $nope",
		"env.HOME":                           "line 1, column 1: the environment is not there",
		"$ENV.HOME":                          "the environment is not there",
		"input":                              "there is no further input",
		"[inputs]":                           "there is no further input",
		"halt":                               "halt is not allowed",
		"1 | halt_error":                     "line 1, column 5: halt_error is not allowed",
		"debug":                              "function not defined: debug",
		`import "a" as a; .`:                 "import is not there",
		`include "a"; .`:                     "include is not there",
		"__pawl_made($__pawl_meter)":         "pawl's own",
		"_multiply(1;2)":                     "function not defined: _multiply",
		".[2000000] = 1":                     "line 1, column 3: place 2000000 of an array is past 1000000",
		strings.Repeat(" ", MaxSource) + ".": "65536 is the most",
	} {
		if _, err := Compile(src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", src, err, want)
		}
	}
}

func TestEval(t *testing.T) {
	ctx := t.Context()
	if _, err := compile(t, "empty").Eval(ctx, body("1")); !errors.Is(err, ErrNoValue) {
		t.Errorf("no value: %v", err)
	}
	if _, err := compile(t, "1, 2").Eval(ctx, body("1")); !errors.Is(err, ErrManyValues) {
		t.Errorf("two values: %v", err)
	}
	if _, err := compile(t, "1, error").Eval(ctx, body("1")); err == nil || errors.Is(err, ErrManyValues) {
		t.Errorf("a value and an error: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := compile(t, ".").Eval(ended, body("1")); !errors.Is(err, context.Canceled) {
		t.Errorf("ended ctx: %v", err)
	}
	_, err := compile(t, `error("x" * 5000)`).Eval(ctx, body("1"))
	if err == nil || len(err.Error()) > 500 {
		t.Errorf("a long error: %v", err)
	}
	_, err = compile(t, ".a.b").Eval(ctx, body(`{"a":3}`))
	if err == nil || !strings.Contains(err.Error(), "expected an object but got: number (3)") {
		t.Errorf("a type error: %v", err)
	}
}

func TestBool(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want bool
		err  bool
	}{
		{"true", true, false}, {"false", false, false}, {"null", false, false},
		{"empty", false, false}, {"1", false, false}, {`"true"`, false, false},
		{`.type == "order"`, true, false}, {`.type == "x"`, false, false},
		{"error", false, true}, {"true, true", false, true}, {".type.x", false, true},
		{"[true]", false, false},
	} {
		got, err := compile(t, tt.src).Bool(t.Context(), body(`{"type":"order"}`))
		if got != tt.want || (err != nil) != tt.err {
			t.Errorf("%s is %v, %v", tt.src, got, err)
		}
	}
}

func TestStringAndKey(t *testing.T) {
	for _, tt := range []struct {
		src, str, key  string
		strErr, keyErr bool
	}{
		{`"a b"`, "a b", "a b", false, false},
		{`12.50`, "12.5", "12.5", false, false},
		{`.n`, "12.50", "12.50", false, false},
		{`{a: .n}`, `{"a":12.50}`, `{"a":12.50}`, false, false},
		{`true`, "true", "true", false, false},
		{`""`, "", "", false, false},
		{`null`, "", "", true, false},
		{`empty`, "", "", true, false},
		{`1,2`, "", "", true, true},
		{`error`, "", "", true, true},
	} {
		p := compile(t, tt.src)
		s, err := p.String(t.Context(), body(`{"n":12.50}`))
		if s != tt.str || (err != nil) != tt.strErr {
			t.Errorf("%s as text: %q, %v", tt.src, s, err)
		}
		k, err := p.Key(t.Context(), body(`{"n":12.50}`))
		if k != tt.key || (err != nil) != tt.keyErr {
			t.Errorf("%s as key: %q, %v", tt.src, k, err)
		}
	}
}
