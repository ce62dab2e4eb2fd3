package httpapi

import "github.com/pawlhq/pawl/internal/store"

// Call is a row of the table of calls.
type Call struct {
	Method, Path string
	// Scopes are those of which a key needs one; admin includes each. None: the
	// call needs no key.
	Scopes  []store.Scope
	Summary string
}

// Calls returns the table of calls, in the order of the reference.
func Calls() []Call { return nil }

// Document returns the OpenAPI 3.1 document of the calls, for pawl's version.
func Document(version string) []byte { return nil }
