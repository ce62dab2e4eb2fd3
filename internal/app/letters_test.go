package app

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLettersPassASickDestination catches a letter that waits at the open
// breaker of where letters go instead of taking the fallback.
func TestLettersPassASickDestination(t *testing.T) {
	w := newWorld(t)
	refuses := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(refuses.Close)
	w.write(w.conf(refuses.URL, "") + `
  - name: dl
    type: http
    url: "http://127.0.0.1:9"
    retry: { attempts: 1 }
    circuit_breaker: { min_requests: 1, open_for: 1h }
  - { name: disk, type: file, format: envelope, path: letters.ndjson }
dead_letter: { type: destination, destination: dl, retry: { attempts: 2, backoff: 10ms }, fallback: [disk] }
`)
	a := w.start()
	for _, key := range []string{"one", "two", "three"} {
		began := time.Now()
		code, body := w.send("127.0.0.1:1", key)
		if code != http.StatusOK || !strings.Contains(body, "dead_lettered") {
			t.Errorf("%s: %d %s after %v", key, code, body, time.Since(began))
		}
	}
	a.end()
	text, err := os.ReadFile(filepath.Join(w.folder, "letters.ndjson"))
	if n := strings.Count(string(text), "\n"); err != nil || n != 3 {
		t.Errorf("%d letters on the fallback, %v", n, err)
	}
}
