package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/internal/connector"
)

// Options say how a Hub works. The zero value is the real network.
type Options struct {
	// Listen replaces the network; nil is net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// MaxConns bounds the connections of all addresses together; 0 is MaxConns,
	// or half of Descriptors where that is less.
	MaxConns int
	// Descriptors is how many files the process may have open; 0 asks the system.
	Descriptors uint64
	// Log takes what no caller can be told; nil drops it.
	Log *slog.Logger
}

// Hub shares incoming HTTP listeners. It implements connector.Listeners. Safe
// for concurrent use.
type Hub struct {
	listen func(network, address string) (net.Listener, error)
	log    *slog.Logger
	slots  chan struct{} // one for each open connection

	mu      sync.Mutex
	closed  bool
	servers map[string]*server // by address as configured
	holds   int                // not yet released
	held    []*server          // opened meanwhile

	draining sync.WaitGroup // servers whose last path is gone
	giveUp   context.Context
	abandon  context.CancelFunc
}

var _ connector.Listeners = (*Hub)(nil)

// New returns a Hub without listeners.
func New(o Options) *Hub {
	h := &Hub{listen: o.Listen, log: o.Log, servers: map[string]*server{}}
	if h.listen == nil {
		h.listen = net.Listen
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	n := o.MaxConns
	if n <= 0 {
		n = h.mostConns(o.Descriptors)
	}
	h.slots = make(chan struct{}, n)
	h.giveUp, h.abandon = context.WithCancel(context.Background())
	return h
}

// mostConns bounds the connections so that callers, who may be strangers, never
// take the descriptors that delivering needs.
func (h *Hub) mostConns(limit uint64) int {
	if limit == 0 {
		limit = descriptors()
	}
	if limit == 0 {
		return MaxConns
	}
	n := int(max(1, min(MaxConns, limit/2)))
	if n < fewConns {
		h.log.Warn("the process may open few files, so that it takes few connections; raise LimitNOFILE (ulimit -n)",
			"files", limit, "connections", n)
	}
	return n
}

// errClosed is a Mount after Close.
var errClosed = errors.New("ingress: the listeners are closed")

// Mount serves path at address with handler; see connector.Listeners. Of several
// mounts of a path the newest that is left serves it, so that a reload that is
// taken back leaves the old one in place. The same goes for the TLS
// configuration of the address.
func (h *Hub) Mount(address string, conf *tls.Config, path string, handler http.Handler) (unmount func(), err error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("path %q must begin with a slash", path)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	s := h.servers[address]
	if s == nil {
		if s, err = h.open(address, conf != nil); err != nil {
			if held := h.holder(address); held != "" {
				err = fmt.Errorf("%w; its port is open here at %s, and another host for it needs a restart: close that address first", err, held)
			}
			return nil, err
		}
		h.servers[address] = s
	}
	if s.secure != (conf != nil) {
		now, wanted := "without", "with"
		if s.secure {
			now, wanted = wanted, now
		}
		return nil, fmt.Errorf("%s is open %s tls; to have it %s tls needs a restart: close the address first", address, now, wanted)
	}
	m := &mount{path: path, handler: handler, tls: forServer(conf)}
	s.mounts = append(s.mounts, m)
	s.publish()
	return func() { h.unmount(s, m) }, nil
}

// Hold keeps the callers of addresses that are opened from now on waiting until
// release, which may be called again: nobody meets an address where one path is
// mounted and the next one not yet. Such an address is bound at once, and its
// callers wait in the kernel's queue; those open already are served as ever.
func (h *Hub) Hold() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds++
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.holds--; h.holds > 0 {
			return
		}
		for _, s := range h.held {
			go s.serve(h.log) // one that was closed meanwhile ends at once
		}
		h.held = nil
	})
}

// holder returns the address that is open with the port of the one given, ""
// for none. The caller holds h.mu.
func (h *Hub) holder(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	for _, open := range slices.Sorted(maps.Keys(h.servers)) {
		if _, p, err := net.SplitHostPort(open); err == nil && p == port {
			return open
		}
	}
	return ""
}

// unmount takes m away, and closes its server when it was the last.
func (h *Hub) unmount(s *server, m *mount) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(s.mounts, m)
	if i < 0 {
		return
	}
	s.mounts = slices.Delete(s.mounts, i, i+1)
	s.publish()
	if len(s.mounts) > 0 || h.closed { // closed: Close has it in hand
		return
	}
	// The socket goes at once, so that the address may be opened again.
	delete(h.servers, s.address)
	_ = s.listener.Close()
	h.draining.Go(func() { s.shutdown(h.giveUp) })
}

// Addr returns where address really listens (port 0 becomes a real one), or
// nil where nothing is mounted.
func (h *Hub) Addr(address string) net.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.servers[address]; s != nil {
		return s.listener.Addr()
	}
	return nil
}

// Close stops listening at once, waits until every request in flight is
// answered, and cuts the connections that are left when ctx ends, which is
// then the error. Calling it again waits again.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		for _, s := range h.servers {
			_ = s.listener.Close()
			h.draining.Go(func() { s.shutdown(h.giveUp) })
		}
		clear(h.servers)
	}
	h.mu.Unlock()

	done := make(chan struct{})
	go func() { h.draining.Wait(); close(done) }()
	select {
	case <-done:
		h.abandon()
		return nil
	case <-ctx.Done():
		h.abandon() // cuts what is left: the drain ends now
		<-done
		return fmt.Errorf("requests were still in flight: %w", ctx.Err())
	}
}
