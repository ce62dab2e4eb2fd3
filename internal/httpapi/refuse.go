package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// When to come back, in what a 503 says.
const (
	// soon is for what passes by itself: a restart, a lock, a failed commit.
	soon = 2 * time.Second
	// later is for a full disk, which somebody has to see first.
	later = 30 * time.Second
)

// errKinds is store.ErrTooMany of jobs, errGates of gates.
var (
	errKinds = errors.New("nothing was made: the store holds as many kinds of jobs as it keeps, and these would add to them. " +
		"Jobs differ in kind by queue, task, version, endpoint and priority: put what differs from job to job into the payload or a tag")
	errReplays       = errors.New("nothing was begun: as many replays are open as may be; wait for some or cancel them")
	errSubscriptions = errors.New("nothing was stored: there are as many subscriptions as may be; delete some")
	errDefinitions   = errors.New("nothing was stored: there are as many of these as the store keeps; delete some")
	errGates         = errors.New("nothing was paused: as many queues and endpoints are paused as may be; resume some")
)

// errStopping: the server is about to stop, and begins no wait any more.
var errStopping = errors.New("the server is stopping")

// refusal is an answer that a handler gives as an error.
type refusal struct{ problem.Document }

// Error is the detail.
func (r *refusal) Error() string { return r.Detail }

// invalid is a 422 of one parameter: of the query, or a header.
func invalid(parameter, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	return &refusal{problem.Document{Type: problem.Invalid, Detail: parameter + " " + message,
		Errors: []problem.Fault{{Parameter: parameter, Message: message}}}}
}

// forbidden is a 403.
func forbidden(format string, args ...any) error {
	return &refusal{problem.Document{Type: problem.Forbidden, Detail: fmt.Sprintf(format, args...)}}
}

// notFound is a 404.
func notFound(format string, args ...any) error {
	return &refusal{problem.Document{Type: problem.NotFound, Detail: fmt.Sprintf(format, args...)}}
}

// refuse answers with the problem that the error is.
func (a *api) refuse(q *request, err error) {
	doc, wait := explain(err)
	if doc.Type == problem.Internal {
		a.log.Error("a request could not be served", "method", q.Method, "path", q.URL.Path, "error", err)
	}
	if wait > 0 {
		q.w.Header().Set("Retry-After", problem.RetryAfter(wait))
	}
	if doc.Type == problem.Unauthenticated {
		q.w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	doc.Write(q.w)
}

// explain says what an error is for the caller, and when to come back.
func explain(err error) (problem.Document, time.Duration) {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.Document, 0
	}
	if doc, ok := explainInput(err); ok {
		return doc, 0
	}
	if doc, ok := explainCrowd(err); ok {
		return doc, soon
	}
	switch {
	case errors.Is(err, jobserver.ErrUnauthenticated):
		return problem.Document{Type: problem.Unauthenticated, Detail: err.Error()}, 0
	case errors.Is(err, jobserver.ErrManagedByFile):
		return problem.Document{Type: problem.ManagedByFile, Detail: err.Error()}, 0
	case errors.As(err, new(*jobserver.LimitedError)):
		return problem.Document{Type: problem.Forbidden, Detail: err.Error()}, 0
	case errors.As(err, new(*jobserver.UnknownError)):
		return problem.Document{Type: problem.NotFound, Detail: err.Error()}, 0
	case errors.Is(err, store.ErrNotFound):
		return problem.Document{Type: problem.NotFound, Detail: "there is no such thing, or not any more"}, 0
	case errors.Is(err, store.ErrReserve):
		return unavailable("nothing was written: the store's disk is full but for what is kept for claims and reports, which still work"), later
	case errors.Is(err, store.ErrFull):
		return unavailable("nothing was written: the store's disk is full"), later
	case errors.Is(err, store.ErrUnknown):
		return unavailable("whether it was written is not known. A repeat with the same Idempotency-Key, claim_id or lease " +
			"is safe: it finds what was written. One without may do it twice"), soon
	case errors.Is(err, errRemoved):
		return unavailable(errRemoved.Error()), soon
	case errors.Is(err, store.ErrClosed), errors.Is(err, errStopping):
		return unavailable("nothing was done: the server is stopping"), soon
	case errors.Is(err, store.ErrUnavailable):
		return unavailable("nothing was written: the store can't write at the moment"), soon
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// A caller that only closed its sending half still reads this.
		return unavailable("the call was given up before it was done: the connection ended, or the server is stopping"), soon
	}
	return problem.Document{Type: problem.Internal, Detail: "the server failed; its log says why"}, 0
}

// explainCrowd says that there is no room for one more, which passes as others are
// done.
func explainCrowd(err error) (problem.Document, bool) {
	switch {
	case errors.Is(err, store.ErrUnknown): // jobs that could not be given back: that weighs more
	case errors.Is(err, errLarge):
		return unavailable(errLarge.Error()), true
	case errors.Is(err, errStreams):
		return unavailable(errStreams.Error()), true
	case errors.Is(err, store.ErrBusy):
		return unavailable("nothing was claimed: too many claims wait already, of this key or of all; one with wait 0s is served"), true
	}
	return problem.Document{}, false
}

func unavailable(detail string) problem.Document {
	return problem.Document{Type: problem.Unavailable, Detail: detail}
}

// explainInput says what is wrong with what the caller sent.
func explainInput(err error) (problem.Document, bool) {
	var (
		broken   *wirejson.Error
		size     *wirejson.SizeError
		wrong    *jobserver.InvalidError
		conflict *store.ConflictError
	)
	switch {
	case errors.As(err, &broken):
		return problem.Document{Type: problem.BadRequest, Detail: "the body can't be taken: " + broken.Error(),
			Errors: []problem.Fault{{Pointer: broken.Pointer, Offset: &broken.Offset, Message: broken.Message}}}, true
	case errors.As(err, &size):
		message := fmt.Sprintf("has %d bytes; %d are allowed", size.Size, size.Max)
		return problem.Document{Type: problem.TooLarge, Detail: size.Error(),
			Errors: []problem.Fault{{Pointer: size.Pointer, Message: message}}}, true
	case errors.As(err, &wrong):
		return invalidDocument(wrong), true
	case errors.Is(err, errKinds), errors.Is(err, errGates), slices.Contains([]error{errReplays, errDefinitions, errSubscriptions}, err):
		return problem.Document{Type: problem.Invalid, Detail: err.Error()}, true
	case errors.As(err, &conflict):
		made := ""
		if conflict.ID != "" {
			made = ", which made " + conflict.ID
		}
		return problem.Document{Type: problem.Conflict, Job: conflict.ID,
			Detail: fmt.Sprintf("the idempotency key %q was used for another request%s; "+
				"a new job needs a new key, a repeat the same request", conflict.Key, made)}, true
	}
	return problem.Document{}, false
}

// invalidDocument tells every problem of a request.
func invalidDocument(e *jobserver.InvalidError) problem.Document {
	doc := problem.Document{Type: problem.Invalid, Detail: e.Error(), Errors: make([]problem.Fault, 0, len(e.Problems))}
	for _, p := range e.Problems {
		doc.Errors = append(doc.Errors, problem.Fault{Pointer: p.Pointer, Message: p.Message})
	}
	return doc
}

// invalidFound is the error of what was found while reading, nil for nothing.
func invalidFound(found wirejson.Found) error {
	if len(found.Problems) == 0 {
		return nil
	}
	e := &jobserver.InvalidError{More: found.More}
	for _, p := range found.Problems {
		e.Problems = append(e.Problems, jobserver.Problem{Pointer: p.Pointer, Message: p.Message})
	}
	return e
}

// tooLarge is the 413 of a whole request.
func tooLarge() error {
	return &refusal{problem.Document{Type: problem.TooLarge,
		Detail: fmt.Sprintf("the request has more than %d bytes; send fewer jobs or reports at once", MaxRequest)}}
}

// unsupported is a 415.
func unsupported(w http.ResponseWriter, detail string) error {
	w.Header().Set("Accept-Encoding", "identity")
	return &refusal{problem.Document{Type: problem.UnsupportedMedia, Detail: detail}}
}
