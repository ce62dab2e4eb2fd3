package adminapi

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/relay"
)

// Options are what an API looks at and acts on. All fields must be set but
// Jobs.
type Options struct {
	RelayName, Version string
	PID                int
	Started            time.Time
	Relay              *relay.Relay
	Fleet              *deliver.Fleet
	Letters            deadletter.Store
	Tail               *Tail
	Levers             *Levers
	Events             event.Sink
	// Jobs returns how the job server stands; nil without one.
	Jobs func(ctx context.Context) (JobsStatus, error)
	// Reload loads the configuration anew and returns its number. An error
	// says everything that is wrong with it, and nothing has changed.
	Reload func(ctx context.Context) (generation int, err error)
	// HasDestination says whether a destination of the name is configured.
	HasDestination func(name string) bool
	// Send brings one message to a destination over its whole path.
	Send func(ctx context.Context, to string, m *message.Message) (deliver.Result, error)
	// WriteLetter keeps a dead letter in the configured write chain.
	WriteLetter func(ctx context.Context, l *message.DeadLetter) error
}

// API serves status, levers and dead letters.
type API struct{ opts Options }

// New returns an API.
func New(o Options) *API { return &API{o} }

// call is a row of the table of calls.
type call struct {
	method, path string
	serve        func(a *API, w http.ResponseWriter, r *http.Request)
}

// calls are all of them. The job API beside them has none of these paths.
func calls() []call {
	return []call{
		{"GET", "/v3/status", (*API).status},
		{"GET", "/v3/tail", (*API).tail},
		{"POST", "/v3/reload", (*API).reload},
		{"POST", "/v3/pause", (*API).pause},
		{"POST", "/v3/resume", (*API).resume},
		{"POST", "/v3/breaker", (*API).forceBreaker},
		{"POST", "/v3/hold/clear", (*API).clearHold},
		{"POST", "/v3/rate", (*API).setRate},
		{"POST", "/v3/send", (*API).send},
		{"GET", "/v3/dead-letters", (*API).listLetters},
		{"GET", "/v3/dead-letters/{id}", (*API).getLetters},
		{"POST", "/v3/dead-letters/replay", (*API).replayLetters},
		{"POST", "/v3/dead-letters/purge", (*API).purgeLetters},
	}
}

// Paths returns the paths of every call, each once, in the patterns of
// http.ServeMux.
func Paths() []string {
	var all []string
	for _, c := range calls() {
		if !slices.Contains(all, c.path) {
			all = append(all, c.path)
		}
	}
	return all
}

// Handler returns the handler of every call below /v3/.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, c := range calls() {
		mux.HandleFunc(c.method+" "+c.path, func(w http.ResponseWriter, r *http.Request) { c.serve(a, w, r) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, problem.NotFound, fmt.Sprintf("there is no %s %s", r.Method, r.URL.Path))
	})
	return problem.ExactPaths(mux)
}

// maxRequest bounds a request's body in bytes: a message of the largest
// size that sources take by default, in base64, with room for its story.
const maxRequest = 64 << 20

// decode reads a request's body strictly; what is wrong with it has been
// answered when it returns false.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			fail(w, problem.TooLarge, fmt.Sprintf("the request is longer than %d bytes", maxRequest))
			return false
		}
		fail(w, problem.BadRequest, "the request broke off")
		return false
	}
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true), noBlanks); err != nil {
		fail(w, problem.BadRequest, explainJSON(err))
		return false
	}
	return true
}

func fail(w http.ResponseWriter, t problem.Type, detail string) {
	problem.Document{Type: t, Detail: detail}.Write(w)
}

func answer(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v, jsontext.Multiline(false))
	if err != nil {
		http.Error(w, "the answer could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a caller that is gone learns nothing
}

// takeTime lifts the listener's deadline for the answer: a stream lasts as long
// as its reader wants, a delivery as long as its destination's policy says. A
// listener without deadlines has none to lift.
func takeTime(w http.ResponseWriter) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// stream writes objects line by line, each as soon as it is there.
type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func newStream(w http.ResponseWriter) (*stream, error) {
	if err := takeTime(w); err != nil {
		return nil, err
	}
	s := &stream{w, http.NewResponseController(w)}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	return s, s.c.Flush()
}

func (s *stream) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.raw(text)
}

func (s *stream) raw(text []byte) error {
	if _, err := s.w.Write(append(text, '\n')); err != nil {
		return err
	}
	return s.c.Flush()
}

// tail streams lines until the reader goes away.
func (a *API) tail(w http.ResponseWriter, r *http.Request) {
	watch := WatchSettled
	params, err := query(r, "events")
	if err != nil {
		fail(w, problem.BadRequest, err.Error())
		return
	}
	switch q := params.Get("events"); q {
	case "", "settled":
	case "all":
		watch = WatchAll
	default:
		fail(w, problem.BadRequest, fmt.Sprintf("events is %q; it must be settled or all", q))
		return
	}
	lines, end := a.opts.Tail.Watch(watch)
	defer end()
	s, err := newStream(w)
	if err != nil {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case l := <-lines:
			if err := s.line(l); err != nil {
				return
			}
		}
	}
}

// reload loads the configuration anew.
func (a *API) reload(w http.ResponseWriter, r *http.Request) {
	generation, err := a.opts.Reload(r.Context())
	if err != nil {
		fail(w, problem.BadRequest, err.Error())
		return
	}
	answer(w, Reloaded{generation})
}

// Reloaded is the answer to a reload.
type Reloaded struct {
	Generation int `json:"generation"`
}
