package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGuards(t *testing.T) {
	const key = "a-key-of-sufficient-length"
	reached := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	try := func(h http.Handler, host string, header ...string) int {
		r := httptest.NewRequest(http.MethodPost, "/v3/reload", nil)
		r.Host = host
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	local := LocalOnly(reached)
	for _, host := range []string{"127.0.0.1:7077", "127.8.8.8", "[::1]:7077", "[::1]", "::1", "localhost:7077", "LOCALHOST"} {
		if code := try(local, host); code != http.StatusNoContent {
			t.Errorf("Host %s: %d", host, code)
		}
	}
	for _, host := range []string{"", "example.com", "10.0.0.1:7077", "localhost.example.com", "127.0.0.1.example.com", "0.0.0.0:7077"} {
		if code := try(local, host); code != http.StatusForbidden {
			t.Errorf("Host %q: %d", host, code)
		}
	}
	for header, value := range map[string]string{"Origin": "null", "Sec-Fetch-Site": "cross-site"} {
		if code := try(local, "127.0.0.1", header, value); code != http.StatusForbidden {
			t.Errorf("%s: %s: %d", header, value, code)
		}
	}
	for site, want := range map[string]int{"none": 204, "same-origin": 204, "same-site": 403} {
		if code := try(local, "127.0.0.1", "Sec-Fetch-Site", site); code != want {
			t.Errorf("Sec-Fetch-Site %s: %d", site, code)
		}
	}
	keyed := RequireKey([]string{"another-key-of-some-length", key}, nil, reached)
	for value, want := range map[string]int{
		"Bearer " + key: 204, "bearer " + key: 204, "Bearer another-key-of-some-length": 204,
		"": 401, "Bearer": 401, "Bearer ": 401, "Bearer " + key + "x": 401, "Basic " + key: 401, key: 401, "Bearer a-key": 401,
	} {
		if code := try(keyed, "example.com", "Authorization", value); code != want {
			t.Errorf("Authorization %q: %d, want %d", value, code, want)
		}
	}
	if code := try(RequireKey(nil, nil, reached), "127.0.0.1", "Authorization", "Bearer "); code != http.StatusUnauthorized {
		t.Errorf("without any key: %d", code)
	}
}

// Would catch: a key of the store that opens the admin calls without the scope,
// one of http.keys that is asked for in the store, a store that is down and lets
// everybody in.
func TestGuardAsksElsewhere(t *testing.T) {
	const own = "a-key-of-sufficient-length"
	asked := 0
	guarded := RequireKey([]string{own}, func(_ context.Context, token string) error {
		asked++
		return map[string]error{"operator": nil, "worker": ErrMayNot, "broken": errors.New("disk")}[token]
	}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	unknown := RequireKey(nil, func(context.Context, string) error { return fmt.Errorf("%w: it was revoked", ErrUnknownKey) }, guarded)
	for _, tt := range []struct {
		h      http.Handler
		header string
		code   int
		asked  int
	}{
		{guarded, "Bearer " + own, 204, 0},
		{guarded, "Bearer operator", 204, 1},
		{guarded, "bearer  operator ", 204, 1},
		{guarded, "Bearer worker", 403, 1},
		{guarded, "Bearer broken", 503, 1},
		{guarded, "Basic operator", 401, 0},
		{unknown, "Bearer operator", 401, 0},
	} {
		asked = 0
		r := httptest.NewRequest(http.MethodGet, "/v3/status", nil)
		r.Header.Set("Authorization", tt.header)
		w := httptest.NewRecorder()
		tt.h.ServeHTTP(w, r)
		if w.Code != tt.code || asked != tt.asked {
			t.Errorf("%q: %d after %d questions, want %d after %d: %s", tt.header, w.Code, asked, tt.code, tt.asked, w.Body)
		}
		if (w.Header().Get("WWW-Authenticate") != "") != (tt.code == 401) || (w.Header().Get("Retry-After") != "") != (tt.code == 503) {
			t.Errorf("%q: headers %v", tt.header, w.Header())
		}
	}
}

// Would catch: a call that the shared address does not know.
func TestPaths(t *testing.T) {
	paths := Paths()
	for _, c := range calls() {
		if !slices.Contains(paths, c.path) {
			t.Errorf("%s is missing", c.path)
		}
	}
	if slices.Contains(paths, "/v3/jobs") || len(slices.Compact(slices.Sorted(slices.Values(paths)))) != len(paths) {
		t.Errorf("paths %q", paths)
	}
}

// hurried is an answer with a deadline.
type hurried struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (h *hurried) SetWriteDeadline(t time.Time) error { h.deadline = t; return nil }

// TestTakesTime: what may last longer than an answer lifts the listener's
// deadline, which would cut the answer off.
func TestTakesTime(t *testing.T) {
	r := newRig(t)
	api := New(r.opts).Handler()
	for path, body := range map[string]string{
		"/v3/send":                `{"to":"ledger","message":{"id":"m","source":"send","time":"2026-01-02T15:04:05Z","body":"x"}}`,
		"/v3/dead-letters/replay": `{}`,
	} {
		w := &hurried{httptest.NewRecorder(), time.Now().Add(time.Second)}
		api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if !w.deadline.IsZero() {
			t.Errorf("%s: its answer must be out by %v", path, w.deadline)
		}
	}
}
