package ingress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/problem"
)

// What a caller may take before it is cut off.
const (
	// ReadHeaderTimeout is for the header: ten seconds are plenty on any link
	// and keep a caller that sends a byte a minute from holding a connection.
	ReadHeaderTimeout = 10 * time.Second
	// TransferTimeout is for reading the request from its first byte on, the
	// body included.
	TransferTimeout = 30 * time.Second
	// AnswerTimeout is for the answer, from the end of the header on: ten
	// seconds more, so that a caller whose body was cut can still be told. A
	// handler that waits longer moves its deadlines with
	// http.ResponseController.
	AnswerTimeout = TransferTimeout + 10*time.Second
	// IdleTimeout closes a connection that nobody uses. Two minutes outlast
	// the pools of common clients (Go 90 s, Node 5 s), so that it is the client
	// that closes and no request meets a closing connection.
	IdleTimeout = 2 * time.Minute
	// MaxHeaderBytes bounds the request line and the header: 8 KiB is what
	// most servers take, signed and traced webhooks may need more. A longer
	// one is answered 431. net/http allows itself 4 KiB on top.
	MaxHeaderBytes = 64 << 10
	// MaxConns bounds connections, since each costs a descriptor, a goroutine
	// and about 20 KiB. Further callers wait in the kernel's queue. 16,384 is
	// a quarter of the usual hard limit on descriptors.
	MaxConns = 16384
	// fewConns is what a relay wants to have: fewer are warned of at the start.
	fewConns = 1024
)

// server is one address. Its mounts are guarded by the Hub's lock; requests
// read the published table and never lock.
type server struct {
	address  string
	secure   bool
	listener net.Listener
	http     *http.Server
	mounts   []*mount // oldest first
	table    atomic.Pointer[table]
	tls      atomic.Pointer[tls.Config]
}

type mount struct {
	path    string
	handler http.Handler
	tls     *tls.Config
}

// table finds the handler of a path.
type table struct {
	exact map[string]http.Handler
	below []subtree // the longest path first
}

type subtree struct {
	path    string // ends in a slash
	handler http.Handler
}

// open begins to listen at address. The caller holds h.mu.
func (h *Hub) open(address string, secure bool) (*server, error) {
	ln, err := h.listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("can't listen at %s: %w", address, err)
	}
	s := &server{address: address, secure: secure}
	s.table.Store(&table{})
	s.listener = &limited{Listener: ln, slots: h.slots, closed: make(chan struct{}), full: h.tellFull}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: ReadHeaderTimeout,
		ReadTimeout:       TransferTimeout,
		WriteTimeout:      AnswerTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          log.New(serverLog{h.log}, "", 0),
	}
	if secure {
		s.http.TLSConfig = &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return s.tls.Load(), nil
			},
		}
	}
	if h.holds > 0 {
		h.held = append(h.held, s)
	} else {
		go s.serve(h.log)
	}
	return s, nil
}

// serve answers callers until the listener is closed.
func (s *server) serve(log *slog.Logger) {
	serve := s.http.Serve
	if s.secure {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		log.Error("a listener failed", "address", s.address, "error", err)
	}
}

// forServer makes a source's TLS configuration one that a client may be
// answered with.
func forServer(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	if len(c.NextProtos) == 0 {
		c.NextProtos = []string{"h2", "http/1.1"}
	}
	return c
}

// publish makes the mounts what requests see.
func (s *server) publish() {
	newest := map[string]http.Handler{}
	for _, m := range s.mounts {
		newest[m.path] = m.handler
		s.tls.Store(m.tls)
	}
	t := &table{exact: map[string]http.Handler{}}
	for path, handler := range newest {
		if strings.HasSuffix(path, "/") {
			t.below = append(t.below, subtree{path, handler})
		} else {
			t.exact[path] = handler
		}
	}
	slices.SortFunc(t.below, func(a, b subtree) int { return len(b.path) - len(a.path) })
	s.table.Store(t)
}

// ServeHTTP hands the request to the handler of its path.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := s.table.Load()
	if handler := t.find(r.URL.Path); handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	if t.empty() {
		// A request that slipped in on an open connection while the address
		// closes. A 404 might make its caller give up for good.
		w.Header().Set("Retry-After", problem.RetryAfter(0))
		problem.Document{Type: problem.Unavailable, Detail: "this listener is closing; send it again"}.Write(w)
		return
	}
	problem.Document{Type: problem.NotFound, Detail: "no source takes requests at this path"}.Write(w)
}

func (t *table) find(path string) http.Handler {
	if h, ok := t.exact[path]; ok {
		return h
	}
	for _, b := range t.below {
		if strings.HasPrefix(path, b.path) {
			return b.handler
		}
	}
	return nil
}

func (t *table) empty() bool { return len(t.exact) == 0 && len(t.below) == 0 }

// shutdown waits for what is in flight; the end of ctx cuts it.
func (s *server) shutdown(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

// tellFull logs that the connections are used up.
func (h *Hub) tellFull() {
	h.log.Warn("all connections are in use; further callers wait", "max", cap(h.slots))
}

// serverLog passes on what net/http has to say: a handler that panicked is an
// error, the rest (broken handshakes, callers that talk nonsense) no more than
// a note, since any stranger can cause it.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(b []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.Contains(b, []byte("panic serving")) {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, "incoming http", "detail", string(bytes.TrimSpace(b)))
	return len(b), nil
}
