// Package problem writes problem documents (RFC 9457): what every HTTP surface
// of pawl answers when it can't do what was asked.
//
// The type of a problem is a URN, urn:pawl:problem:<word>, so that it stays
// the same wherever pawl's pages live; clients may compare it.
package problem

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"math"
	"net/http"
	"strconv"
	"time"
)

// MediaType is the content type of a problem document.
const MediaType = "application/problem+json"

// Type is the stable word of a kind of problem.
type Type string

// The types. The comment is the status that goes with each.
const (
	BadRequest       Type = "bad-request"            // 400
	Unauthenticated  Type = "unauthenticated"        // 401
	Forbidden        Type = "forbidden"              // 403
	NotFound         Type = "not-found"              // 404
	MethodNotAllowed Type = "method-not-allowed"     // 405
	Timeout          Type = "request-timeout"        // 408
	Conflict         Type = "key-conflict"           // 409
	Exists           Type = "exists"                 // 409
	ManagedByFile    Type = "managed_by_file"        // 409: the configuration says it, the API can't
	Status           Type = "status"                 // 409: it is not in a state for this
	Uncertain        Type = "uncertain"              // 409: its effect may have happened
	Differs          Type = "differs"                // 409: what is there says something else
	InUse            Type = "in-use"                 // 409: something needs it still
	TooLarge         Type = "too-large"              // 413
	UnsupportedMedia Type = "unsupported-media-type" // 415
	Invalid          Type = "invalid"                // 422
	Internal         Type = "internal"               // 500
	Unavailable      Type = "unavailable"            // 503
	StillWorking     Type = "still-working"          // 504
	ControlVersion   Type = "control-version"        // 400: the control socket's caller is of another release
)

// Status returns the HTTP status that goes with the type, 500 for a type that
// is not one of this package's.
func (t Type) Status() int {
	switch t {
	case BadRequest, ControlVersion:
		return http.StatusBadRequest
	case Unauthenticated:
		return http.StatusUnauthorized
	case Forbidden:
		return http.StatusForbidden
	case NotFound:
		return http.StatusNotFound
	case MethodNotAllowed:
		return http.StatusMethodNotAllowed
	case Timeout:
		return http.StatusRequestTimeout
	case Conflict, Exists, ManagedByFile, Status, Uncertain, Differs, InUse:
		return http.StatusConflict
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case UnsupportedMedia:
		return http.StatusUnsupportedMediaType
	case Invalid:
		return http.StatusUnprocessableEntity
	case Internal:
		return http.StatusInternalServerError
	case Unavailable:
		return http.StatusServiceUnavailable
	case StillWorking:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// URI returns the type as it stands in a document.
func (t Type) URI() string { return "urn:pawl:problem:" + string(t) }

// Document is a problem document.
type Document struct {
	Type Type
	// Detail says what is wrong with this request and what to do, for people.
	Detail string
	// ID is the message that it is about; "" leaves it out.
	ID string
	// Job is the job that it is about; "" leaves it out.
	Job string
	// Errors are what is wrong, each by itself; none leaves them out.
	Errors []Fault
}

// Fault is one thing that is wrong with a request.
type Fault struct {
	// Pointer is the JSON pointer of the member of the body that it is about,
	// Parameter the name of the query parameter or header; the body as a whole
	// has neither.
	Pointer   string `json:"pointer,omitzero"`
	Parameter string `json:"parameter,omitzero"`
	// Offset is the byte of the body at or after which it is no JSON; nil
	// elsewhere.
	Offset  *int64 `json:"offset,omitzero"`
	Message string `json:"message"`
}

type wire struct {
	Type   string  `json:"type"`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitempty"`
	ID     string  `json:"id,omitempty"`
	Job    string  `json:"job,omitempty"`
	Errors []Fault `json:"errors,omitempty"`
}

// Encode returns the document as JSON. Text that is not UTF-8 is repaired.
func (d Document) Encode() []byte {
	status := d.Type.Status()
	b, err := json.Marshal(wire{d.Type.URI(), http.StatusText(status), status, d.Detail, d.ID, d.Job, d.Errors},
		jsontext.AllowInvalidUTF8(true))
	if err != nil { // can't be: strings and numbers only
		return []byte(`{"type":"about:blank"}`)
	}
	return b
}

// Write answers w with the document. Headers such as Retry-After are set on w
// beforehand.
func (d Document) Write(w http.ResponseWriter) {
	b := d.Encode()
	h := w.Header()
	h.Set("Content-Type", MediaType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(d.Type.Status())
	_, _ = w.Write(b) // a caller that is gone is nobody to tell
}

// RetryAfter returns a wait as the header Retry-After has it: whole seconds,
// rounded up, at least 1, so that nobody comes back too early or at once.
func RetryAfter(d time.Duration) string {
	return strconv.FormatInt(max(int64(math.Ceil(d.Seconds())), 1), 10)
}
