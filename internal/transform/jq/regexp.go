package jq

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// The engine's own functions for regular expressions take time in proportion to
// the matches times the text, and nothing can interrupt them. Those here find
// the same matches in one pass, count them, and look at the clock between two.

// The bounds of regular expressions.
const (
	// MaxMatches is how many matches one call may find: about what a program
	// can go through in MaxTime. It is less for an expression with many
	// captures, whose places are bounded by maxPlaces.
	MaxMatches = 1 << 18
	// MaxMatching is the longest text, in bytes, times the expression's size in
	// instructions (about one for each character of it): what is looked through
	// in a few seconds at worst, and in a few milliseconds by nearly all
	// expressions. A text of 1 MiB may meet a size of 256.
	MaxMatching = 1 << 28
	// MaxExpression is the longest expression in bytes: a message can hold it.
	MaxExpression = 16 << 10
	// MaxInstructions is the largest expression: {1000} can make one of a few
	// bytes large.
	MaxInstructions = 1 << 16
)

const (
	// placed is how many bytes the places of a match, or of a capture, take.
	placed = 64
	// maxPlaces is how many bytes the places of all matches may take.
	maxPlaces = 32 << 20
	// maxKept is how many instructions a program keeps: some 40 MB at worst,
	// and more than it has where its expressions are constants.
	maxKept = 1 << 18
	// told is how many bytes a match, or a capture, takes as an object.
	told = 512
	// stepBytes is how much text the fastest search goes through in a step.
	stepBytes = 1024
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

// patterns are the regular expressions of one compiled program. Messages can
// bring ever new ones, so all are forgotten once they are too many.
type patterns struct {
	kept sync.Map     // of *pattern, by expression and flags
	size atomic.Int64 // in instructions
}

func (ps *patterns) get(expr, flags string) (*pattern, error) {
	key := [2]string{expr, flags}
	if p, ok := ps.kept.Load(key); ok {
		return p.(*pattern), nil
	}
	if len(expr) > MaxExpression {
		return nil, fmt.Errorf("%w: a regular expression has %d bytes; %d is the most", ErrLimit, len(expr), MaxExpression)
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
	switch {
	case errors.Is(err, ErrLimit): // without the expression, which is long
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("invalid regular expression %q: %w", expr, err)
	}
	if ps.size.Add(int64(p.size)) > maxKept {
		ps.kept.Clear()
		ps.size.Store(int64(p.size))
	}
	ps.kept.Store(key, p)
	return p, nil
}

func compilePattern(expr string) (*pattern, error) {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if n := instructions(tree); n > MaxInstructions {
		return nil, fmt.Errorf("%w: a regular expression has a size of %d; %d is the most", ErrLimit, n, MaxInstructions)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(expr)
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

// instructions is about how many a tree becomes. They are counted before they
// are made: repeats can be a thousand times as long as their text.
func instructions(tree *syntax.Regexp) int {
	n := 1 + len(tree.Rune)
	if tree.Op == syntax.OpCharClass {
		n = 1
	}
	for _, sub := range tree.Sub {
		n += instructions(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min+1, tree.Max)
	}
	return n
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

// fit checks one look through a text, and counts it for as many steps as the
// fastest takes.
func (p *pattern) fit(s string, w *watch) error {
	if len(s) > MaxMatching/p.size {
		return fmt.Errorf("%w: a regular expression of size %d looks through a text of %d bytes; %d bytes are the most at this size",
			ErrLimit, p.size, len(s), MaxMatching/p.size)
	}
	w.steps += int64(len(s) / stepBytes)
	if len(s) > slow/p.size {
		w.look()
	}
	return w.err
}

// places is how many bytes the places of a match and its captures take.
func (p *pattern) places() int { return placed * (1 + len(p.names)) }

// stopped leaves count.
type stopped struct{ err error }

// count counts the matches. It is an error where they are too many or finding
// them takes too long. Only a function that is called for each match can end the search, and
// only by a panic.
func (p *pattern) count(s string, w *watch) (n int, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopped:
			err = r.err
		default:
			panic(r)
		}
	}()
	most := min(MaxMatches, maxPlaces/p.places())
	p.ReplaceAllStringFunc(s, func(string) string {
		if n++; n > most {
			panic(stopped{fmt.Errorf("%w: a regular expression matches more than %d times in a text of %d bytes", ErrLimit, most, len(s))})
		}
		w.steps += matchSteps
		if w.look(); w.err != nil {
			panic(stopped{w.err})
		}
		return ""
	})
	return n, nil
}

// find returns the places of the matches: of each, where it and its captures
// begin and end, in bytes.
func (p *pattern) find(s string, global bool, w *watch) ([][]int, error) {
	if err := p.fit(s, w); err != nil {
		return nil, err
	}
	if !global {
		if m := p.FindStringSubmatchIndex(s); m != nil {
			return [][]int{m}, nil
		}
		return nil, nil
	}
	if len(s)*len(s) > sureWork/p.size {
		if n, err := p.count(s, w); n == 0 || err != nil {
			return nil, err
		}
	}
	found := p.FindAllStringSubmatchIndex(s, -1)
	if err := w.spend(len(found) * p.places()); err != nil {
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
