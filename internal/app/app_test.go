// These tests catch: a start that fails half-way, a stop, or a refused reload
// that keeps a port, a lock, a connector or a goroutine; a reload that turns a
// request away or forgets its secrets; a second owner of a state folder.
package app

import (
	"bufio"
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
	"github.com/pawlhq/pawl/internal/core/message"
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

func (w *world) wrap(name string, d connector.Destination) connector.Destination {
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

func (*unopenable) Check() []connector.Problem { return nil }

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
	a, err := New(w.options())
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

func TestStartAndStop(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.conf(ep.URL, ""))
	a := w.start()
	eventually(t, "a message is delivered", func() bool {
		code, body := w.send("127.0.0.1:1", "m1")
		return code == http.StatusOK && strings.Contains(body, "delivered")
	})
	if w.holds() == "" {
		t.Error("the test sees nothing that is open")
	}
	a.end()
	if _, err := a.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("a reload after the stop: %v", err)
	}
	// Another one starts on what the first left.
	w.start().end()
}

// TestFailedStart: whatever step fails, what was opened before is given back.
func TestFailedStart(t *testing.T) {
	ep := newEndpoint(t)
	for name, c := range map[string]struct {
		prepare func(*world)
		want    string
	}{
		"the configuration": {func(w *world) { w.write("sources: 3\n") }, "sources"},
		"the state folder": {func(w *world) {
			w.write(strings.Replace(w.conf(ep.URL, ""), "/state", "/pawl.yaml/state", 1))
		}, "not a directory"},
		"the dead letters": {func(w *world) {
			w.write(w.conf(ep.URL, ""))
			must(t, os.MkdirAll(filepath.Join(w.folder, "state"), 0o700))
			must(t, os.WriteFile(filepath.Join(w.folder, "state", "dead"), nil, 0o600))
		}, "dead"},
		"a destination": {func(w *world) {
			w.write(w.conf(ep.URL, "") + "  - { name: never, type: unopenable }\n")
		}, "destination never: no such luck"},
		"a source": {func(w *world) {
			w.write(w.conf(ep.URL, `  - { name: web2, type: http, listen: "127.0.0.1:3" }`))
			w.taken["127.0.0.1:3"] = true
		}, "source web2: can't listen at 127.0.0.1:3"},
		"the control socket": {func(w *world) {
			w.write(w.conf(ep.URL, ""))
			must(t, os.MkdirAll(filepath.Join(w.folder, "state", "pawl.sock"), 0o700))
		}, "control socket"},
		"the admin listener": {func(w *world) {
			w.write(w.conf(ep.URL, ""))
			w.taken["127.0.0.1:2"] = true
		}, "http.listen: can't listen at 127.0.0.1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.prepare(w)
			a, err := New(w.options())
			if err == nil {
				t.Fatal("it started", a)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: no %q", err, c.want)
			}
			if left := w.holds(); left != "" {
				t.Errorf("still open: %s", left)
			}
			if _, err := os.Stat(filepath.Join(w.folder, "state")); err == nil {
				state, err := OpenState(filepath.Join(w.folder, "state"))
				if err != nil {
					t.Fatalf("the state folder: %v", err)
				}
				must(t, state.Close())
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRefusedReload: a configuration that is refused at any step leaves
// everything as it was.
func TestRefusedReload(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	good := w.conf(ep.URL, "")
	w.write(good)
	a := w.start()
	eventually(t, "it runs", func() bool { code, _ := w.send("127.0.0.1:1", "m0"); return code == http.StatusOK })
	before, opened := w.holds(), w.opened
	extra := `  - { name: extra, type: http, listen: "127.0.0.1:3" }`
	for name, c := range map[string]struct{ text, want string }{
		"a mistake":              {strings.Replace(good, "from: [web]", "from: [wep]", 1), "wep"},
		"another relay":          {"relay: other\n" + w.conf(ep.URL+"/x", extra), "restart pawl"},
		"another state folder":   {strings.Replace(w.conf(ep.URL+"/x", extra), "/state", "/state2", 1), "restart pawl"},
		"another letters folder": {w.conf(ep.URL+"/x", extra) + "dead_letter: { type: file, path: elsewhere }\n", "restart pawl"},
		"a taken port":           {w.conf(ep.URL+"/x", extra+"\n"+`  - { name: taken, type: http, listen: "127.0.0.1:9" }`), "127.0.0.1:9"},
		"a taken admin port":     {strings.Replace(w.conf(ep.URL+"/x", extra), "127.0.0.1:2", "127.0.0.1:9", 1), "127.0.0.1:9"},
		"a destination":          {w.conf(ep.URL+"/x", extra) + "  - { name: never, type: unopenable }\n", "no such luck"},
	} {
		w.taken["127.0.0.1:9"] = true
		w.write(c.text)
		if _, err := a.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if now := w.holds(); now != before {
			t.Errorf("%s: open are %s, before %s", name, now, before)
		}
		if g := a.engine.Relay().Status().Generation; g != 1 {
			t.Errorf("%s made generation %d", name, g)
		}
		if code, body := w.send("127.0.0.1:1", name); code != http.StatusOK {
			t.Errorf("after %s: %d %s", name, code, body)
		}
	}
	if w.opened == opened {
		t.Error("no refused configuration opened a connector: the test looks at nothing")
	}
	w.write(good)
	if g, err := a.Reload(t.Context()); err != nil || g != 2 {
		t.Errorf("a good one afterwards: %d, %v", g, err)
	}
	a.end()
}

// TestReload: what did not change stays open, what did is replaced, and the old
// is closed once it is drained.
func TestReload(t *testing.T) {
	w := newWorld(t)
	one, two := newEndpoint(t), newEndpoint(t)
	w.write(w.conf(one.URL, ""))
	a := w.start()
	release := one.hold()
	old := make(chan int, 1)
	go func() { code, _ := w.send("127.0.0.1:1", "old"); old <- code }()
	eventually(t, "the message is at the endpoint", func() bool { return one.count() == 1 })
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.opened != 1 {
		t.Errorf("an unchanged destination was opened %d times", w.opened)
	}
	w.write(strings.Replace(w.conf(two.URL, `  - { name: extra, type: http, listen: "127.0.0.1:3" }`), "from: [web]", "from: [web, extra]", 1))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:1", "127.0.0.1:3"} {
		if code, body := w.send(address, "new"+address); code != http.StatusOK {
			t.Errorf("a new message at %s: %d %s", address, code, body)
		}
	}
	if two.count() != 2 || one.count() != 1 {
		t.Errorf("the old endpoint has %d, the new %d", one.count(), two.count())
	}
	release()
	if code := <-old; code != http.StatusOK {
		t.Errorf("the message in flight ended with %d", code)
	}
	w.write(w.conf(two.URL, ""))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the listener of a source that went is closed", func() bool { return !strings.Contains(w.holds(), "127.0.0.1:3") })
	eventually(t, "the old connector is closed", func() bool { return strings.Contains(w.holds(), "1 connectors of ep") })
	a.end()
}

// TestReloadUnderTraffic changes the source itself again and again: no request
// may see it.
func TestReloadUnderTraffic(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	conf := w.conf(ep.URL, "")
	w.write(conf)
	a := w.start()
	eventually(t, "it runs", func() bool { code, _ := w.send("127.0.0.1:1", "m"); return code == http.StatusOK })
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for c := range 8 {
		callers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if code, body := w.send("127.0.0.1:1", fmt.Sprintf("m-%d-%d", c, n)); code != http.StatusOK {
					t.Errorf("%d %s", code, body)
					return
				}
			}
		})
	}
	for i := range 40 {
		w.write(strings.Replace(conf, `listen: "127.0.0.1:1"`, fmt.Sprintf(`max_body: %dKiB, listen: "127.0.0.1:1"`, i+1), 1))
		if _, err := a.Reload(t.Context()); err != nil && !strings.Contains(err.Error(), "older configurations") {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	close(stop)
	callers.Wait()
	a.end()
}

// TestRemovedSource: a message that came in by a source just before a reload
// removed it has no routes any more. It is given back, never acked as unrouted.
func TestRemovedSource(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	with := strings.Replace(w.conf(ep.URL, `  - { name: extra, type: http, listen: "127.0.0.1:3" }`), "from: [web]", "from: [web, extra]", 1)
	w.write(with)
	a := w.start()
	conn, err := net.Dial("tcp", w.real["127.0.0.1:3"])
	must(t, err)
	defer conn.Close()
	// The answer to the expectation says that the source waits for the body.
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	must(t, err)
	answers := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		line, err = answers.ReadString('\n')
		must(t, err)
	}
	w.write(w.conf(ep.URL, ""))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(conn, "{}")
	must(t, err)
	res, err := http.ReadResponse(answers, nil)
	must(t, err)
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("answered %d %s, %v; want 503 with Retry-After", res.StatusCode, text, err)
	}
	if ep.count() != 0 {
		t.Error("it was delivered although its route is gone")
	}
	conn.Close()
	a.end()
}

// TestTooManyGenerations: at most four configurations drain at once.
func TestTooManyGenerations(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.conf(ep.URL, ""))
	a := w.start()
	release := ep.hold()
	var callers sync.WaitGroup
	var refused error
	for i := range 6 {
		callers.Go(func() {
			if code, body := w.send("127.0.0.1:1", fmt.Sprintf("m%d", i)); code != http.StatusOK {
				t.Errorf("%d %s", code, body)
			}
		})
		eventually(t, "the message is at the endpoint", func() bool { return ep.count() == i+1 })
		if _, refused = a.Reload(t.Context()); refused != nil {
			if i != 4 {
				t.Errorf("the reload after %d that drain was refused", i)
			}
			break
		}
	}
	if refused == nil || !strings.Contains(refused.Error(), "older configurations") {
		t.Errorf("six generations drain at once: %v", refused)
	}
	release()
	callers.Wait()
	eventually(t, "a reload works again", func() bool { _, err := a.Reload(t.Context()); return err == nil })
	a.end()
}

func TestStateLock(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "deep", "state")
	s, err := OpenState(folder)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	_, err = OpenState(folder)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Folder != folder {
		t.Errorf("a second owner: %v", err)
	}
	if want := fmt.Sprintf("state folder %s is locked by pawl (pid %d)", folder, os.Getpid()); err.Error() != want {
		t.Errorf("says %q, want %q", err, want)
	}
	must(t, s.Close())
	again, err := OpenState(folder)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	must(t, again.Close())
	if got := (&LockedError{Folder: "x"}).Error(); got != "state folder x is locked by another pawl" {
		t.Errorf("without a pid: %s", got)
	}
}

// TestReadiness follows what /readyz says.
func TestReadiness(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.conf(ep.URL, ""))
	a := w.start()
	get := func(path string, header ...string) (int, string) {
		w.mu.Lock()
		real := w.real["127.0.0.1:2"]
		w.mu.Unlock()
		r, err := http.NewRequest(http.MethodGet, "http://"+real+path, nil)
		must(t, err)
		if len(header) > 0 {
			r.Header.Set(header[0], header[1])
		}
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		must(t, err)
		return res.StatusCode, string(text)
	}
	if code, body := get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if code, body := get("/readyz"); code != 200 || !strings.Contains(body, `"ready":true`) {
		t.Errorf("/readyz: %d %q", code, body)
	}
	// Keys, once configured, are asked for here too.
	w.write(strings.Replace(w.conf(ep.URL, ""), `"127.0.0.1:2"`, `"127.0.0.1:2", keys: ["0123456789abcdef0123"]`, 1))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, _ := get("/v3/status"); code != http.StatusUnauthorized {
		t.Errorf("without a key: %d", code)
	}
	if code, _ := get("/v3/status", "Authorization", "Bearer 0123456789abcdef0123"); code != http.StatusOK {
		t.Errorf("with the key: %d", code)
	}
	// An address that others reach has the API only with keys.
	for keys, want := range map[string]int{"": 404, `, keys: ["0123456789abcdef0123"]`: 200} {
		text := strings.Replace(w.conf(ep.URL, ""), `"127.0.0.1:2"`, `"0.0.0.0:2"`+keys, 1)
		w.write(text)
		if _, err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.real["127.0.0.1:2"] = w.real["0.0.0.0:2"]
		w.mu.Unlock()
		if code, _ := get("/v3/status", "Authorization", "Bearer 0123456789abcdef0123"); code != want {
			t.Errorf("on an open address with%s: %d, want %d", keys, code, want)
		}
		if code, _ := get("/debug/pprof/"); code != 404 {
			t.Errorf("profiles on an open address: %d", code)
		}
		if code, _ := get("/healthz"); code != 200 {
			t.Errorf("/healthz on an open address: %d", code)
		}
	}
	a.end()
}

// TestRedactor: what was in force stays hidden, however many configurations are
// refused; so does what is being tried.
func TestRedactor(t *testing.T) {
	load := func(secret string) *config.Redactor {
		t.Setenv("APP_TEST_SECRET", secret)
		file := filepath.Join(t.TempDir(), "pawl.yaml")
		must(t, os.WriteFile(file, []byte(`
sources: [ { name: web, type: http, listen: "127.0.0.1:1", auth: { bearer: { token: "{{secrets.APP_TEST_SECRET}}" } } } ]
routes: [ { name: all, from: [web], to: [ep] } ]
destinations: [ { name: ep, type: stderr } ]
`), 0o600))
		c, report := Load([]string{file}, builtin.Connectors())
		must(t, report.Err())
		return c.Secrets
	}
	var r redactor
	if got := r.Redact("nothing"); got != "nothing" {
		t.Errorf("an empty redactor says %q", got)
	}
	r.keep(load("first-secret"))
	r.keep(load("second-secret"))
	for i := range 20 {
		r.try(load(fmt.Sprintf("refused-secret-%d", i)))
	}
	if got := r.Redact("first-secret second-secret refused-secret-19"); strings.Contains(got, "secret") {
		t.Errorf("seen: %q", got)
	}
	var out bytes.Buffer
	if n, err := (redacted{&out, &r}).Write([]byte("a first-secret\n")); err != nil || n != 15 || out.String() != "a ***\n" {
		t.Errorf("the writer: %d, %v, %q", n, err, out.String())
	}
}

// TestLocal works on a state folder by itself, and not beside a running pawl.
func TestLocal(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.conf(ep.URL, ""))
	kinds := builtin.Connectors()
	c, report := Load([]string{filepath.Join(w.folder, "pawl.yaml")}, kinds)
	must(t, report.Err())
	l, err := OpenLocal(c, kinds, w, nil, w.wrap)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(w.options()); err == nil || !strings.Contains(err.Error(), "is locked by pawl") {
		t.Errorf("a pawl beside it: %v", err)
	}
	res, err := l.Admin().Send(t.Context(), "ep", &message.Message{ID: "m", Source: "send", Time: time.Now(), Body: []byte("{}")})
	if err != nil || len(res.Hops) != 0 || ep.count() != 1 {
		t.Errorf("send: %+v, %v", res, err)
	}
	must(t, l.Close())
	if left := w.holds(); left != "" {
		t.Errorf("still open: %s", left)
	}
	w.start().end()
}
