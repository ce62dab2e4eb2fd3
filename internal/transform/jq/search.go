package jq

import (
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// search is one call of a function: what it gives, match by match.
type search struct {
	*pattern
	s     string
	found [][]int
	w     *watch
	i     int // of the next match
	next  int // the byte behind the last match
	runes int // characters before next
	over  bool
}

// searching is a function of jq with three arguments, all checked before it is
// called: an expression, flags and the watch. It gives what step gives until
// that is over.
func searching(ps *patterns, name string, step func(*search) any) gojq.CompilerOption {
	return gojq.WithIterFunction(own+name, 3, 3, func(v any, args []any) gojq.Iter {
		q, err := newSearch(ps, v, args)
		if err != nil {
			return gojq.NewIter(err)
		}
		return iterator(func() (any, bool) {
			if q.over {
				return nil, false
			}
			v := step(q)
			_, failed := v.(error)
			q.over = q.over || failed
			return v, v != nil
		})
	})
}

type iterator func() (any, bool)

func (next iterator) Next() (any, bool) { return next() }

func newSearch(ps *patterns, v any, args []any) (*search, error) {
	s, _ := v.(string)
	expr, _ := args[0].(string)
	flags, _ := args[1].(string)
	w, ok := args[2].(*watch)
	if !ok {
		return nil, errUnwatched
	}
	p, err := ps.get(expr, flags)
	if err != nil {
		return nil, err
	}
	found, err := p.find(s, strings.Contains(flags, "g"), w)
	return &search{pattern: p, s: s, found: found, w: w}, err
}

// take returns the next match and the text between the last one and it.
func (q *search) take() (m []int, before string, ok bool) {
	if q.i == len(q.found) {
		q.over = true
		return nil, q.s[q.next:], false
	}
	m = q.found[q.i]
	q.i++
	before = q.s[q.next:m[0]]
	q.next = m[1]
	return m, before, true
}

// object is a match as the function match gives it.
func (q *search) object() any {
	m, before, ok := q.take()
	if !ok {
		return nil
	}
	if err := q.w.spend(told * (1 + len(q.names))); err != nil {
		return err
	}
	at := q.runes + utf8.RuneCountInString(before)
	length := utf8.RuneCountInString(q.s[m[0]:m[1]])
	q.runes = at + length
	captures := make([]any, len(q.names))
	for i, name := range q.names {
		c := map[string]any{"name": nil, "offset": -1, "length": 0, "string": nil}
		if name != "" {
			c["name"] = name
		}
		if from, to := m[2*i+2], m[2*i+3]; from >= 0 {
			c["offset"] = at + utf8.RuneCountInString(q.s[m[0]:from])
			c["length"] = utf8.RuneCountInString(q.s[from:to])
			c["string"] = q.s[from:to]
		}
		captures[i] = c
	}
	return map[string]any{"offset": at, "length": length, "string": q.s[m[0]:m[1]], "captures": captures}
}

// field is a part of the text between two matches, as splits gives it.
func (q *search) field() any {
	_, before, _ := q.take()
	return before
}

// part is [the text before a match, its named captures], and for what is
// behind the last match the text alone.
func (q *search) part() any {
	m, before, ok := q.take()
	if !ok {
		return before
	}
	captures := map[string]any{}
	for i, name := range q.names {
		switch from, to := m[2*i+2], m[2*i+3]; {
		case name == "":
		case from < 0:
			captures[name] = nil
		default:
			captures[name] = q.s[from:to]
		}
	}
	if err := q.w.spend(placed*(1+len(captures)) + told*min(len(captures), 1)); err != nil {
		return err
	}
	return []any{before, captures}
}

// textual reports whether a regular expression's text, itself and its flags
// have the types that they must have.
func textual(v any, args []any) any {
	_, text := v.(string)
	_, expr := args[0].(string)
	_, flags := args[1].(string)
	return text && expr && (flags || args[1] == nil)
}

// test reports whether a regular expression matches.
func (ps *patterns) test(v any, args []any) any {
	s, _ := v.(string)
	expr, _ := args[0].(string)
	flags, _ := args[1].(string)
	w, ok := args[2].(*watch)
	if !ok {
		return errUnwatched
	}
	p, err := ps.get(expr, flags)
	if err != nil {
		return err
	}
	if err := p.fit(s, w); err != nil {
		return err
	}
	return p.MatchString(s)
}

// glue puts together what sub gives. Its input is a list for each match, with
// the text before the match and each replacement in turn put together, and at
// last the rest of the text. Its arguments are the whole text, which is given
// if there was no replacement at all, and the watch.
func glue(v any, args []any) gojq.Iter {
	parts, ok := v.([]any)
	if !ok || len(parts) == 0 {
		return gojq.NewIter(args[0])
	}
	rest, _ := parts[len(parts)-1].(string)
	parts = parts[:len(parts)-1]
	most := 0
	for _, p := range parts {
		p, _ := p.([]any)
		most = max(most, len(p))
	}
	if most == 0 {
		return gojq.NewIter(args[0])
	}
	if err := charge(args[1], most*slot); err != nil {
		return gojq.NewIter(err)
	}
	lengths := make([]int, most)
	for _, p := range parts {
		p, _ := p.([]any)
		for i, x := range p {
			lengths[i] += size(x)
		}
	}
	whole := make([]strings.Builder, most)
	for i, n := range lengths {
		if err := charge(args[1], n+len(rest)); err != nil {
			return gojq.NewIter(err)
		}
		whole[i].Grow(n + len(rest))
	}
	for _, p := range parts {
		p, _ := p.([]any)
		for i, x := range p {
			text, _ := x.(string)
			whole[i].WriteString(text)
		}
	}
	i := -1
	return iterator(func() (any, bool) {
		if i++; i >= most {
			return nil, false
		}
		whole[i].WriteString(rest)
		return whole[i].String(), true
	})
}

// expressions are the functions above.
func expressions() []gojq.CompilerOption {
	ps := new(patterns)
	return []gojq.CompilerOption{
		gojq.WithFunction(own+"textual", 2, 2, textual),
		gojq.WithFunction(own+"test", 3, 3, ps.test),
		searching(ps, "match", (*search).object),
		searching(ps, "fields", (*search).field),
		searching(ps, "parts", (*search).part),
		gojq.WithIterFunction(own+"glue", 2, 2, glue),
	}
}

// matching defines the functions of jq that take a regular expression. What is
// of a wrong type goes to the engine's match, for its error.
const matching = `
def __pawl_0_match($re; $flags): match($re; $flags);
def __pawl_0_test($re; $flags): test($re; $flags);
def __pawl_texts($re; $flags): if __pawl_textual($re; $flags) then . else __pawl_0_match($re; $flags) end;
def match($re; $flags): __pawl_texts($re; $flags) | __pawl_match($re; $flags; $__pawl_meter);
def match($re): if $re | type == "array" then match($re[0]; $re[1]) else match($re; null) end;
def test($re; $flags): if __pawl_textual($re; $flags) then __pawl_test($re; $flags; $__pawl_meter) else __pawl_0_test($re; $flags) end;
def test($re): if $re | type == "array" then test($re[0]; $re[1]) else test($re; null) end;
def capture($re; $flags): match($re; $flags) | .captures | _captures;
def capture($re): if $re | type == "array" then capture($re[0]; $re[1]) else capture($re; null) end;
def scan($re; $flags): match($re; $flags + "g") | if .captures == [] then .string else [.captures[].string] end;
def scan($re): scan($re; null);
def splits($re; $flags): ($flags + "g") as $flags | __pawl_texts($re; $flags) | __pawl_fields($re; $flags; $__pawl_meter);
def splits($re): splits($re; null);
def split($re; $flags): [splits($re; $flags)];
def sub($re; str; $flags): . as $s | __pawl_texts($re; $flags)
  | [__pawl_parts($re; $flags; $__pawl_meter) | if type == "string" then . else . as [$before, $captures] | $captures | [$before + str] end]
  | __pawl_glue($s; $__pawl_meter);
def sub($re; str): sub($re; str; null);
def gsub($re; str; $flags): sub($re; str; $flags + "g");
def gsub($re; str): gsub($re; str; null);
`
