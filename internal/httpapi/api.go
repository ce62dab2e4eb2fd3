package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// Options are what the API works with.
type Options struct {
	Server *jobserver.Server
	// Store is the one that the server stands on: its gates and counts are read
	// and moved here.
	Store store.Store
	// Version is pawl's, for the OpenAPI document.
	Version string
	// Log is for what no caller is told; nil drops it.
	Log *slog.Logger
	// Stopping ends every long poll when it is closed, with what there is; nil
	// never does.
	Stopping <-chan struct{}
}

// Handler serves every call of Calls. Safe for concurrent use.
func Handler(Options) http.Handler { return nowhere() }

// Local serves what only the control socket may ask, where no key is needed:
//
//	GET    /v3/keys         every key: Keys
//	POST   /v3/keys         KeyRequest makes one: 201, NewKey
//	DELETE /v3/keys/{name}  revokes one, by name or id: 204
//	POST   /v3/backup       BackupRequest copies the store: BackedUp
func Local(Options) http.Handler { return nowhere() }

// nowhere answers what there is not.
func nowhere() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		problem.Document{Type: problem.NotFound, Detail: fmt.Sprintf("there is no %s %s", r.Method, r.URL.Path)}.Write(w)
	})
}
