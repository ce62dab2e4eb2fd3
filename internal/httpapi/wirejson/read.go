package wirejson

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/internal/core/nearest"
)

// The bounds of a document. Its size is the caller's to bound.
const (
	// MaxDepth is how deep a value that passes through may be nested. What
	// people write by hand is below 20; a hundred is safe for every reader that
	// gets it later and recurses.
	MaxDepth = 100
	// MaxProblems is how many problems one reading tells. Who has a hundred
	// makes the same mistake over and over.
	MaxProblems = 100
	// maxNearest is for how many problems the nearest name is looked for: it costs
	// more than reading the member.
	maxNearest = 10
	// maxNamed is the size up to which the decoder remembers every name of an
	// object, to find one that is there twice. It takes some hundred bytes a
	// name; in a longer document each value is looked at by itself, once it is
	// known to be short enough.
	maxNamed = 2 << 20
	// maxPointer is how many bytes of a pointer are told: names in it are the
	// caller's, and may be as long as the document.
	maxPointer = 256
)

// Texts says what becomes of text that is not clean.
type Texts int

// The ways.
const (
	// Refuse: a document with a NUL or bytes that are no UTF-8 in any text, or
	// with a name twice in one object, is refused as a whole.
	Refuse Texts = iota
	// Keep: texts come as they are, for the caller to clean; a name that is
	// known and there twice is a Problem. Values that pass through are checked
	// all the same, but a fault in one is a Problem.
	Keep
)

// Reader takes one document apart. Its methods are for the function that Read
// calls, on its goroutine. After an error they do nothing and return zeros.
type Reader struct {
	body  []byte
	texts Texts
	named bool // the decoder finds names that are there twice
	buf   bytes.Buffer
	dec   jsontext.Decoder
	found []Problem
	more  int
	err   error
}

var (
	readers = sync.Pool{New: func() any { return new(Reader) }}
	strict  = []jsontext.Options{jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false)}
	unnamed = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(false)}
	lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
)

// Read reads a document, one JSON value, by take. The error is an *Error or a
// *SizeError. Values that take got with Value are parts of body.
func Read(body []byte, texts Texts, take func(*Reader)) (Found, error) {
	r := readers.Get().(*Reader)
	defer r.giveBack()
	r.body, r.texts, r.named = body, texts, texts == Refuse && len(body) <= maxNamed
	r.buf = *bytes.NewBuffer(body)
	switch {
	case texts == Keep:
		r.dec.Reset(&r.buf, lenient...)
	case r.named:
		r.dec.Reset(&r.buf, strict...)
	default:
		r.dec.Reset(&r.buf, unnamed...)
	}
	if texts == Refuse {
		if err := refuseNUL(body); err != nil {
			return Found{}, err
		}
	}
	take(r)
	r.end()
	if r.err != nil {
		return Found{}, r.err
	}
	return Found{r.found, r.more}, nil
}

// giveBack keeps the decoder's memory for the next document, and nothing of
// this one.
func (r *Reader) giveBack() {
	r.body, r.found, r.more, r.err = nil, nil, 0, nil
	r.buf = bytes.Buffer{}
	r.dec.Reset(&r.buf)
	readers.Put(r)
}

// end sees to it that there is nothing more.
func (r *Reader) end() {
	if r.err != nil {
		return
	}
	if r.dec.InputOffset() == 0 { // take read nothing: a document there must be
		r.skip()
	}
	if _, err := r.dec.ReadToken(); r.err == nil && !errors.Is(err, io.EOF) {
		if err != nil {
			r.fail(err)
			return
		}
		r.err = &Error{Offset: r.dec.InputOffset(), Message: "there is more after the JSON value"}
	}
}

// OK reports whether the document is JSON so far: false ends every loop.
func (r *Reader) OK() bool { return r.err == nil }

// Take returns the problems that were found since the last call, and forgets
// them: they belong to a part of the document that fails alone.
func (r *Reader) Take() Found {
	f := Found{r.found, r.more}
	r.found, r.more = nil, 0
	return f
}

// Put gives back what Take took.
func (r *Reader) Put(f Found) { r.found, r.more = append(f.Problems, r.found...), f.More+r.more }

// Problems returns how many problems were found since the last Take.
func (r *Reader) Problems() int { return len(r.found) + r.more }

// Wrong adds a problem of the value that was read last.
func (r *Reader) Wrong(format string, args ...any) {
	if r.room() {
		r.add(r.pointer(), format, args...)
	}
}

// WrongMember adds a problem of a member of the value that was read last: one
// that is missing, or too much.
func (r *Reader) WrongMember(member, format string, args ...any) {
	if r.room() {
		r.add(r.pointer()+"/"+member, format, args...)
	}
}

// room reports whether one more problem is told, and counts it where it is not.
func (r *Reader) room() bool {
	if r.err == nil && len(r.found) == MaxProblems {
		r.more++
	}
	return r.err == nil && len(r.found) < MaxProblems
}

func (r *Reader) add(pointer, format string, args ...any) {
	r.found = append(r.found, Problem{cut(pointer), fmt.Sprintf(format, args...)})
}

func (r *Reader) pointer() string { return string(r.dec.StackPointer()) }

// fail keeps the first error.
func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = explain(err, r.dec.InputOffset())
	}
}

// next reads the next value as it stands, nil after an error.
func (r *Reader) next() jsontext.Value {
	if r.err != nil {
		return nil
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		r.fail(err)
		return nil
	}
	return v
}

func (r *Reader) skip() {
	if r.err == nil {
		if err := r.dec.SkipValue(); err != nil {
			r.fail(err)
		}
	}
}

// open enters an object or array, or says that there is none.
func (r *Reader) open(kind jsontext.Kind, what string) bool {
	if r.err != nil {
		return false
	}
	if k := r.dec.PeekKind(); k != kind && k != jsontext.KindInvalid {
		r.skip()
		r.Wrong("must be %s, not %s", what, describe(k))
		return false
	}
	if _, err := r.dec.ReadToken(); err != nil {
		r.fail(err)
		return false
	}
	return true
}

// inside reports whether the open object or array goes on, and leaves it where
// it does not.
func (r *Reader) inside(end jsontext.Kind) bool {
	if r.err != nil {
		return false
	}
	if k := r.dec.PeekKind(); k != end && k != jsontext.KindInvalid {
		return true
	}
	if _, err := r.dec.ReadToken(); err != nil {
		r.fail(err)
	}
	return false
}

// Seen says which of an object's members were there, by their index.
type Seen uint64

// Has reports whether the member of the index was there.
func (s Seen) Has(i int) bool { return s&(1<<i) != 0 }

// Object reads an object: it calls each for every member whose name is among
// the given ones (64 at most), to read its value. Others are problems that name
// the nearest. What each does not read is passed over.
func (r *Reader) Object(members []string, each func(member string)) Seen {
	var seen Seen
	if !r.open(jsontext.KindBeginObject, "an object") {
		return 0
	}
	for r.inside(jsontext.KindEndObject) {
		name := r.next()
		if r.err != nil {
			break
		}
		i := indexOf(members, name)
		switch {
		case i < 0:
			r.unknown(members, name)
			r.skip()
			continue
		case seen.Has(i) && r.texts == Refuse: // which the decoder leaves to this in a long document
			at := r.dec.InputOffset() - int64(len(name))
			r.err = &Error{Pointer: cut(r.pointer()), Offset: at, Message: fmt.Sprintf(twice, members[i])}
			return seen
		case seen.Has(i):
			r.Wrong("is there twice")
			r.skip()
			continue
		}
		seen |= 1 << i
		before := r.dec.InputOffset()
		each(members[i])
		if r.err == nil && r.dec.InputOffset() == before {
			r.skip()
		}
	}
	return seen
}

// indexOf finds a quoted name.
func indexOf(members []string, quoted jsontext.Value) int {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, quoted) // it was read as text: no error but of UTF-8, and then it is no member
	}
	for i, m := range members {
		if string(name) == m {
			return i
		}
	}
	return -1
}

func (r *Reader) unknown(members []string, quoted jsontext.Value) {
	if len(members) == 0 {
		r.Wrong("unknown member; none is known here")
		return
	}
	if len(r.found) < maxNearest {
		name, _ := jsontext.AppendUnquote(nil, quoted) // as in indexOf
		if near := nearest.To(string(name), members); near != "" {
			r.Wrong("unknown member; did you mean %q?", near)
			return
		}
	}
	r.Wrong("unknown member; known are %s", strings.Join(members, ", "))
}

// Choice reads an array as Array does that, left out, stands for everything: an
// empty one is a problem, since it would be the opposite of what it says.
func (r *Reader) Choice(limit int, plural string, each func(i int)) {
	before := r.Problems()
	if r.Array(limit, plural, each) == 0 && r.Problems() == before && r.OK() {
		r.Wrong("is empty; name some %s, or leave it out", plural)
	}
}

// Array reads an array of at most limit elements of the kind that plural names:
// it calls each for every one, to read it. More are one problem, and passed
// over. It returns how many there were.
func (r *Reader) Array(limit int, plural string, each func(i int)) int {
	if !r.open(jsontext.KindBeginArray, "an array") {
		return 0
	}
	n := 0
	for ; r.inside(jsontext.KindEndArray); n++ {
		if n >= limit {
			r.skip()
			continue
		}
		before := r.dec.InputOffset()
		each(n)
		if r.err == nil && r.dec.InputOffset() == before {
			r.skip()
		}
	}
	if n > limit {
		r.Wrong("%d %s are too many; %d are allowed", n, plural, limit)
	}
	return n
}
