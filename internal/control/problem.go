package control

import (
	"encoding/json/v2"
	"net/http"
)

// Problem is an error as a problem document (RFC 9457). A handler writes one
// with WriteProblem, the client returns it as its error; ask with errors.As.
type Problem struct {
	// Type names the kind of problem for programs: "urn:pawl:problem:not-found".
	Type string `json:"type,omitempty"`
	// Title is the kind in words.
	Title string `json:"title,omitempty"`
	// Status is the HTTP status, 400 or more.
	Status int `json:"status"`
	// Detail says what is wrong this time and what to do.
	Detail string `json:"detail,omitempty"`
}

// Error returns the detail, or the title where there is none.
func (p *Problem) Error() string {
	switch {
	case p.Detail != "":
		return p.Detail
	case p.Title != "":
		return p.Title
	}
	return http.StatusText(p.Status)
}

// problemType is the media type of a problem document.
const problemType = "application/problem+json"

// WriteProblem answers with p. A status below 400 becomes 500.
func WriteProblem(w http.ResponseWriter, p Problem) {
	if p.Status < http.StatusBadRequest {
		p.Status = http.StatusInternalServerError
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	// The caller may be gone; there is nobody to tell.
	_ = json.MarshalWrite(w, p)
}
