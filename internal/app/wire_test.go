package app

// Catches: a key of a destination that is read and checked and then does not
// reach the request, or reaches it under another name.

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// arrived is what an endpoint saw of a request.
type arrived struct {
	header http.Header
	sni    string
}

// TestFromYAMLToTheWire: what the YAML says of headers and TLS is what the
// endpoint sees.
func TestFromYAMLToTheWire(t *testing.T) {
	seen := make(chan arrived, 1)
	ep := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- arrived{r.Header, r.TLS.ServerName} }))
	t.Cleanup(ep.Close)
	w := newWorld(t)
	ca := filepath.Join(w.folder, "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ep.Certificate().Raw}), 0o600))
	conf := func(defaults, more string) string {
		return strings.Replace(w.conf(ep.URL, ""), "timeout: 30s", fmt.Sprintf("tls: { ca: %q%s }, timeout: 30s", ca, more), 1) + defaults
	}
	w.write(conf("", ""))
	a := w.start()
	send := func() (status int, answer string) {
		t.Helper()
		w.mu.Lock()
		real := w.real["127.0.0.1:1"]
		w.mu.Unlock()
		r, err := http.NewRequest(http.MethodPost, "http://"+real+"/", strings.NewReader("{}"))
		must(t, err)
		for name, value := range map[string]string{"X-Tenant": "shop", "X-Other": "no", "Cookie": "no", "X-Msg-Id": "a-sender's"} {
			r.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		must(t, err)
		return res.StatusCode, string(text)
	}
	// look sends a message and returns what arrived of it.
	look := func() arrived {
		t.Helper()
		if status, answer := send(); status != http.StatusOK || !strings.Contains(answer, "delivered") {
			t.Fatalf("answered %d %s; log:\n%s", status, answer, w.logged())
		}
		return <-seen
	}
	reload := func(text string) {
		t.Helper()
		w.write(text)
		if _, err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	plain := look()
	if plain.header.Get("Idempotency-Key") == "" || plain.header.Get("X-Tenant") != "" || plain.sni != "" {
		t.Errorf("where nothing is said: %v, name %q", plain.header, plain.sni)
	}
	// httptest's certificate is for 127.0.0.1 and example.com.
	for _, c := range []struct{ where, text string }{
		{"destination", strings.Replace(conf("", ", server_name: example.com"), "retry:",
			`idempotency_header: X-Msg-Id, forward_headers: ["x-ten*", "cookie", "x-msg-id"], retry:`, 1)},
		{"defaults", conf("defaults: { idempotency_header: X-Msg-Id, forward_headers: [x-tenant] }\n", ", server_name: example.com")},
	} {
		reload(c.text)
		got := look()
		id := got.header.Values("X-Msg-Id")
		if len(id) != 1 || id[0] == "" || id[0] == "a-sender's" || got.header.Get("Idempotency-Key") != "" {
			t.Errorf("%s: idempotency_header: %v", c.where, got.header)
		}
		if got.header.Get("X-Tenant") != "shop" || got.header.Get("X-Other") != "" || got.header.Get("Cookie") != "" {
			t.Errorf("%s: forward_headers: %v", c.where, got.header)
		}
		if got.sni != "example.com" {
			t.Errorf("%s: tls.server_name: asked for %q", c.where, got.sni)
		}
	}
	reload(conf("", ", server_name: other.test"))
	if status, answer := send(); status != http.StatusOK || !strings.Contains(answer, "dead_lettered") {
		t.Errorf("a certificate for another name: %d %s", status, answer)
	}
	a.end()
}
