package jq

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
)

// The engine's own functions for regular expressions take time in proportion to
// the matches times the text, and nothing can interrupt them. Those here find
// the same matches in one pass, count them, and look at the clock between two.

// The bounds of regular expressions.
const (
	// MaxMatches is how many matches one call may find: about what a program
	// can go through in MaxTime. Their places take some 20 MB.
	MaxMatches = 1 << 18
	// MaxMatching is the longest text, in bytes, times the expression's size in
	// instructions (about one for each character of it): what is looked through
	// in a few seconds at worst, and in a few milliseconds by nearly all
	// expressions.
	MaxMatching = 1 << 29
)

const (
	// placed is how many bytes the places of a match take.
	placed = 64
	// told is how many bytes a match, or a capture, takes as an object.
	told = 512
	// matchSteps is what finding one match counts for: as long as some steps.
	matchSteps = 8
	// sureWork is the square of a text's length times the expression's size
	// from which on finding all matches is watched: some milliseconds.
	sureWork = 1 << 20
)

// pattern is a compiled regular expression.
type pattern struct {
	*regexp.Regexp
	// probe is one character and then the expression, from the beginning. It
	// finds an empty match right behind another one, which jq tells and Go
	// leaves out; nil where there can be no empty match.
	probe *regexp.Regexp
	size  int      // in instructions
	names []string // of captures, "" for those without
}

// patterns are the regular expressions of one compiled program.
type patterns struct{ kept sync.Map }

func (ps *patterns) get(expr, flags string) (*pattern, error) {
	key := [2]string{expr, flags}
	if p, ok := ps.kept.Load(key); ok {
		return p.(*pattern), nil
	}
	if strings.Trim(flags, "gim") != "" {
		return nil, fmt.Errorf("unsupported regular expression flag: %q", flags)
	}
	if strings.Contains(flags, "i") {
		expr = "(?i)" + expr
	}
	if strings.Contains(flags, "m") {
		expr = "(?s)" + expr
	}
	p, err := compilePattern(expr)
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", expr, err)
	}
	ps.kept.Store(key, p)
	return p, nil
}

func compilePattern(expr string) (*pattern, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	p := &pattern{Regexp: re, size: len(prog.Inst), names: re.SubexpNames()[1:]}
	if mayBeEmpty(prog) {
		// An expression that is too long with a character before it goes
		// without, as it does in the engine.
		p.probe, _ = regexp.Compile(`\A(?s:.)(?:` + expr + `)`)
	}
	return p, nil
}

// mayBeEmpty reports whether prog can match without taking a character.
func mayBeEmpty(prog *syntax.Prog) bool {
	seen := make([]bool, len(prog.Inst))
	next := []uint32{uint32(prog.Start)}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		switch i := prog.Inst[at]; i.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			next = append(next, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstNop:
			next = append(next, i.Out)
		case syntax.InstFail, syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		}
	}
	return false
}

// fit checks one look through a text.
func (p *pattern) fit(s string) error {
	if len(s) > MaxMatching/p.size {
		return fmt.Errorf("%w: a regular expression of size %d looks through a text of %d bytes; %d bytes are the most at this size",
			ErrLimit, p.size, len(s), MaxMatching/p.size)
	}
	return nil
}

// stopped leaves count.
type stopped struct{ err error }

// count is an error where s holds too many matches or to find them takes too
// long. Only a function that is called for each match can end the search, and
// only by a panic.
func (p *pattern) count(s string, w *watch) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopped:
			err = r.err
		default:
			panic(r)
		}
	}()
	n := 0
	p.ReplaceAllStringFunc(s, func(string) string {
		if n++; n > MaxMatches {
			panic(stopped{fmt.Errorf("%w: a regular expression matches more than %d times in a text of %d bytes", ErrLimit, MaxMatches, len(s))})
		}
		w.steps += matchSteps
		if w.look(); w.err != nil {
			panic(stopped{w.err})
		}
		return ""
	})
	return nil
}

// find returns the places of the matches: of each, where it and its captures
// begin and end, in bytes.
func (p *pattern) find(s string, global bool, w *watch) ([][]int, error) {
	if err := p.fit(s); err != nil {
		return nil, err
	}
	if !global {
		if m := p.FindStringSubmatchIndex(s); m != nil {
			return [][]int{m}, nil
		}
		return nil, nil
	}
	if len(s)*len(s) > sureWork/p.size {
		if err := p.count(s, w); err != nil {
			return nil, err
		}
	}
	found := p.FindAllStringSubmatchIndex(s, -1)
	if err := charge(w, len(found)*(placed+2*slot*len(p.names))); err != nil {
		return nil, err
	}
	if p.probe == nil {
		return found, nil
	}
	return p.withEmpty(s, found, w)
}

// withEmpty adds the empty matches that stand right behind another one.
func (p *pattern) withEmpty(s string, found [][]int, w *watch) ([][]int, error) {
	all := make([][]int, 0, len(found))
	for i, m := range found {
		all = append(all, m)
		if m[0] == m[1] || i+1 < len(found) && found[i+1][0] == m[1] {
			continue
		}
		if w.look(); w.err != nil {
			return nil, w.err
		}
		if e := p.emptyAt(s, m[1]); e != nil {
			all = append(all, e)
		}
	}
	return all, nil
}

// emptyAt returns the empty match at a place that is not the beginning.
func (p *pattern) emptyAt(s string, at int) []int {
	_, width := utf8.DecodeLastRuneInString(s[:at])
	from := at - width
	m := p.probe.FindStringSubmatchIndex(s[from:])
	if m == nil || m[1] != width {
		return nil
	}
	m[0] = width
	for i := range m {
		if m[i] >= 0 {
			m[i] += from
		}
	}
	return m
}
