package jq

// Would catch: a regular expression that finds other matches than the engine's
// own functions do, and one that takes time or memory without end.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"
	"pgregory.net/rapid"
)

// calls are all functions that take a regular expression $e and flags $f.
var calls = []string{
	`match($e)`, `match($e; $f)`, `match([$e, $f])`, `match($e; null)`,
	`test($e)`, `test($e; $f)`, `test([$e, $f])`,
	`capture($e)`, `capture($e; $f)`, `capture([$e, $f])`,
	`scan($e)`, `scan($e; $f)`, `splits($e)`, `splits($e; $f)`, `split($e; $f)`,
	`sub($e; "<\(.)>")`, `sub($e; "x"; $f)`, `sub($e; "x", "yy", "")`, `sub($e; empty)`, `sub($e; .name)`,
	`gsub($e; "<\(.)>")`, `gsub($e; "x"; $f)`, `gsub($e; "x", "yy", "")`, `gsub($e; empty)`, `gsub($e; .name // "z")`,
	`gsub($e; if .name == "a" then "1", "2" elif .name == "b" then empty else "3" end)`,
	`gsub($e; 1)`, `gsub($e; null)`, `sub($e; error("no"))`, `gsub($e; "x"; $f, "i")`, `sub($e, "a"; "x")`,
	`first(gsub($e; "x", "y"))`, `label $out | gsub($e; break $out)`, `[limit(2; match($e; "g"))]`, `match($e; $f) | .offset`,
}

// values runs to the end: what comes out, and the error's text if one did.
func values(it gojq.Iter) (vs []any, failed string) {
	for {
		v, ok := it.Next()
		if !ok {
			return vs, ""
		}
		if err, bad := v.(error); bad {
			return vs, err.Error()
		}
		vs = append(vs, v)
	}
}

// alike fails unless call gives what the engine alone gives.
func alike(t rapid.TB, call string, in, expr, flags any) {
	t.Helper()
	src := `. as [$s, $e, $f] | $s | ` + call
	q, err := gojq.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gojq.Compile(q)
	if err != nil {
		t.Fatal(err)
	}
	v := []any{in, expr, flags}
	want, wantErr := values(plain.Run(v))
	got, gotErr := untimed(t, src, v)
	if diff := cmp.Diff(want, got); diff != "" || wantErr != gotErr {
		t.Fatalf("%s over %q with %q and %q: (-engine +ours)\n%sengine: %q\nours:   %q", call, in, expr, flags, diff, wantErr, gotErr)
	}
}

func TestMatchesAreTheEngines(t *testing.T) {
	exprs := []any{
		"", "a", ",", "a*", "a*?", "a|", "|a", "b*|a", "^", "$", `\b`, `\B`, "^a", "a$", "(?m)^", "(?m)$", `\A`, `\z`, ".", "(?s).", ".*", ".*?",
		"(a)(b)?", "(?P<name>a)|(?P<other>b)", "(?<name>a|b)*", "(?<name>)", "((a)|(b)|(é))", "[^a]", "é", "世+", `\d*`, "a(", "(?<name>b)?a", "x*", "\\s*",
		"(?<name>.)(?<name2>.?)", "(?i)A", "(", "[", nil, 1, []any{"a", "g"},
	}
	rapid.Check(t, func(t *rapid.T) {
		in := any(rapid.StringOfN(rapid.SampledFrom([]rune("aabbA,, \né世😀\x00")), 0, 12, -1).Draw(t, "in"))
		if rapid.IntRange(0, 20).Draw(t, "odd") == 0 {
			in = rapid.SampledFrom([]any{nil, 1, []any{"a"}, map[string]any{}}).Draw(t, "value")
		}
		flags := rapid.SampledFrom([]any{nil, "", "g", "i", "m", "gi", "gim", "gg", "x", "n", "s", "l", "gxg", 1}).Draw(t, "flags")
		alike(t, rapid.SampledFrom(calls).Draw(t, "call"), in, rapid.SampledFrom(exprs).Draw(t, "expr"), flags)
	})
}

// Each call once over a text where it does something, whatever rapid draws.
func TestEachCall(t *testing.T) {
	for _, call := range calls {
		for _, expr := range []string{"(?<name>[ab])", ",", "a*", `\b`} {
			alike(t, call, "ab,é,aab", expr, "g")
		}
	}
}

// Long enough to be counted first.
func TestLongTextIsTheSame(t *testing.T) {
	for _, call := range []string{`match($e; "g")`, `gsub($e; "<\(.name)>")`, `splits($e)`, `scan($e)`} {
		for _, expr := range []string{"(?<name>é)", ",", "x*", `\b`} {
			alike(t, call, strings.Repeat("é,xx b", 500), expr, nil)
		}
	}
}

// What takes minutes where each match counts from the beginning of the text.
func TestManyMatches(t *testing.T) {
	const n = 100_000
	in := strings.Repeat(",", n)
	for src, want := range map[string]any{
		`gsub(",";";")`:               strings.Repeat(";", n),
		`[splits(",")] | length`:      n + 1,
		`[scan(",")] | length`:        n,
		`last(match(",";"g")).offset`: n - 1,
	} {
		got, failed := untimed(t, src, in)
		if failed != "" || !cmp.Equal(got, []any{want}) {
			t.Errorf("%s: %q, %d values", src, failed, len(got))
		}
	}
}

// untimed evaluates src, however long it takes: the machine may be busy.
func untimed(t rapid.TB, src string, in any) ([]any, string) {
	t.Helper()
	code, err := build(src)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(context.Background())
	w.start = time.Now().Add(time.Hour)
	return values(code.RunWithContext(w, in, nil, w))
}

// The bodies that a hostile sender makes: each is cut, soon and cheaply.
func TestHostileTexts(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct{ src, in string }{
		{`gsub(",";";")`, strings.Repeat(",", mb)},
		{`gsub("";";")`, strings.Repeat("é", mb/2)},
		{`gsub("(?<a>,)(?<b>)(?<c>)";.a)`, strings.Repeat(",", mb)},
		{`[splits(",")]`, strings.Repeat(",", mb)},
		{`[scan(".")]`, strings.Repeat("é", mb/2)},
		{`[match("(.)";"g")]`, strings.Repeat("x", mb/4)},
		{`[match("()()()()()()()()";"g")]`, strings.Repeat("x", mb/4)},
		// Each match looks at all of the rest.
		{`gsub("a*b|a";"x")`, strings.Repeat("a", mb)},
		{`[match("a*b|a|";"g")]`, strings.Repeat("a", mb)},
		{`[splits("(?:a*b)?")]`, strings.Repeat("a", mb)},
		{`test("(a|aa|aaa){1000}b")`, strings.Repeat("a", mb)},
		{`. as $s | [range(1000000) | $s | test("b$")]`, strings.Repeat("a", mb)},
		{`. as $s | [range(1000000) | $s | test("(.*a){30}b")]`, strings.Repeat("a", mb/16)},
		{`. as $s | [range(1000000) | $s | match("(.*a){30}b"; "g")]`, strings.Repeat("a", mb/16)},
		{`. as $e | "x" | test($e)`, strings.Repeat("(", mb)},
		{`. as $e | "x" | test($e)`, strings.Repeat(`\pL{1000}`, 1000)},
		{`. as $e | [range(1000000) | "x" | test("\(.)|" + $e)]`, strings.Repeat("a", MaxExpression/2)},
	} {
		p := compile(t, tt.src)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err := p.Eval(t.Context(), body(tt.in))
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		mib := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%8v %5d MiB  %s: %v", took.Round(time.Millisecond), mib, tt.src, err)
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", tt.src, err)
		}
		// Wide of the bounds: only what is not cut takes that.
		if took > 20*time.Second || mib > 600 {
			t.Errorf("%s took %v and %d MiB", tt.src, took, mib)
		}
	}
}

func TestMatchingBounds(t *testing.T) {
	for _, tt := range []struct {
		src  string
		in   string
		want string // in the error; "" for none
	}{
		{`[splits(",")] | length`, strings.Repeat(",", MaxMatches), ""},
		{`[splits(",")] | length`, strings.Repeat(",", MaxMatches+1), fmt.Sprintf("more than %d times", MaxMatches)},
		{`[match("()()()()()()()()"; "g")] | length`, strings.Repeat("x", maxPlaces/placed/9), fmt.Sprintf("more than %d times", maxPlaces/placed/9)},
		{`test("a{900}b")`, strings.Repeat("a", MaxMatching/1000), ""},
		{`test("a{900}b")`, strings.Repeat("a", MaxMatching/900), "looks through a text of"},
		{`. as $e | "x" | test($e)`, strings.Repeat("a", MaxExpression), ""},
		{`. as $e | "x" | test($e)`, strings.Repeat("a", MaxExpression+1), fmt.Sprintf("%d is the most", MaxExpression)},
		{`test("a{1000}" * 70)`, "x", fmt.Sprintf("%d is the most", MaxInstructions)},
	} {
		_, failed := untimed(t, tt.src, tt.in)
		if failed == "" != (tt.want == "") || !strings.Contains(failed, tt.want) {
			t.Errorf("%s over %d bytes: %q; want %q", tt.src, len(tt.in), failed, tt.want)
		}
	}
}

// A stop must not wait for a search.
func TestCancelDuringSearch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWatch(ctx)
	p, err := new(patterns).get("a*b|a", "g")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := p.count(strings.Repeat("a", 1<<20), w); !errors.Is(err, context.Canceled) {
		t.Errorf("the search ends with %v", err)
	}
}

func TestMayBeEmpty(t *testing.T) {
	var with []string
	for _, expr := range []string{"a", "a*", "a+", "a|", "a|b", `\b`, "(a?)(b?)", "(a?)b", "[^x]{0,3}", "$"} {
		p, err := compilePattern(expr)
		if err != nil {
			t.Fatal(err)
		}
		if p.probe != nil {
			with = append(with, expr)
		}
	}
	if want := []string{"a*", "a|", `\b`, "(a?)(b?)", "[^x]{0,3}", "$"}; !slices.Equal(with, want) {
		t.Errorf("may be empty: %q; want %q", with, want)
	}
}

// Messages that bring ever new expressions must not fill the memory.
func TestExpressionsAreForgotten(t *testing.T) {
	ps := new(patterns)
	long := strings.Repeat("a", MaxExpression/4)
	for i := range 4 * maxKept / len(long) {
		if _, err := ps.get(fmt.Sprint(i, long), ""); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	ps.kept.Range(func(_, p any) bool { kept += p.(*pattern).size; return true })
	if kept == 0 || kept > maxKept {
		t.Errorf("%d instructions are kept; %d are the most", kept, maxKept)
	}
}
