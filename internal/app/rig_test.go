package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
)

// world is what an App under test runs in: its configuration, a network whose
// addresses are made up, and connectors that are counted.
type world struct {
	*testing.T
	folder string

	mu     sync.Mutex
	log    bytes.Buffer
	taken  map[string]bool   // addresses that can't be listened at
	real   map[string]string // real addresses by made-up ones
	open   map[string]int    // listeners open by made-up address
	inUse  map[string]int    // open connectors by destination
	opened int               // connectors ever opened
}

func newWorld(t *testing.T) *world {
	t.Helper()
	// A connection that is idle at the end belongs to this test's own client.
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, leaks)
	})
	return &world{T: t, folder: t.TempDir(), taken: map[string]bool{}, real: map[string]string{}, open: map[string]int{}, inUse: map[string]int{}}
}

// write writes the configuration.
func (w *world) write(text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.folder, "pawl.yaml"), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// Write takes the log.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

type listener struct {
	net.Listener
	closed func()
}

func (l *listener) Close() error {
	l.closed()
	return l.Listener.Close()
}

func (w *world) listen(_, address string) (net.Listener, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken[address] || w.open[address] > 0 {
		return nil, errors.New("address already in use")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.real[address] = l.Addr().String()
	w.open[address]++
	return &listener{l, sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open[address]--
	})}, nil
}

// counted counts the connectors that are open.
type counted struct {
	connector.Destination
	close func()
}

func (c *counted) Close() error {
	c.close()
	return c.Destination.Close()
}

func (w *world) wrap(_, name string, d connector.Destination) connector.Destination {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inUse[name]++
	w.opened++
	return &counted{d, sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inUse[name]--
	})}
}

// holds returns what is open now, for messages: nothing is "".
func (w *world) holds() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for address, n := range w.open {
		if n != 0 {
			all = append(all, fmt.Sprintf("%d listeners at %s", n, address))
		}
	}
	for name, n := range w.inUse {
		if n != 0 {
			all = append(all, fmt.Sprintf("%d connectors of %s", n, name))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// unopenable are the settings of a destination that no check refuses and that
// can't be opened.
type unopenable struct{}

func kinds() *connector.Registry {
	all := builtin.Connectors()
	var sources []connector.SourceKind
	for _, typ := range all.SourceTypes() {
		k, _ := all.Source(typ)
		sources = append(sources, k)
	}
	destinations := []connector.DestinationKind{{
		Type: "unopenable", Doc: "Never opens.",
		New: func() connector.Settings { return &unopenable{} },
		Open: func(connector.Settings, connector.Env) (connector.Destination, error) {
			return nil, errors.New("no such luck")
		},
	}}
	for _, typ := range all.DestinationTypes() {
		k, _ := all.Destination(typ)
		destinations = append(destinations, k)
	}
	return connector.NewRegistry(sources, destinations)
}

func (w *world) options() Options {
	kinds := kinds()
	return Options{
		Load: func() (*config.Config, *config.Report) {
			return Load([]string{filepath.Join(w.folder, "pawl.yaml")}, kinds)
		},
		Registry: kinds, Stderr: w, Version: "test", Wrap: w.wrap, Listen: w.listen,
	}
}

// running is an App that runs.
type runningApp struct {
	*App
	*world
	stop  context.CancelFunc
	ended chan error
}

func (w *world) start() *runningApp {
	w.Helper()
	return w.startWith(w.options())
}

func (w *world) startWith(o Options) *runningApp {
	w.Helper()
	a, err := New(o)
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &runningApp{App: a, world: w, stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- a.Run(ctx) }()
	return r
}

// end stops it and checks that everything was given back.
func (r *runningApp) end() {
	r.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.Errorf("stopped: %v", err)
	}
	if left := r.holds(); left != "" {
		r.Errorf("after the stop are open: %s", left)
	}
	state, err := OpenState(filepath.Join(r.folder, "state"))
	if err != nil {
		r.Errorf("after the stop: %v", err)
	} else if err := state.Close(); err != nil {
		r.Error(err)
	}
}

// send sends a message to the source at a made-up address.
func (w *world) send(address, key string) (int, string) {
	w.mu.Lock()
	real := w.real[address]
	w.mu.Unlock()
	r, err := http.NewRequest(http.MethodPost, "http://"+real+"/", strings.NewReader(`{"key":"`+key+`"}`))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(text)
}

// endpoint is a destination that counts its messages, and holds them while
// held.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	got    int
	status int // 0 is 200
	held   chan struct{}
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.got++
		held, status := e.held, e.status
		e.mu.Unlock()
		if held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		if status != 0 {
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got
}

func (e *endpoint) answer(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

func (e *endpoint) hold() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(chan struct{})
	e.held = held
	return sync.OnceFunc(func() { close(held) })
}

// conf is a configuration with the source web at web:1 and the admin listener
// at 127.0.0.1:2.
func (w *world) conf(url, more string) string {
	return fmt.Sprintf(`
state: %s/state
http: { listen: "127.0.0.1:2" }
shutdown_timeout: 5s
sources:
  - { name: web, type: http, listen: "127.0.0.1:1" }
%s
routes: [ { name: all, from: [web], to: [ep] } ]
destinations:
  - { name: ep, type: http, url: "%s", timeout: 30s, retry: { attempts: 1 } }
`, w.folder, more, url)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
