package egress

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// newProxy starts an HTTP proxy that wants a password. It forwards to no other
// place than origin, whatever it is asked for.
func newProxy(t *testing.T, origin string) (*url.URL, <-chan string) {
	t.Helper()
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI
		if r.Header.Get("Proxy-Authorization") != "Basic bWU6c2VjcmV0" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect {
			_, _ = io.WriteString(w, "through the proxy")
			return
		}
		far, err := net.Dial("tcp", origin)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		near, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
		_, _ = io.Copy(near, far)
		_ = near.Close()
	}))
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("me", "secret")
	return u, asked
}

func TestProxy(t *testing.T) {
	pool, config := newAuthority(t, "good.example")
	server := secureServer(t, config)
	proxy, asked := newProxy(t, server.Listener.Addr().String())
	client := newClient(t, Options{Proxy: proxy, TLS: &tls.Config{RootCAs: pool}})

	got, err := client.Do(within(t), post(t, "http://good.example/x"))
	if err != nil || string(got.Body) != "through the proxy" {
		t.Errorf("http: %+v, %v", got, err)
	}
	got, err = client.Do(within(t), post(t, "https://good.example/x"))
	if err != nil || string(got.Body) != "HTTP/1.1" {
		t.Errorf("https: %+v, %v; want HTTP/1.1, since HTTP/2 was not asked for", got, err)
	}
	for _, want := range []string{"POST http://good.example/x", "CONNECT good.example:443"} {
		if got := <-asked; got != want {
			t.Errorf("the proxy was asked for %q, want %q", got, want)
		}
	}
	_, err = client.Do(within(t), post(t, "https://evil.example/x"))
	wantFailure(t, err, failure.Permanent, failure.Suspect, failure.TLS)
}

func TestProxyFails(t *testing.T) {
	proxy, _ := newProxy(t, "127.0.0.1:1")
	_, err := newClient(t, Options{Proxy: proxy}).Do(within(t), post(t, "https://good.example/secret"))
	wantConnect(t, err)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q holds a secret", err)
	}
	proxy.User = nil
	_, err = newClient(t, Options{Proxy: proxy}).Do(within(t), post(t, "https://good.example/"))
	wantConnect(t, err)
	proxy.Host = "127.0.0.1:1"
	_, err = newClient(t, Options{Proxy: proxy}).Do(within(t), post(t, "https://good.example/"))
	wantConnect(t, err)
}
