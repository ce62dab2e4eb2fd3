package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/semaphore"
)

// MaxRequest bounds a request's body in bytes: sixteen jobs of the largest
// payload, or a thousand of 16 KiB.
const MaxRequest = 16 << 20

// What requests may hold in memory together.
const (
	// small is what a request may have without asking: most are below, and the
	// listener bounds how many there are.
	small = 64 << 10
	// maxLarge is for all larger ones: eight of the largest.
	maxLarge = 8 * MaxRequest
	// largeWait is how long a large one waits for others to be done: much less
	// than the time that its body has to arrive.
	largeWait = 2 * time.Second
)

// MaxWait is how long a call may wait for what it asks for. Proxies and load
// balancers cut what is silent for longer, and a client asks again anyway.
const MaxWait = jobserver.MaxClaimWait

// request is a request whose key may make its call.
type request struct {
	*http.Request
	w     http.ResponseWriter
	who   jobserver.Principal
	large *semaphore.Semaphore
	held  int64 // of large
}

// hold takes what a large request may fill, until it is done.
func (q *request) hold(bytes int64) error {
	if q.held > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(q.Context(), largeWait)
	defer cancel()
	if err := q.large.Acquire(ctx, bytes); err != nil {
		return errLarge
	}
	q.held = bytes
	return nil
}

// errLarge: there is no room for one more large request.
var errLarge = errors.New("nothing was read: too many large requests are under way")

// done gives back what the request held.
func (q *request) done() {
	if q.held > 0 {
		q.large.Release(q.held)
	}
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

var jsonType, nosniff = []string{"application/json"}, []string{"nosniff"}

// body returns the request's JSON text, which is the caller's to keep.
func (q *request) body() ([]byte, error) {
	if err := q.checkMedia(); err != nil {
		return nil, err
	}
	if q.ContentLength > MaxRequest {
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
				return nil, tooLarge()
			}
			return nil, &refusal{problem.Document{Type: problem.BadRequest, Detail: "the request broke off before its end"}}
		}
		if len(buf) < cap(buf) {
			continue
		}
		if len(buf) >= small {
			most := q.ContentLength
			if most < 0 {
				most = MaxRequest
			}
			if err := q.hold(most); err != nil {
				return nil, err
			}
		}
		buf = slices.Grow(buf, len(buf))
	}
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

// query are the parameters of a request's URL.
type query struct {
	values url.Values
	faults []problem.Fault
}

// query returns the parameters; those that are not known, or there twice, are
// faults.
func (q *request) query(known ...string) *query {
	values, err := url.ParseQuery(q.URL.RawQuery)
	p := &query{values: values}
	if err != nil {
		p.add("", "the query can't be read: %v", err)
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case slices.Contains(known, name):
			if len(values[name]) > 1 {
				p.add(name, "is there %d times; say it once", len(values[name]))
			}
		case len(known) == 0:
			p.add(cut(name), "unknown; this call has no parameters")
		default:
			if near := nearest.To(name, known); near != "" {
				p.add(name, "unknown; did you mean %s?", near)
			} else {
				p.add(cut(name), "unknown; known are %s", strings.Join(known, ", "))
			}
		}
		if len(p.faults) >= wirejson.MaxProblems {
			break
		}
	}
	return p
}

func cut(s string) string {
	const enough = 64
	if len(s) > enough {
		return strings.ToValidUTF8(s[:enough], "") + "…"
	}
	return s
}

func (p *query) add(name, format string, args ...any) {
	p.faults = append(p.faults, problem.Fault{Parameter: name, Message: fmt.Sprintf(format, args...)})
}

// err is everything that is wrong with the parameters, nil for nothing.
func (p *query) err() error {
	if len(p.faults) == 0 {
		return nil
	}
	detail := strings.TrimSpace(p.faults[0].Parameter + " " + p.faults[0].Message)
	if more := len(p.faults) - 1; more > 0 {
		detail += fmt.Sprintf(" (and %d more)", more)
	}
	return &refusal{problem.Document{Type: problem.Invalid, Detail: detail, Errors: p.faults}}
}

// text returns a parameter, "" where it was not said; said and empty is a fault.
func (p *query) text(name string) string {
	if values, ok := p.values[name]; ok {
		if values[0] != "" {
			return values[0]
		}
		p.add(name, "is empty; leave it out")
	}
	return ""
}

// name returns a parameter that is a name.
func (p *query) name(name string) string {
	s := p.text(name)
	if s != "" && !validName(s) {
		p.add(name, "is no name: up to %d of A-Z, a-z, 0-9 and . _ : -", jobserver.MaxName)
	}
	return s
}

// word returns a parameter that is one of a few words.
func word[T ~string](p *query, name string, words []T) T {
	s := T(p.text(name))
	if s != "" && !slices.Contains(words, s) {
		texts := make([]string, len(words))
		for i, w := range words {
			texts[i] = string(w)
		}
		p.add(name, "must be one of %s", strings.Join(texts, ", "))
	}
	return s
}

// count returns a parameter that is a number from 1 to most, or def.
func (p *query) count(name string, def, most int) int {
	s := p.text(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		p.add(name, "must be a number from 1 to %d", most)
		return def
	}
	return n
}

// time returns a parameter that is a moment.
func (p *query) time(name string) time.Time {
	s := p.text(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		p.add(name, "must be a time in RFC 3339 such as 2026-12-01T03:00:00Z (a + in a query is %%2B)")
	}
	return t
}

// wait returns a parameter that is how long to wait.
func (p *query) wait(name string) time.Duration {
	s := p.text(name)
	if s == "" {
		return 0
	}
	d, err := duration.Parse(s)
	if err != nil || d > MaxWait {
		p.add(name, "must be a duration from 0s to %s, such as 30s", duration.Text(MaxWait))
		return 0
	}
	return d
}

// validName reports whether s can be the name of something.
func validName(s string) bool {
	return s != "" && len(s) <= jobserver.MaxName && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._:-", c)
	})
}

// polling returns the context of a call that waits, and moves the connection's
// deadlines, which are made for calls that don't. It ends when the server stops.
func (a *api) polling(q *request, wait time.Duration) (ctx context.Context, end func()) {
	if wait <= 0 {
		return q.Context(), func() {}
	}
	// The server reads on while the handler runs, to see whether the caller is
	// gone; a read deadline that passes would look as if it were. A server
	// without deadlines keeps none, or they would stay for the next request.
	if srv, ok := q.Context().Value(http.ServerContextKey).(*http.Server); ok {
		c := http.NewResponseController(q.w)
		now := time.Now()
		if srv.ReadTimeout > 0 {
			_ = c.SetReadDeadline(now.Add(wait + srv.ReadTimeout)) // not supported: then there is none
		}
		if srv.WriteTimeout > 0 {
			_ = c.SetWriteDeadline(now.Add(wait + srv.WriteTimeout))
		}
	}
	ctx, cancel := context.WithCancel(q.Context())
	stop := context.AfterFunc(a.stopping, cancel)
	return ctx, func() { stop(); cancel() }
}
