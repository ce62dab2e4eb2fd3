package http

import (
	"bytes"
	"compress/gzip"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"io"
	nethttp "net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/setting"
)

const (
	// trustedLength is how much memory the word of a caller is worth: a body
	// that is announced larger gets more only as its bytes arrive.
	trustedLength = 16 << 10
	// maxRatio is how many times larger than sent a body may unpack. Text
	// shrinks to a tenth, very regular text to a hundredth; a thousandth is
	// what a bomb reaches.
	maxRatio = 200
	// ratioFrom leaves small bodies alone: a few bytes of header distort them.
	ratioFrom = 64 << 10
)

func errTooLarge(limit int) error {
	size := setting.Size(limit).String()
	if unit := size[len(size)-1]; unit >= '0' && unit <= '9' {
		size += " bytes"
	}
	return refuse(problem.TooLarge, "the body is larger than the %s that this source takes", size)
}

// readBudget bounds the memory for bodies that are still arriving, beyond the
// first trustedLength of each: as much as max_in_flight_bytes allows for those
// that have arrived. Without it every connection could hold max_body.
const readBudget = 64 << 20

// budget is an amount that many take from. Safe for concurrent use.
type budget struct{ left atomic.Int64 }

func newBudget(n int64) *budget {
	b := &budget{}
	b.left.Store(n)
	return b
}

func (b *budget) take(n int) bool {
	if b.left.Add(int64(-n)) >= 0 {
		return true
	}
	b.give(n)
	return false
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }

var errNoBudget = refusal{problem.Unavailable, "too many large bodies are arriving at once; send it again"}

// readBody reads a body of announced length (-1: not announced) and at most
// limit bytes. While it reads it takes what it needs from b.
func readBody(r io.Reader, length int64, limit int, b *budget) ([]byte, error) {
	if length > int64(limit) {
		return nil, errTooLarge(limit)
	}
	size := 512
	if length >= 0 {
		size = int(min(length, trustedLength))
	}
	body, taken := make([]byte, 0, size), 0
	defer func() { b.give(taken) }()
	for {
		if len(body) == cap(body) {
			more := min(max(cap(body), 512), limit+1-cap(body)) // twice as much, or what is left
			if cap(body)+more > trustedLength {
				if !b.take(more) {
					return nil, errNoBudget
				}
				taken += more
			}
			body = append(make([]byte, 0, cap(body)+more), body...) // just so much: it is counted
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > limit:
			return nil, errTooLarge(limit)
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, asReadError(err)
		}
	}
}

// unpacker undoes a content encoding; limit bounds what comes out.
type unpacker func(body []byte, limit int) ([]byte, error)

// encodingOf returns what undoes the content encoding.
func encodingOf(h nethttp.Header) (unpacker, error) {
	values := h["Content-Encoding"]
	switch len(values) {
	case 0:
		return asIs, nil
	case 1:
		switch strings.ToLower(strings.TrimSpace(values[0])) {
		case "", "identity":
			return asIs, nil
		case "gzip", "x-gzip":
			return gunzip, nil
		}
	}
	return nil, refuse(problem.UnsupportedMedia, "this content encoding is not taken; send gzip or none")
}

func asIs(body []byte, _ int) ([]byte, error) { return body, nil }

// gunzips keeps the 40 KiB that a gzip reader needs.
var gunzips = sync.Pool{New: func() any { return new(gzip.Reader) }}

func gunzip(packed []byte, limit int) ([]byte, error) {
	z, _ := gunzips.Get().(*gzip.Reader)
	defer gunzips.Put(z)
	if err := z.Reset(bytes.NewReader(packed)); err != nil {
		return nil, errNotGzip
	}
	most := min(limit, max(ratioFrom, maxRatio*len(packed)))
	var out bytes.Buffer
	switch _, err := io.Copy(&out, io.LimitReader(z, int64(most)+1)); {
	case err != nil:
		return nil, errNotGzip
	case out.Len() > limit:
		return nil, errTooLarge(limit)
	case out.Len() > most:
		return nil, refuse(problem.TooLarge, "the body unpacks to more than %d times its size", maxRatio)
	}
	return out.Bytes(), nil
}

var errNotGzip = refusal{problem.BadRequest, "the body is not the gzip that its content encoding says"}

// isJSON says whether a body that says it is a form is a JSON object or array
// as it stands: curl -d sends JSON as a form unless told otherwise, and no form
// looks like that, since its braces and quotes are escaped.
func isJSON(body []byte) bool {
	k := jsontext.Value(body).Kind()
	return (k == '{' || k == '[') && jsontext.Value(body).IsValid()
}

// formToJSON makes a JSON object of a urlencoded form: a text for each field,
// or an array of texts where the field repeats.
func formToJSON(body []byte, limit int) ([]byte, error) {
	fields, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refuse(problem.BadRequest, "the form can't be read; write it like a=1&b=2, other characters escaped with %%")
	}
	object := make(map[string]any, len(fields))
	for name, values := range fields {
		if len(values) == 1 {
			object[name] = values[0]
		} else {
			object[name] = values
		}
	}
	out, err := json.Marshal(object, json.Deterministic(true))
	switch {
	case err != nil:
		return nil, refuse(problem.BadRequest, "the form holds text that is not UTF-8")
	case len(out) > limit:
		return nil, errTooLarge(limit)
	}
	return out, nil
}
