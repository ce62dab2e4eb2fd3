package app

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRenewedFiles catches a reload that goes on with the certificates of
// before: they are renewed under their old names.
func TestRenewedFiles(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	file := func(name string, text []byte) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(w.folder, name), text, 0o600))
	}
	file("cert.pem", cert)
	file("ca.pem", cert)
	file("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	w.write(strings.NewReplacer(
		`"127.0.0.1:1" }`, `"127.0.0.1:1", tls: { cert: cert.pem, key: key.pem } }`,
		"type: http, url:", "type: https, tls: { ca: ca.pem }, url:",
	).Replace(w.conf(server.URL, "")))
	a := w.start()
	reload := func() {
		t.Helper()
		if _, err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reload()
	source := a.sources.running["web"]
	if w.opened != 1 {
		t.Fatalf("the destination was opened %d times though nothing changed", w.opened)
	}
	file("ca.pem", append(bytes.Clone(cert), cert...))
	reload()
	if w.opened != 2 || a.sources.running["web"] != source {
		t.Errorf("the destination was opened %d times after its ca changed; the source is another: %v", w.opened, a.sources.running["web"] != source)
	}
	file("cert.pem", append(bytes.Clone(cert), cert...))
	reload()
	if w.opened != 2 || a.sources.running["web"] == source {
		t.Errorf("the source is the old one after its cert changed; the destination was opened %d times", w.opened)
	}
	a.end()
}

// TestLogOfAReload catches a key that a reload takes and does not heed.
func TestLogOfAReload(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.conf(ep.URL, ""))
	a := w.start()
	for _, log := range []string{"log: { access: true }", "log: { access: false }"} {
		w.write(w.conf(ep.URL, "") + log)
		if _, err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if code, body := w.send("127.0.0.1:1", log); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
	}
	for _, fixed := range []string{"log: { format: text }", `telemetry: { traces: { endpoint: "http://127.0.0.1:9" } }`} {
		w.write(w.conf(ep.URL, "") + fixed)
		if _, err := a.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "restart pawl") {
			t.Errorf("a reload with %s: %v", fixed, err)
		}
	}
	a.end()
	if n := strings.Count(w.logged(), "\"settled\""); n != 1 {
		t.Errorf("%d lines of settled messages, want that of the one while the access log was on:\n%s", n, w.logged())
	}
}

// TestReloadBeforeRun catches a signal in the first moment of a start: a source
// that is run twice, or stopped before it ran.
func TestReloadBeforeRun(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.conf(ep.URL, ""))
	app, err := New(w.options())
	must(t, err)
	w.write(strings.Replace(w.conf(ep.URL, ""), `"127.0.0.1:1" }`, `"127.0.0.1:1", max_body: 2MiB }`, 1))
	reloaded := make(chan error, 1)
	go func() { _, err := app.Reload(t.Context()); reloaded <- err }()
	select {
	case err := <-reloaded:
		t.Errorf("a reload before Run: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	must(t, <-reloaded)
	if code, body := w.send("127.0.0.1:1", "a"); code != http.StatusOK {
		t.Errorf("after the reload: %d %s", code, body)
	}
	stop()
	must(t, <-ended)
}
