package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
)

// MaxRequest bounds a request's body in bytes: sixteen jobs of the largest
// payload, or a thousand of 16 KiB.
const MaxRequest = 16 << 20

// MaxWait is how long a call may wait for what it asks for. Proxies and load
// balancers cut what is silent for longer, and a client asks again anyway.
const MaxWait = jobserver.MaxClaimWait

// request is a request whose key may make its call.
type request struct {
	*http.Request
	w      http.ResponseWriter
	who    jobserver.Principal
	secret string // of the key
	hold   hold
}

// answer sends a JSON answer.
func (q *request) answer(status int, body []byte) error {
	h := q.w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["X-Content-Type-Options"] = nosniff
	q.w.WriteHeader(status)
	_, _ = q.w.Write(body) // a caller that is gone is nobody to tell
	return nil
}

// done answers that something was done of which there is nothing to say.
func (q *request) done() error {
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

var jsonType, nosniff = []string{"application/json"}, []string{"nosniff"}

// body returns the request's JSON text, which is the caller's to keep.
func (q *request) body() ([]byte, error) {
	if err := q.checkMedia(); err != nil {
		return nil, err
	}
	if q.ContentLength > MaxRequest {
		q.drain()
		return nil, tooLarge()
	}
	// A length that is only claimed takes no memory: what is read, and as much
	// again, does.
	size := int64(512)
	if q.ContentLength >= 0 {
		size = min(q.ContentLength+1, small) // one more, so that the end is seen without growing
	}
	buf := make([]byte, 0, size)
	from := http.MaxBytesReader(q.w, q.Body, MaxRequest)
	for {
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				q.drain()
				return nil, tooLarge()
			}
			return nil, &refusal{problem.Document{Type: problem.BadRequest, Detail: "the request broke off before its end"}}
		}
		if len(buf) < cap(buf) {
			continue
		}
		// Room is taken as it is filled: a body that comes slowly holds what has
		// come, and as much again.
		most := int64(MaxRequest)
		if q.ContentLength >= 0 {
			most = q.ContentLength
		}
		size := min(2*int64(len(buf)), max(most, int64(len(buf)))+1)
		if err := q.hold.grow(q.Context(), size); err != nil {
			return nil, err
		}
		buf = append(make([]byte, 0, size), buf...)
	}
}

// The bounds of drain.
const (
	drainBytes = 64 << 20
	drainTime  = 2 * time.Second
)

// drain reads on in a body that is refused, for a bounded time, and ends the
// connection with the answer: many callers read only once they have sent
// everything, and to those an answer with a reset behind it is a reset.
func (q *request) drain() {
	q.w.Header().Set("Connection", "close")
	if q.Header.Get("Expect") != "" {
		return // it waits to be told that it may send
	}
	_ = http.NewResponseController(q.w).SetReadDeadline(time.Now().Add(drainTime)) // else its own ends it
	_, _ = io.CopyN(io.Discard, q.Body, drainBytes)
}

// checkMedia refuses a body that does not say it is JSON: a web page can make a
// browser send anything else without being asked first.
func (q *request) checkMedia() error {
	if encoding := q.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupported(q.w, fmt.Sprintf("Content-Encoding %s is not taken; send the body as it is", strconv.QuoteToASCII(encoding)))
	}
	given := q.Header.Get("Content-Type")
	if given == "application/json" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(given)
	if err != nil || kind != "application/json" {
		return unsupported(q.w, fmt.Sprintf("Content-Type must be application/json, not %s", strconv.QuoteToASCII(given)))
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return unsupported(q.w, "JSON is UTF-8 here, not "+strconv.QuoteToASCII(charset))
	}
	return nil
}

// read takes the body apart, or says everything that is wrong with it.
func (q *request) read(texts wirejson.Texts, take func(*wirejson.Reader)) error {
	body, err := q.body()
	if err != nil {
		return err
	}
	found, err := wirejson.Read(body, texts, take)
	if err != nil {
		return err
	}
	return invalidFound(found)
}

// nothing sees to it that a call without members was sent none.
func (q *request) nothing() error {
	if q.ContentLength == 0 {
		return nil
	}
	return q.read(wirejson.Refuse, func(r *wirejson.Reader) { r.Object(nil, func(string) {}) })
}

// polling returns the context of a call that waits, and moves the connection's
// deadline for the answer, which is made for calls that don't. It ends when the
// server stops.
func (a *api) polling(q *request, wait time.Duration) (ctx context.Context, end func()) {
	if wait <= 0 {
		return q.Context(), func() {}
	}
	// A server without a deadline gets none: it would stay for the next request.
	if srv, ok := q.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 {
		// Not supported: then there is none to move.
		_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(wait + srv.WriteTimeout))
	}
	ctx, cancel := context.WithCancel(q.Context())
	stop := context.AfterFunc(a.stopping, cancel)
	return ctx, func() { stop(); cancel() }
}
