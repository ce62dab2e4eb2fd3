package control

import (
	"fmt"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/internal/problem"
)

// Version is the protocol's. It changes when a command of the version before
// would misunderstand an answer.
const Version = "1"

// The header by which either side says its version, and the one by which the
// server says which pawl it is, for the sentence that a person reads.
const (
	versionHeader = "Pawl-Control-Version"
	serverHeader  = "Pawl-Version"
)

// NewServer returns a server of h for a listener of Listen, with the bounds
// that a local peer needs. Answers may be streams, so writing has no limit in
// time; h must watch the request's context. build is the version of this
// binary.
func NewServer(h http.Handler, build string) *http.Server {
	return &http.Server{
		Handler:           Handler(h, build),
		ReadHeaderTimeout: 10 * time.Second, // a command sends its header at once
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10, // a command sends five short ones
	}
}

// Handler wraps h with the check of the protocol's version. build is the
// version of this binary.
func Handler(h http.Handler, build string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(versionHeader, Version)
		w.Header().Set(serverHeader, build)
		if v := r.Header.Get(versionHeader); v != Version {
			problem.Document{Type: problem.ControlVersion, Detail: mismatch(build, Version, v)}.Write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// mismatch is what a person reads when command and relay do not fit.
func mismatch(build, server, client string) string {
	if client == "" {
		client = "none"
	}
	return fmt.Sprintf("the running pawl is %s and speaks control version %s, this command speaks %s; "+
		"use the command of the same release, or restart pawl with this one", build, server, client)
}
