package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/core/failure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bothPaths are the options that make a client take each of its paths; to an
// http:// target the second speaks HTTP/1.1 through net/http.
var bothPaths = []struct {
	name string
	opts Options
}{
	{"direct", Options{}},
	{"standard", Options{Protocol: HTTP2}},
}

func onBothPaths(t *testing.T, test func(t *testing.T, o Options)) {
	t.Helper()
	for _, p := range bothPaths {
		t.Run(p.name, func(t *testing.T) { test(t, p.opts) })
	}
}

// listen starts a server on a real socket that hands each connection, counted
// from 0, to serve and closes it after that.
func listen(t *testing.T, serve func(n int, c net.Conn)) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		open sync.WaitGroup
		mu   sync.Mutex
		all  []net.Conn
	)
	open.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, c)
			mu.Unlock()
			open.Go(func() {
				defer func() { _ = c.Close() }()
				serve(n, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range all {
			_ = c.Close()
		}
		mu.Unlock()
		open.Wait()
	})
	return "http://" + l.Addr().String()
}

// answering serves requests one after the other, each with the same bytes.
func answering(raw string) func(int, net.Conn) {
	return func(_ int, c net.Conn) { answerAll(c, raw) }
}

func answerAll(c net.Conn, raw string) {
	for in := bufio.NewReader(c); readRequest(in) == nil; {
		if _, err := io.WriteString(c, raw); err != nil {
			return
		}
	}
}

// answerOnce is answerAll for one request, after which the connection closes.
func answerOnce(raw string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		if readRequest(bufio.NewReader(c)) == nil {
			_, _ = io.WriteString(c, raw)
		}
	}
}

func readRequest(in *bufio.Reader) error {
	req, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newTarget(t *testing.T, method, rawURL string, fixed ...Field) *Target {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	target, err := NewTarget(method, u, fixed...)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// post is a request with a body and a key, as a destination sends it.
func post(t *testing.T, rawURL string) *Request {
	t.Helper()
	return &Request{
		Target: newTarget(t, http.MethodPost, rawURL), Header: []Field{{"Idempotency-Key", "k-1"}},
		Body: []byte(`{"n":1}`), KeepBody: true,
	}
}

// within bounds a test's request by far more than it takes.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// wantFailure checks everything but the text of a failure.
func wantFailure(t *testing.T, err error, class failure.Class, verdict failure.Verdict, tags ...failure.Tag) {
	t.Helper()
	got, ok := errors.AsType[*failure.Error](err)
	if !ok {
		t.Fatalf("got %T %v, want a *failure.Error", err, err)
	}
	type saying struct {
		Tags    []failure.Tag
		Class   failure.Class
		Verdict failure.Verdict
	}
	if diff := cmp.Diff(saying{tags, class, verdict}, saying{got.Tags, got.Class, got.Verdict}); diff != "" {
		t.Errorf("%v: failure differs (-want +got):\n%s", err, diff)
	}
}

func wantBroken(t *testing.T, err error) {
	t.Helper()
	wantFailure(t, err, failure.Transient, failure.Sick, failure.Broken)
}
