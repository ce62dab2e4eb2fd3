package jq

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// MaxSource is the longest program in bytes: programs stand in a
// configuration and are read by people.
const MaxSource = 64 << 10

// Compile compiles jq text. An error says what is wrong and where: the line
// and column, counted from 1, the column in characters.
func Compile(src string) (*Program, error) {
	if len(src) > MaxSource {
		return nil, fmt.Errorf("jq: the program has %d bytes; %d is the most", len(src), MaxSource)
	}
	if strings.TrimSpace(src) == "" {
		return nil, errors.New(`jq: the program is empty; write . for the whole body`)
	}
	code, err := build(src)
	if err != nil {
		return nil, err
	}
	return &Program{src: src, code: code, wantsMsg: strings.Contains(src, msgVariable)}, nil
}

const (
	msgVariable   = "$msg"
	meterVariable = "$" + own + "meter"
	// own begins every name that the guards add to a program.
	own = "__pawl_"
)

// build parses, guards and compiles.
func build(src string) (*gojq.Code, error) {
	if at := strings.Index(src, own); at >= 0 {
		return nil, fmt.Errorf("jq: %s: names that begin with %s are pawl's own", position(src, at), own)
	}
	q, err := gojq.Parse(src)
	if err != nil {
		return nil, syntaxError(src, err)
	}
	g := guard(q, src)
	if g.err != nil {
		return nil, g.err
	}
	options := append(natives(), gojq.WithVariables([]string{msgVariable, meterVariable}))
	code, err := gojq.Compile(q, options...)
	if err != nil {
		return nil, compileError(src, err)
	}
	return code, nil
}

func syntaxError(src string, err error) error {
	var p *gojq.ParseError
	if !errors.As(err, &p) {
		return fmt.Errorf("jq: %w", err)
	}
	at := min(max(p.Offset-len(p.Token), 0), len(src))
	return fmt.Errorf("jq: %s: %w", position(src, at), err)
}

// compileError finds the place of a name that is not defined: the engine does
// not say it.
func compileError(src string, err error) error {
	text := err.Error()
	if _, name, ok := strings.Cut(text, "not defined: "); ok {
		name, _, _ = strings.Cut(name, "/")
		if at := findName(src, name); at >= 0 {
			return fmt.Errorf("jq: %s: %w", position(src, at), err)
		}
	}
	return fmt.Errorf("jq: %w", err)
}

// findName returns where name first stands as a whole word, or -1.
func findName(src, name string) int {
	word := func(i int) bool {
		return i >= 0 && i < len(src) && (src[i] == '_' || src[i] == '$' || src[i] == '.' ||
			src[i] >= '0' && src[i] <= '9' || src[i] >= 'a' && src[i] <= 'z' || src[i] >= 'A' && src[i] <= 'Z')
	}
	for from := 0; name != "" && from < len(src); {
		i := strings.Index(src[from:], name)
		if i < 0 {
			return -1
		}
		at := from + i
		end := at + len(name)
		if !word(at-1) && (!word(end) || src[end] == '.') {
			return at
		}
		from = end
	}
	return -1
}

// position writes a byte's place as "line 1, column 5".
func position(src string, at int) string {
	before := src[:at]
	line := strings.Count(before, "\n") + 1
	start := strings.LastIndexByte(before, '\n') + 1
	return fmt.Sprintf("line %d, column %d", line, utf8.RuneCountInString(before[start:])+1)
}
