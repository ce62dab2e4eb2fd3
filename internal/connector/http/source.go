package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	nethttp "net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/ingress"
	"github.com/pawlhq/pawl/internal/problem"
)

// beginWait is how long a request waits for Run to begin: between Open and Run
// lies a moment at the start and at a reload, in which nobody must be turned
// away.
const beginWait = 10 * time.Second

// SourceKind declares the source of type http.
func SourceKind() connector.SourceKind {
	return connector.SourceKind{
		Type: "http",
		Doc:  "Listens for HTTP requests; each is a message, answered once it is settled.",
		New:  newSourceSettings,
		Open: func(s connector.Settings, env connector.Env) (connector.Source, error) {
			settings, ok := s.(*SourceSettings)
			if !ok {
				return nil, fmt.Errorf("http source: settings of type %T", s)
			}
			return OpenSource(settings, env)
		},
	}
}

// Source takes messages from HTTP requests.
type Source struct {
	name       string
	methods    []string
	allow      string // the methods as the header Allow has them
	verifier   verifier
	drop       map[string]bool // headers that are not kept, canonical names
	preset     string
	ids        idRule
	ackTimeout time.Duration
	maxBody    int
	bodies     *budget // for those that are arriving
	answer     reply
	stored     reply // of a message that is durable and not delivered yet
	log        *slog.Logger
	emit       func(event.Event)

	unmount  func()
	ownHub   *ingress.Hub // nil where the listeners are shared
	closed   chan struct{}
	closing  sync.Once
	begun    chan struct{} // closed by Run, after handler is set
	handler  connector.Handler
	inFlight flight
}

// OpenSource mounts a source of checked settings at its address and path.
// Requests wait for Run.
func OpenSource(settings *SourceSettings, env connector.Env) (*Source, error) {
	v, err := newVerifier(settings.Auth)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	conf, err := settings.TLS.Config()
	if err != nil {
		return nil, err
	}
	s := &Source{
		name:       env.Name,
		methods:    settings.Methods,
		allow:      strings.Join(settings.Methods, ", "),
		verifier:   v,
		drop:       map[string]bool{},
		ids:        newIDRule(settings),
		ackTimeout: settings.AckTimeout.D(),
		maxBody:    int(settings.MaxBody),
		bodies:     newBudget(readBudget),
		answer:     newReply(settings.Answer, nethttp.StatusOK),
		stored:     newReply(settings.Answer, nethttp.StatusAccepted),
		log:        env.Logger(),
		emit:       env.Emit,
		closed:     make(chan struct{}),
		begun:      make(chan struct{}),
	}
	if settings.Auth != nil {
		s.preset = settings.Auth.Preset
	}
	for _, name := range v.headers() {
		s.drop[nethttp.CanonicalHeaderKey(name)] = true
	}
	listeners := env.Listeners
	if listeners == nil {
		s.ownHub = ingress.New(ingress.Options{Listen: env.Listen, Log: env.Log})
		listeners = s.ownHub
	}
	unmount, err := listeners.Mount(settings.Listen, conf, settings.Path, s)
	if err != nil {
		return nil, err
	}
	s.unmount = sync.OnceFunc(unmount)
	return s, nil
}

// Run implements connector.Source. While it waits for what is in flight, new
// requests are answered 503 with Retry-After. So they are after Run, until
// Close, where the listener is shared: others may still be at work there, and a
// stop must not look like a path that nobody serves.
func (s *Source) Run(ctx context.Context, h connector.Handler) error {
	s.handler = h
	close(s.begun)
	s.emit(event.Event{Kind: event.SourceUp, At: time.Now(), Source: s.name})
	select {
	case <-ctx.Done():
	case <-s.closed:
	}
	select {
	case <-s.inFlight.stop():
	case <-s.closed:
	}
	if s.ownHub != nil {
		s.unmount()
		// The last answers may still be on their way out.
		out, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		if err := s.ownHub.Close(out); err != nil {
			s.log.Warn("connections were cut", "source", s.name, "error", err)
		}
	}
	return nil
}

// Close implements connector.Source. Requests in flight lose their answer only
// where the listener is the source's own.
func (s *Source) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.inFlight.stop()
		s.unmount()
		if s.ownHub != nil {
			now, cancel := context.WithCancel(context.Background())
			cancel()
			_ = s.ownHub.Close(now) // says that something was in flight, which is what Close means
		}
	})
	return nil
}

// ServeHTTP takes one request. The listener calls it.
func (s *Source) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	if !slices.Contains(s.methods, r.Method) {
		w.Header().Set("Allow", s.allow)
		s.refuse(w, refusal{problem.MethodNotAllowed, "this source takes " + s.allow})
		return
	}
	if !s.enter(r.Context()) {
		s.refuse(w, refusal{problem.Unavailable, "this source is stopping; send it again"})
		return
	}
	in, err := s.take(r)
	if err != nil {
		s.inFlight.leave()
		s.refuse(w, asRefusal(err))
		return
	}
	if in.handshake != nil {
		s.inFlight.leave()
		in.handshake.write(w)
		s.emit(event.Event{Kind: event.Settled, At: time.Now(), Source: s.name, Settlement: event.SettledFiltered})
		return
	}
	s.settle(w, r, in.delivery) // leaves when the handler is done
}

// enter takes part in what Run waits for. It waits for Run to begin.
func (s *Source) enter(ctx context.Context) bool {
	select {
	case <-s.begun:
	default:
		late := time.NewTimer(beginWait)
		defer late.Stop()
		select {
		case <-s.begun:
		case <-s.closed:
			return false
		case <-ctx.Done():
			return false
		case <-late.C:
			return false
		}
	}
	return s.inFlight.enter()
}

// refusal is a request that is no message.
type refusal struct {
	typ    problem.Type
	detail string
}

func (r refusal) Error() string { return r.detail }

func refuse(typ problem.Type, format string, args ...any) error {
	return refusal{typ, fmt.Sprintf(format, args...)}
}

// asRefusal returns err as a refusal; every error of take is one.
func asRefusal(err error) refusal {
	var r refusal
	if errors.As(err, &r) {
		return r
	}
	return refusal{problem.BadRequest, "the request could not be read"}
}

// refuse answers a request that is no message.
func (s *Source) refuse(w nethttp.ResponseWriter, r refusal) {
	how := event.SettledInvalid
	switch r.typ {
	case problem.Unauthenticated:
		w.Header().Set("WWW-Authenticate", s.verifier.challenge())
	case problem.UnsupportedMedia:
		w.Header().Set("Accept-Encoding", "gzip")
	case problem.Unavailable:
		w.Header().Set("Retry-After", problem.RetryAfter(0))
		how = event.SettledRefused
	default: // no more to say
	}
	problem.Document{Type: r.typ, Detail: r.detail}.Write(w)
	s.emit(event.Event{
		Kind: event.Settled, At: time.Now(), Source: s.name,
		Settlement: how, Error: string(r.typ) + ": " + r.detail,
	})
}

// flight counts requests from enter to leave. The zero value is ready.
type flight struct {
	mu      sync.Mutex
	open    int
	stopped chan struct{} // nil until stop
}

// enter counts one more, unless stop was called.
func (f *flight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped != nil {
		return false
	}
	f.open++
	return true
}

func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	if f.open == 0 && f.stopped != nil {
		close(f.stopped)
	}
}

// stop lets nobody enter any more. What it returns is closed once all have
// left.
func (f *flight) stop() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped == nil {
		f.stopped = make(chan struct{})
		if f.open == 0 {
			close(f.stopped)
		}
	}
	return f.stopped
}
