package wirejson

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Problem is one thing that is wrong with a document that is JSON.
type Problem struct {
	Pointer string // RFC 6901; "" is the document
	Message string
}

// Error says why a document is refused as a whole.
type Error struct {
	Pointer string
	Offset  int64 // in bytes, at or after which it is wrong
	Message string
}

// Error says what is wrong and where.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("%s, at byte %d", e.Message, e.Offset)
	}
	return fmt.Sprintf("%s, at byte %d (%s)", e.Message, e.Offset, e.Pointer)
}

// SizeError says that a value that passes through is too long.
type SizeError struct {
	Pointer   string
	Size, Max int // bytes
}

// Error says how long it is and how long it may be.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%s has %d bytes; %d are allowed", e.Pointer, e.Size, e.Max)
}

// Found is what is wrong with a document that is JSON.
type Found struct {
	Problems []Problem // in the document's order, MaxProblems at most
	More     int       // how many more there are
}

// twice is said of a name.
const twice = "the member %q is there twice"

// explain says in a caller's words what the decoder found.
func explain(err error, at int64) *Error {
	e := &Error{Offset: at, Message: "it is no JSON"}
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.EOF):
		e.Message = "there is no JSON value"
	case !ok:
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Offset, e.Pointer = syntactic.ByteOffset, cut(string(syntactic.JSONPointer))
		e.Message = fmt.Sprintf(twice, cut(syntactic.JSONPointer.LastToken()))
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Offset, e.Pointer = syntactic.ByteOffset, cut(string(syntactic.JSONPointer))
		e.Message = "the JSON ends too early"
	default:
		e.Offset, e.Pointer = syntactic.ByteOffset, cut(string(syntactic.JSONPointer))
		e.Message = "it is no JSON: " + syntactic.Err.Error()
	}
	return e
}

func cut(pointer string) string {
	if len(pointer) > maxPointer {
		return strings.ToValidUTF8(pointer[:maxPointer], "") + "…"
	}
	return pointer
}

// describe names a kind of value for people.
func describe(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null (leave it out instead)"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindString:
		return "a text"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	default:
		return "this"
	}
}
