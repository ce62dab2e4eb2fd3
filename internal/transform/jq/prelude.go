package jq

import (
	"strings"

	"github.com/itchyny/gojq"
)

// prelude are definitions that stand before a program that mentions their
// trigger. A definition sees those before it and, for a name that none of them
// has, the engine's own function: so "def x: guard | old_x" after
// "def old_x: x" puts a guard in front of x. A program's own definition of the
// same name hides the guarded one, as it hides the engine's.
var prelude = []struct{ trigger, text string }{
	{opMultiply, `def _multiply(l; r): r as $r | l as $l | __pawl_times($l; $r; $__pawl_meter) | ($l * $r) | __pawl_made($__pawl_meter);`},
	{opSubtract, `def _subtract(l; r): r as $r | l as $l | __pawl_minus($l; $r) | ($l - $r);`},
	{opAdd, `def _add(l; r): (l + r) | __pawl_made($__pawl_meter);`},
	{"add", `def __pawl_0_add: add; def add: __pawl_add($__pawl_meter) | __pawl_0_add; def add(f): [f] | add;`},
	{"join", `def __pawl_0_join($s): join($s); def join($s): __pawl_join($s; $__pawl_meter) | __pawl_0_join($s);`},
	{"transpose", `def __pawl_0_transpose: transpose; def transpose: __pawl_transpose | __pawl_0_transpose;`},
	{"explode", `def __pawl_0_explode: explode; def explode: __pawl_explode | __pawl_0_explode;`},
	{"split", `def __pawl_0_split($s): split($s); def split($s): __pawl_explode | __pawl_0_split($s);`},
	{"tonumber", `def __pawl_0_tonumber: tonumber; def tonumber: __pawl_number | __pawl_0_tonumber;`},
	{"setpath", `def __pawl_0_setpath(p; $v): setpath(p; $v); def setpath(p; $v): __pawl_0_setpath(p | __pawl_path; $v);`},
	{"getpath", `def __pawl_0_getpath(p): getpath(p); def getpath(p): __pawl_0_getpath(p | __pawl_path);`},
	{"fromstream", `def __pawl_0_fromstream(f): fromstream(f); def fromstream(f): __pawl_0_fromstream(f | (.[0] | __pawl_path) as $_ | .);`},
	{"contains", `def __pawl_0_contains($x): contains($x); def contains($x): __pawl_minus(.; $x) | __pawl_0_contains($x);`},
	{"inside", `def __pawl_0_inside($x): inside($x); def inside($x): __pawl_minus(.; $x) | __pawl_0_inside($x);`},
	{"indices", `def __pawl_0_indices($x): indices($x); def indices($x): __pawl_minus(.; $x) | __pawl_0_indices($x);`},
	{"index", `def __pawl_0_index($x): index($x); def index($x): __pawl_minus(.; $x) | __pawl_0_index($x);`},
	{"rindex", `def __pawl_0_rindex($x): rindex($x); def rindex($x): __pawl_minus(.; $x) | __pawl_0_rindex($x);`},
	{"flatten", `def __pawl_0_flatten($d): flatten($d); def flatten($d): __pawl_whole | __pawl_0_flatten($d);`},
	{"error", `def __pawl_0_error($e): error($e); def error($e): ($e | __pawl_whole) as $e | __pawl_0_error($e);`},
	{"match", matching}, {"test", matching}, {"capture", matching}, {"scan", matching}, {"split", matching}, {"sub", matching},
	{"by", weighed("sort_by", "f") + weighed("group_by", "f") + weighed("unique_by", "f") + weighed("min_by", "f") + weighed("max_by", "f")},
	{"sort", weighed("sort")}, {"unique", weighed("unique")}, {"min", weighed("min")}, {"max", weighed("max")},
	{"flatten", weighed("flatten")}, {"error", weighed("error")},
	{"tojson", written("tojson")}, {"tostring", written("tostring")},
	// @text and the like, and \( ) in strings.
	{"@", formats()}, {`\(`, written("tostring")},
}

// The triggers of operators: characters that no program can hold.
const (
	opMultiply = "\x00*"
	opSubtract = "\x00-"
	opAdd      = "\x00+"
)

// weighed is the definition of a function that weighs its input first.
func weighed(name string, arg ...string) string {
	call := ""
	if len(arg) > 0 {
		call = "(" + arg[0] + ")"
	}
	old := own + "0_" + name + call
	return "def " + old + ": " + name + call + "; def " + name + call + ": " + own + "whole | " + old + ";"
}

// written is the definition of a function that writes out a value: its input
// is weighed, and what it makes is counted.
func written(name string) string {
	old := own + "0_" + name
	return "def " + old + ": " + name + "; def " + name + ": " + own + "text | " + old + " | " + own + "made(" + meterVariable + ");"
}

func formats() string {
	var b strings.Builder
	for _, name := range []string{"tojson", "tostring", "_tohtml", "_touri", "_tocsv", "_totsv", "_tosh", "_tobase64"} {
		b.WriteString(written(name))
	}
	return b.String()
}

// definitions parses those parts of the prelude that a program needs.
func definitions(src string, used map[string]bool) ([]*gojq.FuncDef, error) {
	var b strings.Builder
	seen := map[string]bool{}
	for _, d := range prelude {
		if (used[d.trigger] || strings.Contains(src, d.trigger)) && !seen[d.text] {
			seen[d.text] = true
			b.WriteString(d.text)
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return nil, nil
	}
	q, err := gojq.Parse(b.String() + ".")
	if err != nil {
		return nil, err
	}
	return q.FuncDefs, nil
}
