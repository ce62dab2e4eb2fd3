package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	switch {
	case errors.Is(err, jobserver.ErrUnauthenticated):
		return problem.Document{Type: problem.Unauthenticated, Detail: err.Error()}, 0
	case errors.Is(err, store.ErrNotFound):
		return problem.Document{Type: problem.NotFound, Detail: "there is no such thing, or not any more"}, 0
	case errors.Is(err, store.ErrReserve):
		return unavailable("nothing was written: the store's disk is full but for what is kept for claims and reports, which still work"), later
	case errors.Is(err, store.ErrFull):
		return unavailable("nothing was written: the store's disk is full"), later
	case errors.Is(err, store.ErrUnknown):
		return unavailable("whether it was written is not known. A repeat with the same Idempotency-Key, claim_id or lease " +
			"is safe: it finds what was written. One without may do it twice"), soon
	case errors.Is(err, errRemoved), errors.Is(err, errLarge):
		return unavailable(err.Error()), soon
	case errors.Is(err, store.ErrClosed):
		return unavailable("nothing was written: the server is stopping"), soon
	case errors.Is(err, store.ErrUnavailable):
		return unavailable("nothing was written: the store can't write at the moment"), soon
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// A caller that only closed its sending half still reads this.
		return unavailable("the call was given up before it was done: the connection ended, or the server is stopping"), soon
	}
	return problem.Document{Type: problem.Internal, Detail: "the server failed; its log says why"}, 0
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
