package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

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
	// Stopping ends every long poll when it is done, with what there is; nil
	// never does. Cancel it before the listener is shut down, which waits for
	// every answer.
	Stopping context.Context
}

// api serves the calls.
type api struct {
	server   *jobserver.Server
	store    store.Store
	log      *slog.Logger
	stopping context.Context
	document []byte
	memory   *memory
	streams  *places
}

func newAPI(o Options, m *memory) *api {
	a := &api{server: o.Server, store: o.Store, log: o.Log, stopping: o.Stopping, memory: m, streams: openStreams}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.stopping == nil {
		a.stopping = context.Background()
	}
	return a
}

// Handler serves every call of Calls, and answers any other path as one that is
// not there. Safe for concurrent use.
func Handler(o Options) http.Handler { return handlerIn(o, process) }

// handlerIn is the Handler whose large requests fill m.
func handlerIn(o Options, m *memory) http.Handler {
	a := newAPI(o, m)
	a.document = Document(o.Version)
	return a.mux(calls)
}

// Local serves what only the control socket may ask, where no key is needed:
//
//	GET    /v3/keys         every key: Keys
//	POST   /v3/keys         KeyRequest makes one: 201, NewKey
//	DELETE /v3/keys/{name}  revokes one, by name or id: 204
//	POST   /v3/backup       BackupRequest copies the store: BackedUp
func Local(o Options) http.Handler { return newAPI(o, process).mux(localCalls) }

// mux routes the calls: by path, then by method, so that a wrong method is
// answered with those that there are.
func (a *api) mux(table []call) http.Handler {
	mux := http.NewServeMux()
	paths := map[string]methods{}
	for i := range table {
		c := &table[i]
		if paths[c.Path] == nil {
			paths[c.Path] = methods{}
		}
		paths[c.Path][c.Method] = a.handler(c)
		if c.Method == http.MethodGet {
			paths[c.Path][http.MethodHead] = paths[c.Path][c.Method]
		}
	}
	for path, m := range paths {
		mux.Handle(path, m)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem.Document{Type: problem.NotFound, Detail: fmt.Sprintf("there is no %s %s", cut(r.Method), cut(r.URL.Path))}.Write(w)
	})
	return problem.ExactPaths(mux)
}

// methods are what serves one path, by method.
type methods map[string]http.HandlerFunc

// ServeHTTP hands the request to the handler of its method.
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler, ok := m[r.Method]; ok {
		handler(w, r)
		return
	}
	allow := strings.Join(slices.Sorted(maps.Keys(m)), ", ")
	w.Header().Set("Allow", allow)
	problem.Document{Type: problem.MethodNotAllowed, Detail: fmt.Sprintf("%s takes %s, not %s", cut(r.URL.Path), allow, cut(r.Method))}.Write(w)
}

// handler checks who calls, serves the call and answers for what failed.
func (a *api) handler(c *call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, w: w, hold: hold{of: a.memory}}
		defer q.hold.shrink(0)
		err := a.admit(q, c)
		if err == nil && r.URL.RawQuery != "" && !c.asks() {
			err = q.query().err()
		}
		if err == nil {
			err = c.serve(a, q)
		}
		if err != nil {
			a.refuse(q, err)
		}
	}
}

// admit lets a request through whose key may make the call.
func (a *api) admit(q *request, c *call) error {
	if len(c.Scopes) == 0 {
		return nil
	}
	scheme, secret, _ := strings.Cut(q.Header.Get("Authorization"), " ")
	if secret == "" || !strings.EqualFold(scheme, "Bearer") {
		return &refusal{problem.Document{Type: problem.Unauthenticated,
			Detail: "the call needs an API key: send Authorization: Bearer pawl_…; pawl keys create makes one"}}
	}
	q.secret = strings.TrimSpace(secret)
	who, err := a.server.Authenticate(q.Context(), q.secret)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(c.Scopes, who.Has) {
		return forbidden("the key %q has the scope %s; the call needs %s", who.Name, scopeList(who.Scopes, "and"), scopeList(c.Scopes, "or"))
	}
	q.who, q.hold.key = who, who.ID
	return nil
}

// good returns why a key that was good when its call began is not any more, revoked
// or expired. Who waited is told nothing then. A key that can't be looked up is good
// as it was.
func (a *api) good(ctx context.Context, q *request) error {
	if _, bad := a.server.Authenticate(ctx, q.secret); errors.Is(bad, jobserver.ErrUnauthenticated) {
		return bad
	}
	return nil
}

// scopeList writes scopes as a sentence has them.
func scopeList(scopes []store.Scope, word string) string {
	var b strings.Builder
	for i, s := range scopes {
		switch {
		case i > 0 && i == len(scopes)-1:
			b.WriteString(" " + word + " ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String()
}

// sees refuses queues that the key is not for. It comes before anything else
// that is said of them. One that was not named is another fault, told as such.
func (q *request) sees(queues ...string) error {
	for _, queue := range queues {
		if queue != "" && !q.who.Sees(queue) {
			return forbidden("the key %q is limited to the queues %s; %q is not among them",
				q.who.Name, strings.Join(q.who.Queues, ", "), cut(queue))
		}
	}
	return nil
}
