package problem

import (
	"net/http"
	"strings"
)

// ExactPaths serves with h what has a plain path, and answers 404 where a part of
// the path is empty, "." or "..": http.ServeMux would send the caller on to the
// path without it, and so to another call than the one that a name was left out
// of.
func ExactPaths(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part, plain := oddPart(r.URL.EscapedPath())
		if plain {
			h.ServeHTTP(w, r)
			return
		}
		detail := "a part of the path is empty; is a name missing?"
		if part != "" {
			detail = "a part of the path is " + part + ", which is no name"
		}
		Document{Type: NotFound, Detail: detail}.Write(w)
	})
}

// oddPart returns the first part of a path that a mux would take out. The end may
// be empty: a path that ends with a slash is one of its own.
func oddPart(path string) (part string, none bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, p := range parts {
		if p == "." || p == ".." || p == "" && i < len(parts)-1 {
			return p, false
		}
	}
	return "", true
}
