package app

// Catches: a message that is answered 202 and is not in the store, or is lost by
// a stop or by a reload that takes its queue away; a key that is printed twice,
// readable by others, or good though its start or its configuration came to
// nothing; an API that is open without a key; a stored message that nobody
// delivers after its source changed, and of which nobody is told; a setting of a
// queue that a reload does not put in force; a store that two processes have.

import (
	"bufio"
	"crypto/sha256"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// jobsConf is a configuration with jobs, a source with ack: stored at
// 127.0.0.1:1 and the admin listener at 127.0.0.1:2.
func (w *world) jobsConf(url, jobs string) string {
	text := w.conf(url, "")
	text = strings.Replace(text, `listen: "127.0.0.1:1" }`, `listen: "127.0.0.1:1", ack: stored }`, 1)
	return text + "\njobs: " + jobs + "\n"
}

// ask calls a path at a made-up address.
func (w *world) ask(method, address, path, key, body string) (int, string) {
	w.Helper()
	w.mu.Lock()
	real := w.real[address]
	w.mu.Unlock()
	r, err := http.NewRequest(method, "http://"+real+path, strings.NewReader(body))
	must(w.T, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(r)
	must(w.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(w.T, err)
	return res.StatusCode, string(text)
}

// key returns the first key as the state folder has it.
func (w *world) key() string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.folder, "state", "pawl.key"))
	must(w.T, err)
	return strings.TrimSpace(string(text))
}

// stubborn makes the destination try for long, and a stop be over soon.
var stubborn = strings.NewReplacer("retry: { attempts: 1 }", "retry: { attempts: 100, backoff: 100ms, max_backoff: 100ms }", "shutdown_timeout: 5s", "shutdown_timeout: 50ms")

// told reports whether a line of the log has all of the words.
func (w *world) told(words ...string) bool {
	for line := range strings.Lines(w.logged()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return true
		}
	}
	return false
}

// makeKey makes a key, over the control calls: for every queue, or for some.
func (r *runningApp) makeKey(name string, scopes []store.Scope, queues ...string) string {
	r.Helper()
	ask, err := json.Marshal(httpapi.KeyRequest{Name: name, Scopes: scopes, Queues: queues})
	must(r.T, err)
	req, err := http.NewRequest(http.MethodPost, "http://pawl/v3/keys", strings.NewReader(string(ask)))
	must(r.T, err)
	req.Header.Set("Content-Type", "application/json")
	w := &recorder{header: http.Header{}}
	r.jobs.Local("test").ServeHTTP(w, req)
	var made struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal([]byte(w.body.String()), &made); err != nil || made.Secret == "" {
		r.Fatalf("making a key: %d %s", w.status, w.body.String())
	}
	return made.Secret
}

type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(s int)           { r.status = s }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

func TestStoredOutlivesAStop(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	ep.answer(http.StatusServiceUnavailable)
	w.write(stubborn.Replace(w.jobsConf(ep.URL, "{}")))
	a := w.start()
	if status, body := w.send("127.0.0.1:1", "k1"); status != http.StatusAccepted || !strings.Contains(body, `"status":"stored"`) || !strings.Contains(body, `"id":"k1"`) {
		t.Fatalf("answered %d %s", status, body)
	}
	if status, _ := w.send("127.0.0.1:1", "k1"); status != http.StatusAccepted {
		t.Errorf("the same again: %d", status)
	}
	eventually(t, "it was tried", func() bool { return ep.count() > 0 })
	a.end()
	tried := ep.count()
	ep.answer(0)
	a = w.start()
	eventually(t, "it is delivered after the start", func() bool {
		_, text := w.ask(http.MethodGet, "127.0.0.1:2", "/metrics", "", "")
		return strings.Contains(text, `pawl_jobs{queue="relay:web",status="succeeded"} 1`) &&
			strings.Contains(text, `pawl_jobs_finished_total{queue="relay:web",status="succeeded"} 1`)
	})
	if n := ep.count() - tried; n != 1 {
		t.Errorf("it arrived %d times", n)
	}
	a.end()
}

func TestStoredRepeatsAndPauses(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, "{}"))
	a := w.start()
	defer a.end()
	if status, _ := w.send("127.0.0.1:1", "k1"); status != http.StatusAccepted {
		t.Fatalf("answered %d", status)
	}
	w.mu.Lock()
	real := w.real["127.0.0.1:1"]
	w.mu.Unlock()
	r, err := http.NewRequest(http.MethodPost, "http://"+real+"/", strings.NewReader("another body"))
	must(t, err)
	r.Header.Set("Idempotency-Key", "k1")
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusConflict {
		t.Errorf("another body under the key: %d", res.StatusCode)
	}
	eventually(t, "it is delivered", func() bool { return ep.count() == 1 })
	key := w.key()
	if status, text := w.ask(http.MethodPost, "127.0.0.1:2", "/v3/pause", key, `{"name":"web","by":"ada"}`); status != http.StatusOK {
		t.Fatalf("pause: %d %s", status, text)
	}
	if status, _ := w.send("127.0.0.1:1", "k2"); status != http.StatusServiceUnavailable {
		t.Errorf("a paused source answered %d", status)
	}
	if status, _ := w.ask(http.MethodPost, "127.0.0.1:2", "/v3/resume", key, `{"name":"web","by":"ada"}`); status != http.StatusOK {
		t.Fatalf("resume: %d", status)
	}
	if status, _ := w.send("127.0.0.1:1", "k2"); status != http.StatusAccepted {
		t.Errorf("after the pause: %d", status)
	}
	eventually(t, "it is delivered too", func() bool { return ep.count() == 2 })
	_, text := w.ask(http.MethodGet, "127.0.0.1:2", "/metrics", "", "")
	for _, want := range []string{
		`pawl_source_messages_total{outcome="stored",source="web"} 2`, `pawl_source_messages_total{outcome="conflict",source="web"} 1`,
		`pawl_source_messages_total{outcome="refused",source="web"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// What waits in the queue waits for places, and is not sent back and forth.
func TestStoredWaitsForPlaces(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	release := ep.hold()
	w.write(strings.Replace(w.jobsConf(ep.URL, "{}"), "ack: stored", "ack: stored, max_in_flight_bytes: 1KiB", 1))
	a := w.start()
	const n, fit = 5, 4 // of some 210 bytes each
	for i := range n {
		if status, body := w.send("127.0.0.1:1", fmt.Sprintf("%d%s", i, strings.Repeat("x", 200))); status != http.StatusAccepted {
			t.Errorf("message %d was answered %d %s", i, status, body)
		}
	}
	metrics := func() string {
		_, text := w.ask(http.MethodGet, "127.0.0.1:2", "/metrics", "", "")
		return text
	}
	eventually(t, "those that fit are sent, the rest is in hand", func() bool {
		return ep.count() == fit && strings.Contains(metrics(), `pawl_jobs{queue="relay:web",status="running"} 5`)
	})
	release()
	eventually(t, "all are", func() bool { return ep.count() == n })
	if text := metrics(); !strings.Contains(text, `pawl_source_messages_total{outcome="refused",source="web"} 0`) {
		t.Error("messages from the queue were refused")
	}
	a.end()
}

func TestFirstKey(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, "{ queues: { q: {} } }"))
	a := w.start()
	key := w.key()
	info, err := os.Stat(filepath.Join(w.folder, "state", "pawl.key"))
	must(t, err)
	if info.Mode().Perm() != 0o600 || !strings.HasPrefix(key, "pawl_") {
		t.Errorf("mode %v, key %q", info.Mode(), key)
	}
	if n := strings.Count(w.logged(), key); n != 1 {
		t.Errorf("the key was printed %d times", n)
	}
	job := `{"queue":"q","task":"t","payload":1}`
	if status, text := w.ask(http.MethodPost, "127.0.0.1:2", "/v3/jobs", key, job); status != http.StatusCreated {
		t.Errorf("with the first key: %d %s", status, text)
	}
	if status, _ := w.ask(http.MethodPost, "127.0.0.1:2", "/v3/jobs", "", job); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", status)
	}
	a.end()
	must(t, os.Remove(filepath.Join(w.folder, "state", "pawl.key")))
	a = w.start()
	if n := strings.Count(w.logged(), "first API key"); n != 1 {
		t.Errorf("%d first keys were made", n)
	}
	if fileThere(filepath.Join(w.folder, "state", "pawl.key")) {
		t.Error("the second start wrote a key")
	}
	a.end()
}

// A store that lost what was newest in it looks new, and is not taken for one: the
// key that there is would be overwritten, and nobody told of the jobs that are gone.
func TestAStoreWithoutItsKeysIsNotNew(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, "{ queues: { q: {} } }"))
	a := w.start()
	key := w.key()
	a.end()
	for _, name := range []string{"pawl.db", "pawl.db-wal"} {
		if err := os.Remove(filepath.Join(w.folder, "state", name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if _, err := New(w.options()); err == nil || !strings.Contains(err.Error(), "pawl.db-wal taken away") {
		t.Errorf("it starts: %v", err)
	}
	if w.key() != key {
		t.Error("the key is another")
	}
	must(t, os.Remove(filepath.Join(w.folder, "state", "pawl.key")))
	a = w.start()
	if w.key() == key {
		t.Error("the new store has the old key")
	}
	a.end()
}

// A start that fails leaves no key behind: the next one would print none.
func TestAFailedStartMakesNoKey(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, `{ listen: "127.0.0.1:3", queues: { q: {} } }`))
	for _, address := range []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"} {
		w.taken[address] = true
		if _, err := New(w.options()); err == nil {
			t.Fatalf("started though %s is taken", address)
		}
		w.taken[address] = false
		if w.told("first API key") || fileThere(filepath.Join(w.folder, "state", "pawl.key")) {
			t.Fatalf("a key was made though %s was taken", address)
		}
	}
	a := w.start()
	if status, text := w.ask(http.MethodGet, "127.0.0.1:3", "/v3/queues", w.key(), ""); status != http.StatusOK {
		t.Errorf("with the first key: %d %s", status, text)
	}
	a.end()
}

// A key that comes with a configuration is good from when that is in force, and
// not at all where it is refused.
func TestAKeyComesWithItsConfiguration(t *testing.T) {
	const given = "pawl_0123456789012345678901234567890123456789"
	ep, w := newEndpoint(t), newWorld(t)
	good := w.jobsConf(ep.URL, `{ listen: "127.0.0.1:3", queues: { q: {} } }`)
	w.write(good)
	a := w.start()
	defer a.end()
	with := func() int {
		status, _ := w.ask(http.MethodGet, "127.0.0.1:3", "/v3/queues", given, "")
		return status
	}
	t.Setenv(config.AdminKeyName, given)
	for what, text := range map[string]string{
		"another log":     good + "log: { format: text }\n",
		"a taken address": strings.Replace(good, `"127.0.0.1:2"`, `"127.0.0.1:4"`, 1),
	} {
		w.mu.Lock()
		w.taken["127.0.0.1:4"] = true
		w.mu.Unlock()
		w.write(text)
		if _, err := a.Reload(t.Context()); err == nil {
			t.Errorf("%s: it was not refused", what)
		}
		if got := with(); got != http.StatusUnauthorized {
			t.Errorf("%s: the key of the refused configuration is answered %d", what, got)
		}
	}
	w.write(good)
	if _, err := a.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if got := with(); got != http.StatusOK {
		t.Errorf("the key is answered %d", got)
	}
	k, err := a.jobs.store.KeyByHash(t.Context(), sha256.Sum256([]byte(given)))
	must(t, err)
	must(t, a.jobs.store.RevokeKey(t.Context(), k.ID))
	if _, err := a.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), config.AdminKeyName) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a key that was revoked is given: %v", err)
	}
}

func TestGivenKey(t *testing.T) {
	const given = "pawl_0123456789012345678901234567890123456789"
	t.Setenv(config.AdminKeyName, given)
	ep, w := newEndpoint(t), newWorld(t)
	w.write(strings.Replace(w.jobsConf(ep.URL, "{ queues: { q: {} } }"), `"127.0.0.1:2"`, `"0.0.0.0:2"`, 1))
	for range 2 {
		a := w.start()
		if status, text := w.ask(http.MethodGet, "0.0.0.0:2", "/v3/queues", given, ""); status != http.StatusOK {
			t.Errorf("with the given key: %d %s", status, text)
		}
		a.end()
	}
	if strings.Contains(w.logged(), given) || fileThere(filepath.Join(w.folder, "state", "pawl.key")) {
		t.Error("the given key was printed, or another one made")
	}
}

// TestAnEarlyCallerIsServed calls while the port is bound and nothing else is
// there yet: neither the key nor the path may be unknown to it.
func TestAnEarlyCallerIsServed(t *testing.T) {
	const given = "pawl_0123456789012345678901234567890123456789"
	t.Setenv(config.AdminKeyName, given)
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, `{ listen: "127.0.0.1:3", queues: { q: {} } }`))
	var early []net.Conn
	o := w.options()
	o.Listen = func(network, address string) (net.Listener, error) {
		ln, err := w.listen(network, address)
		if err != nil || address != "127.0.0.1:3" {
			return ln, err
		}
		for range 8 {
			c, err := net.Dial("tcp", ln.Addr().String())
			must(t, err)
			_, err = io.WriteString(c, "GET /v3/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+given+"\r\n\r\n")
			must(t, err)
			early = append(early, c)
		}
		return ln, nil
	}
	a := w.startWith(o)
	defer a.end()
	for _, c := range early {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		if res.StatusCode != http.StatusOK {
			t.Errorf("an early caller was answered %d", res.StatusCode)
		}
		must(t, c.Close())
	}
}

func TestNoKeyForOthers(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(strings.Replace(w.jobsConf(ep.URL, "{}"), `"127.0.0.1:2"`, `"0.0.0.0:2"`, 1))
	_, err := New(w.options())
	if err == nil || !strings.Contains(err.Error(), "pawl keys create") || !strings.Contains(err.Error(), "0.0.0.0:2") {
		t.Errorf("an API that others reach, without a key: %v", err)
	}
	if left := w.holds(); left != "" {
		t.Errorf("after the refusal are open: %s", left)
	}
}

func TestWhoMayCall(t *testing.T) {
	const own = "an-http-key-of-sufficient-length"
	ep, w := newEndpoint(t), newWorld(t)
	w.write(strings.Replace(w.jobsConf(ep.URL, "{ queues: { q: {} } }"), `listen: "127.0.0.1:2"`, `listen: "127.0.0.1:2", keys: [ `+own+` ]`, 1))
	a := w.start()
	admin, operator, worker := w.key(), a.makeKey("operator", []store.Scope{store.ScopeOperate}), a.makeKey("worker", []store.Scope{store.ScopeWork, store.ScopeProduce})
	narrow := a.makeKey("narrow", []store.Scope{store.ScopeOperate}, "q")
	for _, c := range []struct {
		path, key string
		want      int
	}{
		{"/v3/status", "", 401}, {"/v3/status", own, 200}, {"/v3/status", admin, 200}, {"/v3/status", operator, 200}, {"/v3/status", worker, 403}, {"/v3/status", narrow, 403},
		{"/v3/dead-letters", "", 401}, {"/v3/dead-letters", operator, 200},
		{"/v3/queues", "", 401}, {"/v3/queues", own, 401}, {"/v3/queues", admin, 200}, {"/v3/queues", operator, 200}, {"/v3/queues", worker, 403},
		{"/v3/keys", admin, 404}, {"/v3/nothing", admin, 404}, {"/v3/jobs/../queues", admin, 404}, {"/v3//status", own, 404}, {"/healthz", "", 200}, {"/readyz", "", 200}, {"/metrics", "", 200}, {"/v3/openapi.json", "", 200},
	} {
		if got, text := w.ask(http.MethodGet, "127.0.0.1:2", c.path, c.key, ""); got != c.want {
			t.Errorf("%s with %.20q: %d, want %d: %s", c.path, c.key, got, c.want, text)
		}
	}
	a.end()
}

func TestOwnListener(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, `{ listen: "127.0.0.1:3", queues: { q: {} } }`))
	a := w.start()
	key := w.key()
	for _, c := range []struct {
		address, path, key string
		want               int
	}{
		{"127.0.0.1:2", "/v3/status", "", 200}, {"127.0.0.1:2", "/v3/queues", key, 404},
		{"127.0.0.1:3", "/v3/status", key, 404}, {"127.0.0.1:3", "/v3/queues", key, 200}, {"127.0.0.1:3", "/v3/queues", "", 401},
		{"127.0.0.1:3", "/healthz", "", 200}, {"127.0.0.1:3", "/readyz", "", 200}, {"127.0.0.1:3", "/metrics", "", 200},
	} {
		got, text := w.ask(http.MethodGet, c.address, c.path, c.key, "")
		if got != c.want {
			t.Errorf("%s%s: %d, want %d: %s", c.address, c.path, got, c.want, text)
		}
		if c.path == "/metrics" && !strings.Contains(text, "pawl_store_disk_free_bytes ") {
			t.Error("nothing tells how full the disk of the job store is")
		}
	}
	w.write(w.jobsConf(ep.URL, `{ listen: "127.0.0.1:4", queues: { q: {} } }`))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if got, text := w.ask(http.MethodGet, "127.0.0.1:4", "/v3/queues", key, ""); got != http.StatusOK {
		t.Errorf("after it moved: %d %s", got, text)
	}
	w.mu.Lock()
	if w.open["127.0.0.1:3"] != 0 {
		t.Error("the old address is open still")
	}
	w.mu.Unlock()
	a.end()
}

func TestReloadJobs(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, "{ queues: { q: {} } }"))
	a := w.start()
	key := w.key()
	create := func(queue string) int {
		status, _ := w.ask(http.MethodPost, "127.0.0.1:2", "/v3/jobs", key, fmt.Sprintf(`{"queue":%q,"task":"t","payload":1}`, queue))
		return status
	}
	if create("q") != http.StatusCreated || create("later") != http.StatusUnprocessableEntity {
		t.Error("the queues before the reload")
	}
	if status, text := w.ask(http.MethodPut, "127.0.0.1:2", "/v3/queues/apart", key, `{}`); status != http.StatusOK || create("apart") != http.StatusCreated {
		t.Errorf("a queue of the API: %d %s", status, text)
	}
	w.write(w.jobsConf(ep.URL, "{ queues: { later: { timeout: 7m } } }"))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if create("q") != http.StatusUnprocessableEntity || create("later") != http.StatusCreated {
		t.Error("the queues after the reload")
	}
	if status, text := w.ask(http.MethodGet, "127.0.0.1:2", "/v3/status", key, ""); status != http.StatusOK || !strings.Contains(text,
		`"queues":[{"name":"apart","queued":1,"running":0,"failed":0},{"name":"later","queued":1,"running":0,"failed":0},{"name":"q","queued":1,"running":0,"failed":0,"undefined":true},`+
			`{"name":"relay:web","queued":0,"running":0,"failed":0}]`) {
		t.Errorf("the status is %d %s", status, text)
	}
	eventually(t, "somebody is told of the job that is left", func() bool { return w.told("jobs wait in a queue", `"queue":"q"`, `"jobs":1`) })
	if w.told("jobs wait in a queue", `"queue":"apart"`) {
		t.Error("the queue that the API names is said to have no workers")
	}
	for text, want := range map[string]string{
		w.jobsConf(ep.URL, `{ store: "sqlite:other.db" }`):                             "jobs.store",
		w.jobsConf(ep.URL, `{ allow_network_filesystem: true }`):                       "jobs.allow_network_filesystem",
		strings.Replace(w.conf(ep.URL, ""), "state:", "# no jobs any more\nstate:", 1): "jobs: the job server can't be turned on or off",
	} {
		w.write(text)
		if _, err := a.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "restart") {
			t.Errorf("want a refusal with %q: %v", want, err)
		}
	}
	if create("later") != http.StatusCreated {
		t.Error("a refused reload moved something")
	}
	a.end()
}

// Jobs come with a restart. A reload that asks for them is refused, and pawl goes
// on.
func TestReloadTurnsNoJobsOn(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.conf(ep.URL, ""))
	a := w.start()
	for _, jobs := range []string{"{}", `{ listen: "127.0.0.1:3" }`} {
		w.write(w.conf(ep.URL, "") + "\njobs: " + jobs + "\n")
		if _, err := a.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "jobs: the job server can't be turned on or off") {
			t.Errorf("jobs: %s: %v", jobs, err)
		}
	}
	if status, body := w.send("127.0.0.1:1", "m"); status != http.StatusOK {
		t.Errorf("afterwards: %d %s", status, body)
	}
	a.end()
}

// A source with stored messages is taken away, and comes back with another word
// on ack: the messages are told of, and delivered in the end.
func TestStoredSourceGoesAndComes(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	ep.answer(http.StatusServiceUnavailable)
	stored := stubborn.Replace(w.jobsConf(ep.URL, "{}"))
	w.write(stored)
	a := w.start()
	if status, _ := w.send("127.0.0.1:1", "k1"); status != http.StatusAccepted {
		t.Fatalf("answered %d", status)
	}
	eventually(t, "it was tried", func() bool { return ep.count() > 0 })
	w.write(strings.NewReplacer("name: web", "name: other", "from: [web]", "from: [other]").Replace(stored))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "somebody is told of the message that is left", func() bool {
		return w.told("stored messages wait for a source", `"queue":"relay:web"`, `"messages":1`)
	})
	a.end()
	tried := ep.count()
	ep.answer(0)
	w.write(strings.Replace(stored, ", ack: stored", "", 1))
	a = w.start()
	eventually(t, "it is delivered although the source does not store any more", func() bool { return ep.count() == tried+1 })
	if status, body := w.send("127.0.0.1:1", "k2"); status != http.StatusOK || !strings.Contains(body, "delivered") {
		t.Errorf("the source answers %d %s", status, body)
	}
	a.end()
}

func TestQueueBetweenTwoRoutes(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(fmt.Sprintf(`
state: %s/state
http: { listen: "127.0.0.1:2" }
jobs: { queues: { buffer: {} } }
sources:
  - { name: web, type: http, listen: "127.0.0.1:1" }
  - { name: work, type: queue, queue: buffer }
routes:
  - { name: in, from: [web], to: [buffer] }
  - { name: out, from: [work], to: [ep] }
destinations:
  - { name: buffer, type: queue, queue: buffer, task: relay }
  - { name: ep, type: http, url: "%s" }
`, w.folder, ep.URL))
	a := w.start()
	if status, body := w.send("127.0.0.1:1", "k1"); status != http.StatusOK || !strings.Contains(body, "delivered") {
		t.Errorf("answered %d %s", status, body)
	}
	eventually(t, "it came through", func() bool { return ep.count() == 1 })
	a.end()
}

// A message that is on its way to a queue which a reload takes away comes into it.
func TestAQueueLeavesUnderAMessage(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	release := ep.hold()
	ep.answer(http.StatusBadRequest)
	before := w.jobsConf(ep.URL, "{ queues: { buffer: {}, q: {} } }")
	before = strings.NewReplacer(", ack: stored", "", "retry: { attempts: 1 } }", `retry: { attempts: 1 }, fallback: [buffer] }
  - { name: buffer, type: queue, queue: buffer, task: relay }`).Replace(before)
	w.write(before)
	a := w.start()
	type answer struct {
		status int
		text   string
	}
	answered := make(chan answer, 1)
	go func() {
		status, text := w.send("127.0.0.1:1", "k1")
		answered <- answer{status, text}
	}()
	eventually(t, "it is under way", func() bool { return ep.count() == 1 })
	after := strings.Replace(w.jobsConf(ep.URL, "{ queues: { q: {} } }"), ", ack: stored", "", 1)
	for _, more := range []string{"", "  # another one\n"} { // and one more while it drains
		w.write(after + more)
		if _, err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	release()
	if got := <-answered; got.status != http.StatusOK || !strings.Contains(got.text, `"delivered"`) {
		t.Errorf("answered %d %s", got.status, got.text)
	}
	if status, text := w.ask(http.MethodGet, "127.0.0.1:2", "/v3/status", w.key(), ""); status != http.StatusOK || !strings.Contains(text, `{"name":"buffer","queued":1,`) {
		t.Errorf("the status is %d %s", status, text)
	}
	eventually(t, "somebody is told of its job", func() bool { return w.told("a message of an earlier configuration", `"queue":"buffer"`) })
	a.end()
}

func TestLockedStore(t *testing.T) {
	ep, w, other := newEndpoint(t), newWorld(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, "{}"))
	a := w.start()
	other.write(other.jobsConf(ep.URL, fmt.Sprintf(`{ store: "sqlite:%s/state/pawl.db" }`, w.folder)))
	_, err := New(other.options())
	if locked, ok := errors.AsType[*LockedError](err); !ok || locked.PID != os.Getpid() {
		t.Errorf("a store that somebody has: %v", err)
	}
	a.end()
}

func TestStoreWithoutJobs(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, "{}"))
	w.start().end()
	w.write(w.conf(ep.URL, ""))
	w.start().end()
	if !strings.Contains(w.logged(), "there is a job store, and the configuration has no jobs") {
		t.Error("nobody is told of the store that is not opened any more")
	}
}

// The configuration and the job server each say their bounds: they must be the
// same.
func TestBoundsAgree(t *testing.T) {
	for what, pair := range map[string][2]any{
		"least lease":     {config.MinLease, jobserver.MinLease},
		"lease":           {config.DefaultLease, jobserver.DefaultLease},
		"longest lease":   {config.MaxLease, jobserver.MaxLease},
		"least timeout":   {config.MinJobTimeout, jobserver.MinTimeout},
		"timeout":         {config.DefaultJobTimeout, jobserver.DefaultTimeout},
		"longest timeout": {config.MaxJobTimeout, jobserver.MaxTimeout},
		"least kept":      {config.MinKeep, jobserver.MinRetention},
		"finished":        {config.DefaultKeepFinished, jobserver.DefaultFinished},
		"dead letters":    {config.DefaultKeepDeadLetters, jobserver.DefaultDeadLetters},
		"longest kept":    {config.MaxKeep, jobserver.MaxRetention},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v in the configuration, %v in the job server", what, pair[0], pair[1])
		}
	}
}

// Would catch: letters that are kept elsewhere than the configuration says, and
// ones that nobody is told of after it says another place.
func TestLettersInTheStore(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	ep.answer(http.StatusBadRequest)
	inFiles := w.conf(ep.URL, "") + "\njobs: {}\n"
	inStore := inFiles + "dead_letter: { type: store }\n"
	letters := func(a *runningApp) int {
		t.Helper()
		status, text := w.ask(http.MethodGet, "127.0.0.1:2", "/v3/dead-letters", w.key(), "")
		if status != http.StatusOK {
			t.Errorf("the list: %d %s", status, text)
		}
		return strings.Count(text, "\n")
	}
	die := func(key string) {
		t.Helper()
		if status, body := w.send("127.0.0.1:1", key); status != http.StatusOK || !strings.Contains(body, "dead_lettered") {
			t.Errorf("%s: %d %s", key, status, body)
		}
	}
	w.write(inStore)
	a := w.start()
	die("one")
	if n := letters(a); n != 1 {
		t.Errorf("%d letters in the store", n)
	}
	w.write(inFiles)
	if _, err := a.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "can't move from the job store to the folder") {
		t.Errorf("another place at a reload: %v", err)
	}
	a.end()
	a = w.start()
	eventually(t, "somebody is told of the letters in the store", func() bool { return w.told("are in the job store", `"letters":1`) })
	die("two")
	die("three")
	if n := letters(a); n != 2 {
		t.Errorf("%d letters in files", n)
	}
	a.end()
	w.write(inStore)
	a = w.start()
	eventually(t, "somebody is told of the letters in files", func() bool { return w.told("are in a folder", `"letters":2`) })
	if n := letters(a); n != 1 {
		t.Errorf("%d letters in the store after a while in files", n)
	}
	a.end()
}

// Would catch: closed letters that fill the store for ever, and open ones that
// are lost to time.
func TestOldLettersGo(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, "{ retention: { dead_letters: 1d } }"))
	c, report := w.options().Load()
	must(t, report.Err())
	j, err := OpenJobs(c, slog.New(slog.DiscardHandler))
	must(t, err)
	defer func() { must(t, j.Close()) }()
	now := time.Now()
	for id, age := range map[string]time.Duration{"old": 25 * time.Hour, "new": time.Hour, "open": 25 * time.Hour} {
		must(t, j.store.AddLetter(t.Context(), store.Letter{ID: id, MessageID: id, Reason: message.ReasonDelivery, At: now.Add(-age), Body: []byte("{}"), State: store.LetterOpen}))
	}
	must(t, j.store.MarkLetters(t.Context(), []string{"old", "new"}, store.LetterReplayed, now))
	j.Run()
	left := func() string {
		all, err := j.store.Letters(t.Context(), store.LetterFilter{}, 0)
		must(t, err)
		var ids []string
		for _, l := range all {
			ids = append(ids, l.ID)
		}
		slices.Sort(ids)
		return strings.Join(ids, " ")
	}
	eventually(t, "the old one is gone", func() bool { return left() == "new open" })
}

// TestStatusShowsOpenCircuits opens a circuit by one failure.
func TestStatusShowsOpenCircuits(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, `{ queues: { q: {} }, endpoints: { far: { circuit: { failures: 1 } } } }`))
	a := w.start()
	defer a.end()
	for _, call := range []struct{ path, body string }{
		{"/v3/jobs", `{"queue":"q","task":"t","endpoint":"far","payload":{}}`},
		{"/v3/claims", `{"worker":"worker-1","queues":["q"],"max":1}`},
	} {
		status, text := w.ask(http.MethodPost, "127.0.0.1:2", call.path, w.key(), call.body)
		if status/100 != 2 {
			t.Fatalf("%s: %d %s", call.path, status, text)
		}
		if _, after, ok := strings.Cut(text, `"lease":"`); ok {
			lease, _, _ := strings.Cut(after, `"`)
			w.ask(http.MethodPost, "127.0.0.1:2", "/v3/reports", w.key(), `{"worker":"worker-1","reports":[{"type":"fail","lease":"`+lease+`"}]}`)
		}
	}
	_, text := w.ask(http.MethodGet, "127.0.0.1:2", "/v3/status", w.key(), "")
	if !strings.Contains(text, `"circuits":[{"endpoint":"far","state":"open","opened_at":"`) {
		t.Errorf("%s", text)
	}
	eventually(t, "the log tells of it", func() bool { return w.told(`"WARN"`, `"a circuit opened"`, `"endpoint":"far"`) })
}

// What waits for a subscription that is there is nobody's to hear of; what waits for
// one that is gone waits for no source.
func TestDeliveriesOfEventsWaitForTheirSubscription(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, `{ queues: { q: {} }, subscriptions: [ { name: here, events: [job.failed], to: [ep] } ] }`))
	a := w.start()
	a.tellLeft(a.engine.Config(), map[string]int64{"relay:events:here": 2, "relay:events:gone": 1})
	eventually(t, "the one that is gone is told", func() bool {
		return w.told("deliveries of events wait for a subscription", `"subscription":"gone"`, `"deliveries":1`)
	})
	if w.told(`"subscription":"here"`) || w.told("stored messages wait for a source") {
		t.Error("more is told")
	}
	a.end()
}
