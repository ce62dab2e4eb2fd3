package control

import "net/http"

// Problem is what pawl says no with, as the client read it: a problem document
// (RFC 9457). Ask with errors.As.
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
