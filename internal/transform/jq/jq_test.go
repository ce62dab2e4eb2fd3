package jq

// These tests would catch a program that runs without end or takes the
// machine's memory, a number that loses digits on its way, a shared body that
// is changed, an error without its place, and a filter that takes a message it
// should not.

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

// runaways must each end with ErrLimit, quickly, and without much memory.
var runaways = []string{
	`range(1e12) | select(false)`,
	`[range(1e9)]`,
	`[range(1e9) | tostring]`,
	`"x" * 1e9`,
	`. as $s | "x" * ($s | length + 1e9)`,
	`1e9 * "x"`,
	`.a *= 1e9`,
	`[limit(1e9; repeat("x"))]`,
	`[limit(1e6; repeat("x" * 16000000))]`,
	`last(repeat(1))`,
	`until(false; . )`,
	`def f: f; f`,
	`def f: 1 + f; f`,
	`def f: [f]; f`,
	`reduce range(1e9) as $i ("x"; . + .)`,
	`reduce range(1e9) as $i ("x"; . += .)`,
	`reduce range(1e9) as $i ([1]; . + .)`,
	`reduce range(1e9) as $i ("x"; "\(.)\(.)")`,
	`reduce range(1e9) as $i ("x"; [., .] | add)`,
	`reduce range(1e9) as $i ("\""; tojson)`,
	`reduce range(1e9) as $i ("x"; @html "\(.)<\(.)")`,
	`reduce range(1e9) as $i (3; . * .)`,
	`[limit(100000; repeat(1))] | join("y" * 1000000)`,
	`"x" * 1000000 as $x | [limit(100000; repeat($x))] | add`,
	`reduce range(100) as $i (1; [., .])`,
	`reduce range(100) as $i (1; {a: ., b: .})`,
	`reduce range(100) as $i (1; [., .]) | tojson`,
	`reduce range(100) as $i (1; [., .]) | "\(.)"`,
	`reduce range(100) as $i (1; [., .]) | . == .`,
	`reduce range(100) as $i (1; [., .]) | . < [.]`,
	`reduce range(100) as $i (1; [., .]) | flatten`,
	`reduce range(100) as $i (1; [., .]) | @json`,
	`reduce range(100) as $i (1; [., .]) | sort`,
	`reduce range(100) as $i (1; [., .]) | [., .] | unique`,
	`reduce range(100) as $i (1; [., .]) | error`,
	`reduce range(100) as $i (1; [., .]) | error(.)`,
	`reduce range(100) as $i (1; [., .]) | contains([1])`,
	`reduce range(100000) as $i (1; [.])`,
	`.b[500000000 + 1] = 1`,
	`.b | setpath([500000000]; 1)`,
	`.b | getpath([500000000]) = 1`,
	`.b | .[(400000000, 1)] |= 1`,
	`[fromstream([[500000000], 1], [[500000000]])]`,
	`[range(30000)] as $a | $a - $a`,
	`[range(30000)] as $a | [range(30000)] - $a`,
	`[range(30000)] as $a | $a | indices($a[1:15000])`,
	`[range(30000)] as $a | $a | contains($a)`,
	`[range(100000) | []] + [[range(20000)]] | transpose`,
	`"x" * 10000000 | explode`,
	`"x" * 10000000 | split("")`,
	`"1" * 10000000 | tonumber`,
	`[.[]?, range(1e9)] | combinations`,
	`[limit(20; repeat([range(20)]))] | [combinations]`,
	`[recurse(.; true)]`,
	`"x" * 10000000 | [., ., .] | tojson`,
	`("a" * 3000) as $r | [range(1e9) | . as $i | "aaaa" | test("\($i)" + $r)]`,
	`.a | [splits("a"; null), range(1e12)]`,
}

func TestRunaways(t *testing.T) {
	m := body(`{"a":"x","b":[1]}`)
	for _, src := range runaways {
		p := compile(t, src)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		got, err := p.Apply(t.Context(), m)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s gives a body of %d bytes", src, len(got.Body))
			continue
		}
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", src, err)
		}
		// Wide of every bound: only an evaluation that is not cut at all takes
		// seconds or gigabytes.
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 1500 || took > 20*time.Second {
			t.Errorf("%s took %v and %d MiB", src, took, mb)
		}
		t.Logf("%8v %5d MiB  %s", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, src)
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

func TestCancelDuringEval(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWatch(ctx)
	cancel()
	for range 2 * checkEvery {
		w.Done()
	}
	if !errors.Is(w.Err(), context.Canceled) {
		t.Errorf("the watch says %v", w.Err())
	}
}

// Steps are bounded where the clock stands still, as in a test of virtual time.
func TestStepsAreBounded(t *testing.T) {
	w := newWatch(t.Context())
	w.start = time.Now().Add(time.Hour)
	for range MaxSteps + checkEvery {
		w.Done()
	}
	if !errors.Is(w.Err(), ErrLimit) || !strings.Contains(w.Err().Error(), "steps") {
		t.Errorf("the watch says %v", w.Err())
	}
}

// A program that had no time to run is not one that runs away.
func TestBusyMachine(t *testing.T) {
	for _, tt := range []struct {
		took  time.Duration
		steps int
		cut   bool
	}{
		{2 * MaxTime, fewSteps / 2, false},
		{2 * MaxTime, fewSteps + 2*checkEvery, true},
		{MaxTime / 2, fewSteps + 2*checkEvery, false},
		{2 * MaxStall, checkEvery, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWatch(t.Context())
			time.Sleep(tt.took) // virtual time
			for range tt.steps {
				w.Done()
			}
			if cut := errors.Is(w.Err(), ErrLimit); cut != tt.cut {
				t.Errorf("after %v and %d steps: cut is %v", tt.took, tt.steps, cut)
			}
		})
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

func deepCopy(v any) any {
	switch v := v.(type) {
	case []any:
		c := make([]any, len(v))
		for i, x := range v {
			c[i] = deepCopy(x)
		}
		return c
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, x := range v {
			c[k] = deepCopy(x)
		}
		return c
	}
	return v
}

var mutations = []string{
	`.a = 1`, `.a |= . + [1]`, `.a += [1]`, `.a[0] = 9`, `.a[5] = 9`, `del(.a[0])`, `del(.a)`, `.a[1:] = [7]`,
	`.o.x = 1`, `.o |= with_entries(.value = 0)`, `walk(if type == "array" then . + [0] else . end)`,
	`.a | sort`, `.a | reverse`, `.a | sort_by(-.)`, `.a | unique`, `map_values(null)`, `to_entries`,
	`delpaths([paths])`, `setpath(["a", 0]; 5)`, `reduce range(5) as $i (.; .a += [$i])`,
	`reduce range(5) as $i (.; .a[$i] = $i)`, `[.a, .a] | add`, `.a + .a`, `.o * {x: {y: 1}}`, `.a as [$x] | .a[0] |= $x`,
	`(.. | numbers) |= . + 1`, `[..]`, `.a | flatten`, `[.a] | transpose`, `group_by(.)?`, `.a - [1]`, `limit(1; .a[] = 0)`,
}

func TestSharedBodyIsNeverChanged(t *testing.T) {
	programs := make([]*Program, len(mutations))
	for i, src := range mutations {
		programs[i] = compile(t, src)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := body(rapid.SampledFrom([]string{
			`{"a":[3,1,2],"o":{"x":{"z":1}}}`, `{"a":[],"o":{}}`, `{"a":[1,[2,[3]]],"o":{"x":[1]}}`,
		}).Draw(t, "body"))
		v, err := transform.Body(m)
		if err != nil {
			t.Fatal(err)
		}
		before := deepCopy(v)
		for range rapid.IntRange(1, 5).Draw(t, "programs") {
			i := rapid.IntRange(0, len(programs)-1).Draw(t, "program")
			_, _ = programs[i].Eval(context.Background(), m)
			if diff := cmp.Diff(before, v); diff != "" {
				t.Fatalf("%s changed the shared body (-before +after):\n%s", mutations[i], diff)
			}
		}
	})
}

// A program whose regular expressions come from messages is compiled anew now
// and then, and works on.
func TestDynamicRegexps(t *testing.T) {
	for src, want := range map[string]bool{
		`test("a")`: false, `test(.re)`: true, `test("a"; .f)`: true, `gsub("a"; .b)`: false, `gsub(.a; "b")`: true,
		`split(.a)`: false, `split("a"; null)`: true, `match(["a", "g"])`: true, `[.[] | scan("x")]`: false,
	} {
		if p := compile(t, src); p.dynamic != want {
			t.Errorf("%s: dynamic is %v", src, p.dynamic)
		}
	}
	p := compile(t, `.re as $r | [range(1000)] | map(tostring | test($r)) | any`)
	first := p.code.Load()
	for range 20 {
		if ok, err := p.Bool(t.Context(), body(`{"re":"99$"}`)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if p.code.Load() == first {
		t.Error("its regular expressions are kept for ever")
	}
}

func TestConcurrentUse(t *testing.T) {
	p := compile(t, `.a += [$msg.id] | .n * 2, empty | tostring | test("^\(4)")`)
	m := body(`{"a":[1],"n":2}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if ok, err := p.Bool(context.Background(), m); !ok || err != nil {
					t.Error(ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func FuzzCompileAndEval(f *testing.F) {
	for _, s := range runaways[3:7] { // those that are cut at once; the others make fuzzing slow
		f.Add(s, `{"a":[1,2]}`)
	}
	for _, s := range mutations {
		f.Add(s, `{"a":[3,1],"o":{"x":1}}`)
	}
	f.Add(`.a`, `not json`)
	f.Add(`"\(.a)\n" + @csv`, `[1,"x",null]`)
	f.Fuzz(func(t *testing.T, src, in string) {
		p, err := Compile(src)
		if err != nil {
			return
		}
		m := body(in)
		v, _ := transform.Body(m)
		before := deepCopy(v)
		start := time.Now()
		out, err := p.Apply(context.Background(), m)
		if took := time.Since(start); took > 30*time.Second {
			t.Fatalf("%q took %v", src, took)
		}
		if err == nil && len(out.Body) > MaxOutput {
			t.Fatalf("%q gives %d bytes", src, len(out.Body))
		}
		if strings.Contains(in, "\x00") { // cmp is slow on long texts; the shape is what counts
			return
		}
		if diff := cmp.Diff(before, v); diff != "" {
			t.Fatalf("%q changed the body: %s", src, diff)
		}
	})
}
