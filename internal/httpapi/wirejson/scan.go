package wirejson

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
)

// escapedNUL is the only way in which JSON can hold a NUL.
var escapedNUL = []byte(`\u0000`)

// refuseNUL returns where a text or name of the document holds a NUL: databases
// and C programs end a text there. Documents without the escape cost one look.
func refuseNUL(body []byte) *Error {
	for from := 0; ; {
		i := bytes.Index(body[from:], escapedNUL)
		if i < 0 {
			return nil
		}
		at := from + i
		if escapes(body, at) {
			return &Error{Pointer: pointerAt(body, at), Offset: int64(at), Message: `a text holds NUL (\u0000)`}
		}
		from = at + 1
	}
}

// escapes reports whether the backslash at the place begins an escape: an even
// number stands before it. Outside of texts JSON has none.
func escapes(body []byte, at int) bool {
	n := 0
	for at > 0 && body[at-1] == '\\' {
		at--
		n++
	}
	return n%2 == 0
}

// pointerAt returns the pointer of the value that the place is in, as far as the
// document is JSON up to there.
func pointerAt(body []byte, at int) string {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), lenient...)
	for dec.InputOffset() <= int64(at) {
		if _, err := dec.ReadToken(); err != nil {
			break
		}
	}
	return cut(string(dec.StackPointer()))
}

// tooDeep returns where a JSON value is nested deeper than MaxDepth. Values with
// few brackets cost two counts.
func tooDeep(v []byte) *Error {
	if bytes.Count(v, []byte{'{'})+bytes.Count(v, []byte{'['}) <= MaxDepth {
		return nil
	}
	depth := 0
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '"':
			for i++; v[i] != '"'; i++ { // it is JSON: the text ends
				if v[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > MaxDepth {
				return &Error{Offset: int64(i), Message: fmt.Sprintf("the value is nested deeper than %d levels", MaxDepth)}
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}
