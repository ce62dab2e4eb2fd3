// These tests catch: a start that fails half-way, a stop, or a refused reload
// that keeps a port, a lock, a connector or a goroutine; a reload that turns a
// request away or forgets its secrets; a second owner of a state folder.
package app

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
)

func (*unopenable) Check() []connector.Problem { return nil }

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
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Path != folder {
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
	if got := (&LockedError{Kind: "state folder", Path: "x"}).Error(); got != "state folder x is locked by another pawl" {
		t.Errorf("without a pid: %s", got)
	}
}

// TestLettersLock: two pawls with a state folder each can't write one folder of
// dead letters.
func TestLettersLock(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	ep := newEndpoint(t)
	shared := fmt.Sprintf("dead_letter: { type: file, path: %s/shared }\n", w.folder)
	w.write(w.conf(ep.URL, "") + shared)
	other.write(other.conf(ep.URL, "") + shared)
	a := w.start()
	_, err := New(other.options())
	want := fmt.Sprintf("dead letter folder %s/shared is locked by pawl (pid %d)", w.folder, os.Getpid())
	var locked *LockedError
	if !errors.As(err, &locked) || err.Error() != want {
		t.Errorf("a second writer: %v; want %q", err, want)
	}
	if left := other.holds(); left != "" {
		t.Errorf("the refused one still has: %s", left)
	}
	eventually(t, "it runs", func() bool { code, _ := w.send("127.0.0.1:1", "m"); return code == http.StatusOK })
	a.end()
	other.start().end()
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
