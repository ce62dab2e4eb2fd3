package egress

import (
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// Response is an answer, read to its end or to Options.MaxBodyBytes.
type Response struct {
	// Status is from 200 to 999.
	Status int
	// Body is what was kept of the body: nil without Request.KeepBody.
	Body []byte
	// Truncated says that the body went on past Options.MaxBodyBytes.
	Truncated bool
	// Reused says that the connection had carried a request before.
	Reused bool
	// Resent says that this is the answer to the second sending, after a
	// reused connection turned out to be dead.
	Resent bool

	fields string      // the raw header lines of our own path, checked
	header http.Header // or the fields as net/http gave them
}

// Get returns the first value of a header field, or "".
func (r *Response) Get(name string) string {
	if r.header != nil {
		return r.header.Get(name)
	}
	for rest := r.fields; rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if n, value, _ := splitField(line); len(n) == len(name) && strings.EqualFold(n, name) {
			return value
		}
	}
	return ""
}

// Header returns all header fields under their canonical names. On our own
// path each call makes a new map.
func (r *Response) Header() http.Header {
	if r.header != nil {
		return r.header
	}
	h := make(http.Header)
	for rest := r.fields; rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if name, value, ok := splitField(line); ok {
			name = textproto.CanonicalMIMEHeaderKey(name)
			h[name] = append(h[name], value)
		}
	}
	return h
}

// splitField cuts a header line, with or without its line end, into name and
// value.
func splitField(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	return name, strings.Trim(value, " \t\r"), ok
}

// Failure returns what an answer says went wrong: nil for a 2xx, else the
// failure of its status with what the answer asked to wait. now is when it
// came.
func Failure(r *Response, now time.Time) *failure.Error {
	if r.Status >= 200 && r.Status < 300 {
		return nil
	}
	return failure.FromStatus(r.Status, retryAfter(r.Get, now))
}
