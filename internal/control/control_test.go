// These tests catch: a socket that others may open, also in the moment of its
// making; a living socket taken for a dead one, or a file deleted that is no
// socket; a path too long for the system; an answer that is an error, is too
// long, breaks off or is of another version and is taken for a good one.
package control

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/problem"
)

// serve runs h behind a socket in a fresh folder and returns its path.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), SocketName)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return path
}

func api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("GET /lines", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "one\n\ntwo\nthree") })
	mux.HandleFunc("GET /broken", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "one\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("GET /hang", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "one\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /no", func(w http.ResponseWriter, _ *http.Request) {
		problem.Document{Type: problem.NotFound, Detail: "no letter 01L"}.Write(w)
	})
	mux.HandleFunc("GET /ugly", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", 502) })
	mux.HandleFunc("GET /liar", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", problem.MediaType)
		w.WriteHeader(500)
		fmt.Fprint(w, `{"status": "x"`)
	})
	mux.HandleFunc("GET /garbage", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"a":`) })
	return mux
}

func TestDo(t *testing.T) {
	c := NewClient(serve(t, Handler(api(), "v1")))
	in, out := map[string]int{"a": 1}, map[string]int{}
	if err := c.Do(t.Context(), http.MethodPost, "/echo?x=1", in, &out); err != nil || out["a"] != 1 {
		t.Errorf("echo = %v, %v", out, err)
	}
	if err := c.Do(t.Context(), http.MethodPost, "/echo", nil, nil); err != nil {
		t.Errorf("no body and no result: %v", err)
	}
	if err := c.Do(t.Context(), http.MethodPost, "/echo", make(chan int), nil); err == nil {
		t.Error("a channel was sent as JSON")
	}
	if err := c.Do(t.Context(), http.MethodGet, "/garbage", nil, &out); err == nil || !strings.Contains(err.Error(), "can't be read") {
		t.Errorf("garbage: %v", err)
	}
	for path, want := range map[string]Problem{
		"/no":   {Type: "urn:pawl:problem:not-found", Title: "Not Found", Status: 404, Detail: "no letter 01L"},
		"/ugly": {Status: 502, Title: "pawl answered HTTP 502 Bad Gateway"},
		"/liar": {Status: 500, Title: "pawl answered HTTP 500 Internal Server Error"},
	} {
		err := c.Do(t.Context(), http.MethodGet, path, nil, nil)
		if p, ok := errors.AsType[*Problem](err); !ok || *p != want {
			t.Errorf("%s: %#v, want %#v", path, err, want)
		}
	}
}

func TestStream(t *testing.T) {
	c := NewClient(serve(t, Handler(api(), "v1")))
	var got []string
	collect := func(line []byte) error { got = append(got, string(line)); return nil }
	if err := c.Stream(t.Context(), http.MethodGet, "/lines", nil, collect); err != nil || strings.Join(got, "|") != "one|two|three" {
		t.Errorf("lines = %q, %v", got, err)
	}
	got = nil
	if err := c.Stream(t.Context(), http.MethodGet, "/broken", nil, collect); err == nil || len(got) != 1 {
		t.Errorf("a stream that broke off after %q ended with %v", got, err)
	}
	if err := c.Stream(t.Context(), http.MethodGet, "/no", nil, collect); err == nil || err.Error() != "no letter 01L" {
		t.Errorf("refused stream: %v", err)
	}
	enough := errors.New("enough")
	if err := c.Stream(t.Context(), http.MethodGet, "/hang", nil, func([]byte) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the callback's error became %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Stream(ctx, http.MethodGet, "/hang", nil, func([]byte) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled stream ended with %v", err)
	}
}

func TestReadBounded(t *testing.T) {
	if b, err := readBounded(strings.NewReader("12345"), 5); err != nil || string(b) != "12345" {
		t.Errorf("at the limit: %q, %v", b, err)
	}
	if _, err := readBounded(strings.NewReader("123456"), 5); err == nil {
		t.Error("past the limit was taken")
	}
}

func TestVersions(t *testing.T) {
	newer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(versionHeader, "2")
		w.Header().Set(serverHeader, "v9.9")
	})
	err := NewClient(serve(t, newer)).Do(t.Context(), http.MethodGet, "/", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "v9.9 and speaks control version 2, this command speaks 1") {
		t.Errorf("an old command at a new relay: %v", err)
	}
	stranger := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	err = NewClient(serve(t, stranger)).Do(t.Context(), http.MethodGet, "/", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "not pawl") {
		t.Errorf("a stranger: %v", err)
	}

	// A command from before or after, at this relay.
	path := serve(t, Handler(api(), "v1"))
	for _, v := range []string{"", "0", "2"} {
		c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) }}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://pawl/lines", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(versionHeader, v)
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var p Problem
		if err := json.UnmarshalRead(answer.Body, &p); err != nil || p.Type != problem.ControlVersion.URI() || answer.StatusCode != 400 {
			t.Errorf("version %q was answered %d %+v, %v", v, answer.StatusCode, p, err)
		}
		answer.Body.Close()
		c.CloseIdleConnections()
	}
}

func TestNotRunning(t *testing.T) {
	dir := t.TempDir()
	check := func(what, path string) {
		t.Helper()
		err := NewClient(path).Do(t.Context(), http.MethodGet, "/", nil, nil)
		if !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("no socket", filepath.Join(dir, SocketName))
	check("no folder", filepath.Join(dir, "gone", SocketName))
	check("no folder, long path", filepath.Join(dir, strings.Repeat("x", 120), SocketName))
	check("a dead process's socket", stale(t, filepath.Join(dir, "stale")))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewClient(filepath.Join(dir, "x")).Do(ctx, http.MethodGet, "/", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// stale leaves a socket behind as a killed process does.
func stale(t *testing.T, path string) string {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	return path
}

func TestListenTakesOnlyADeadSocket(t *testing.T) {
	dir := t.TempDir()
	path := stale(t, filepath.Join(dir, SocketName))
	if err := os.Mkdir(filepath.Join(dir, roomName), 0o700); err != nil { // of a process killed while starting
		t.Fatal(err)
	}
	first, err := Listen(path)
	if err != nil {
		t.Fatalf("a dead socket was not replaced: %v", err)
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second Listen: %v, want ErrInUse with the path", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}

	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("Listen over a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file in the way is %q, %v", b, err)
	}
	if _, err := Listen(filepath.Join(dir, "gone", SocketName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Listen in no folder: %v", err)
	}
}

func TestCloseLeavesAnothersSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), SocketName)
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the first's Close removed the second's socket: %v", err)
	}
}

// TestSocketIsPrivate looks at the socket with a umask that forbids nothing.
func TestSocketIsPrivate(t *testing.T) {
	openUmask(t)
	path := filepath.Join(t.TempDir(), SocketName)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if got := l.Addr().String(); got != path {
		t.Errorf("Addr = %q, want %q", got, path)
	}
}

func TestLongPath(t *testing.T) {
	if runtime.GOOS != "linux" {
		_, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("d", 120)))
		if err == nil || !strings.Contains(err.Error(), "shorter path") {
			t.Errorf("a path too long for this system: %v", err)
		}
		return
	}
	// From below the limit to far above it; the folder for making the socket
	// crosses the limit before the socket does.
	for length := maxAddress - 20; length <= maxAddress+20; length++ {
		dir := t.TempDir()
		pad := length - len(dir) - len(SocketName) - 2
		if pad < 1 {
			continue
		}
		tryPath(t, filepath.Join(dir, strings.Repeat("d", pad)))
	}
	tryPath(t, filepath.Join(t.TempDir(), strings.Repeat("d", 250), strings.Repeat("e", 250)))
}

// tryPath makes folder, listens in it, asks, and closes.
func tryPath(t *testing.T, folder string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, SocketName)
	l, err := Listen(path)
	if err != nil {
		t.Errorf("Listen on %d bytes: %v", len(path), err)
		return
	}
	s := NewServer(api(), "v1")
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	out := 0
	if err := NewClient(path).Do(t.Context(), http.MethodPost, "/echo", 7, &out); err != nil || out != 7 {
		t.Errorf("asking on %d bytes: %d, %v", len(path), out, err)
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Errorf("second Listen on %d bytes: %v", len(path), err)
	}
	s.Close()
	<-done
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket on %d bytes is still there: %v", len(path), err)
	}
}

// TestStrangersAreClosed lets the second caller in only.
func TestStrangersAreClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), SocketName)
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	callers := 0
	l.allow = func(*net.UnixConn) error {
		if callers++; callers == 1 {
			return errors.New("a stranger")
		}
		return nil
	}
	s := NewServer(api(), "v1")
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	defer func() { s.Close(); <-done }()
	c := NewClient(path)
	if err := c.Do(t.Context(), http.MethodPost, "/echo", nil, nil); err == nil || !strings.Contains(err.Error(), "broke off the connection") {
		t.Errorf("the stranger got %v", err)
	}
	if err := c.Do(t.Context(), http.MethodPost, "/echo", nil, nil); err != nil {
		t.Errorf("the owner got %v", err)
	}
}

func TestAcceptEndsWithClose(t *testing.T) {
	l, err := Listen(filepath.Join(t.TempDir(), SocketName))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := l.Accept(); ended <- err }()
	l.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Accept goes on after Close")
	}
}

func FuzzProblem(f *testing.F) {
	f.Add(404, problem.MediaType, `{"status":404,"detail":"no"}`, "1", "v1")
	f.Add(500, "application/problem+json; charset=utf-8", `{`, "2", "v\x1b[1m2")
	f.Add(200, "", "", "", "")
	f.Fuzz(func(t *testing.T, status int, kind, body, version, build string) {
		err := refused(&http.Response{
			StatusCode: status,
			Header:     http.Header{"Content-Type": {kind}, versionHeader: {version}, serverHeader: {build}},
			Body:       io.NopCloser(strings.NewReader(body)),
		})
		good := status >= 200 && status < 300 && version == Version
		if (err == nil) != good {
			t.Fatalf("status %d, version %q: %v", status, version, err)
		}
		if err != nil && err.Error() == "" {
			t.Fatal("an error without words")
		}
		if version != Version && err != nil && strings.Contains(err.Error(), "\x1b") {
			t.Fatalf("a header steers the terminal: %q", err)
		}
	})
}
