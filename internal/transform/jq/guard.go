package jq

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// guarding walks the tree of a program and puts checks around the operators
// that the engine would run without asking anybody.
type guarding struct {
	src  string
	used map[string]bool // operators, by their triggers
	err  error           // the first thing that is not allowed
}

// guard changes q in place.
func guard(q *gojq.Query, src string) *guarding {
	g := &guarding{src: src, used: map[string]bool{}}
	for _, m := range q.Imports {
		word := "import"
		if m.IncludePath != "" {
			word = "include"
		}
		g.refuse(word, word+" is not there: a program stands alone")
	}
	g.query(q)
	defs, err := definitions(src, g.used)
	if err != nil && g.err == nil {
		g.err = fmt.Errorf("jq: the guards: %w", err)
	}
	q.FuncDefs = append(defs, q.FuncDefs...)
	return g
}

// refuse keeps an error about a word of the program.
func (g *guarding) refuse(word, why string) {
	if g.err != nil {
		return
	}
	if at := findName(g.src, word); at >= 0 {
		g.err = fmt.Errorf("jq: %s: %s", position(g.src, at), why)
		return
	}
	g.err = fmt.Errorf("jq: %s", why)
}

func (g *guarding) queries(qs ...*gojq.Query) {
	for _, q := range qs {
		if q != nil {
			g.query(q)
		}
	}
}

func (g *guarding) query(q *gojq.Query) {
	for _, d := range q.FuncDefs {
		g.query(d.Body)
	}
	if q.Term != nil {
		g.term(q.Term)
		return
	}
	g.queries(q.Left, q.Right)
	g.patterns(q.Patterns)
	g.operator(q)
}

// operator replaces q, whose sides are guarded already.
func (g *guarding) operator(q *gojq.Query) {
	become := func(name string) {
		*q = *with(q, call(name, q.Left, q.Right))
	}
	switch q.Op {
	case gojq.OpAdd:
		sum := &gojq.Query{Left: q.Left, Right: q.Right, Op: gojq.OpAdd}
		*q = gojq.Query{Meta: q.Meta, Imports: q.Imports, FuncDefs: q.FuncDefs, Left: sum, Right: madeCall(), Op: gojq.OpPipe}
	case gojq.OpMul:
		g.used[opMultiply] = true
		become("_multiply")
	case gojq.OpSub:
		g.used[opSubtract] = true
		become("_subtract")
	case gojq.OpUpdateAdd:
		g.used[opAdd] = true
	case gojq.OpUpdateMul:
		g.used[opMultiply] = true
	case gojq.OpUpdateSub:
		g.used[opSubtract] = true
	case gojq.OpEq:
		become(own + "eq")
	case gojq.OpNe:
		become(own + "ne")
	case gojq.OpGt:
		become(own + "gt")
	case gojq.OpLt:
		become(own + "lt")
	case gojq.OpGe:
		become(own + "ge")
	case gojq.OpLe:
		become(own + "le")
	}
}

// with is t in the place of q, keeping what stands before it.
func with(q *gojq.Query, t *gojq.Term) *gojq.Query {
	return &gojq.Query{Meta: q.Meta, Imports: q.Imports, FuncDefs: q.FuncDefs, Term: t}
}

func call(name string, args ...*gojq.Query) *gojq.Term {
	return &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}
}

func madeCall() *gojq.Query {
	return &gojq.Query{Term: call(own+"made", &gojq.Query{Term: call(meterVariable)})}
}

func (g *guarding) term(t *gojq.Term) {
	for _, s := range t.SuffixList {
		g.index(s.Index)
	}
	switch t.Type {
	case gojq.TermTypeIndex:
		g.index(t.Index)
	case gojq.TermTypeFunc:
		g.function(t.Func)
	case gojq.TermTypeObject:
		for _, kv := range t.Object.KeyVals {
			g.text(kv.KeyString)
			g.queries(kv.KeyQuery, kv.Val)
		}
	case gojq.TermTypeArray:
		g.queries(t.Array.Query)
	case gojq.TermTypeUnary:
		g.term(t.Unary.Term)
	case gojq.TermTypeString, gojq.TermTypeFormat:
		g.template(t)
	case gojq.TermTypeIf:
		g.queries(t.If.Cond, t.If.Then, t.If.Else)
		for _, e := range t.If.Elif {
			g.queries(e.Cond, e.Then)
		}
	case gojq.TermTypeTry:
		g.queries(t.Try.Body, t.Try.Catch)
	case gojq.TermTypeReduce:
		g.queries(t.Reduce.Query, t.Reduce.Start, t.Reduce.Update)
		g.patterns(t.Reduce.Patterns)
	case gojq.TermTypeForeach:
		g.queries(t.Foreach.Query, t.Foreach.Start, t.Foreach.Update, t.Foreach.Extract)
		g.patterns(t.Foreach.Patterns)
	case gojq.TermTypeLabel:
		g.queries(t.Label.Body)
	case gojq.TermTypeQuery:
		g.queries(t.Query)
	}
}

// template charges a string with \( ) in it: it is a chain of + to the engine.
func (g *guarding) template(t *gojq.Term) {
	if t.Str == nil || t.Str.Queries == nil {
		return
	}
	g.text(t.Str)
	inner := &gojq.Query{Term: &gojq.Term{Type: t.Type, Format: t.Format, Str: t.Str}}
	*t = gojq.Term{
		Type:       gojq.TermTypeQuery,
		Query:      &gojq.Query{Left: inner, Right: madeCall(), Op: gojq.OpPipe},
		SuffixList: t.SuffixList,
	}
}

// text guards the expressions inside a string.
func (g *guarding) text(s *gojq.String) {
	if s != nil {
		g.queries(s.Queries...)
	}
}

// index guards a computed place and refuses a constant one that is too far.
func (g *guarding) index(x *gojq.Index) {
	if x == nil {
		return
	}
	g.text(x.Str)
	g.queries(x.End)
	if x.Start == nil {
		return
	}
	if n, ok := constant(x.Start); ok {
		if n > MaxIndex && !x.IsSlice {
			g.refuse(x.Start.Term.Number, fmt.Sprintf("place %s of an array is past %d, the last that may be named", x.Start.Term.Number, MaxIndex))
		}
		return
	}
	g.query(x.Start)
	if !x.IsSlice && !literal(x.Start) {
		x.Start = &gojq.Query{Left: x.Start, Right: &gojq.Query{Term: call(own + "index")}, Op: gojq.OpPipe}
	}
}

// constant returns the number that q is.
func constant(q *gojq.Query) (float64, bool) {
	if q.Term == nil || q.Term.Type != gojq.TermTypeNumber || len(q.Term.SuffixList) > 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(q.Term.Number, 64)
	return n, err == nil || n > 0
}

// literal reports whether q is a string without expressions.
func literal(q *gojq.Query) bool {
	return q.Term != nil && q.Term.Type == gojq.TermTypeString && q.Term.Str.Queries == nil && len(q.Term.SuffixList) == 0
}

func (g *guarding) patterns(ps []*gojq.Pattern) {
	for _, p := range ps {
		g.patterns(p.Array)
		for _, o := range p.Object {
			g.text(o.KeyString)
			g.queries(o.KeyQuery)
			if o.Val != nil {
				g.patterns([]*gojq.Pattern{o.Val})
			}
		}
	}
}

func (g *guarding) function(f *gojq.Func) {
	g.queries(f.Args...)
	switch name := f.Name; {
	case name == "env" && len(f.Args) == 0, name == "$ENV":
		g.refuse(name, "the environment is not there; write {{env.NAME}} in the configuration instead")
	case name == "halt" && len(f.Args) == 0, name == "halt_error":
		g.refuse(name, name+" is not allowed; use error to fail and empty to give nothing")
	case name == "input", name == "inputs":
		g.refuse(name, "there is no further input: a program sees one message")
	case strings.HasPrefix(name, "_"):
		g.refuse(name, "function not defined: "+name)
	}
}
