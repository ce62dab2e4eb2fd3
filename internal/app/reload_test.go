package app

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
)

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

// TestOlderNamesStillCount: a message of a configuration that is not even the
// last but one is counted under its own names, and these go when it has ended.
func TestOlderNamesStillCount(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	conf := func(name string) string {
		return strings.NewReplacer("[ep]", "["+name+"]", "name: ep", "name: "+name).Replace(w.conf(ep.URL, ""))
	}
	w.write(conf("first"))
	a := w.start()
	release := ep.hold()
	ended := make(chan int, 1)
	go func() { code, _ := w.send("127.0.0.1:1", "m"); ended <- code }()
	eventually(t, "the message is at the endpoint", func() bool { return ep.count() == 1 })
	reload := func(name string) {
		t.Helper()
		w.write(conf(name))
		if _, err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	scrape := func() string {
		t.Helper()
		w.mu.Lock()
		real := w.real["127.0.0.1:2"]
		w.mu.Unlock()
		res, err := http.Get("http://" + real + "/metrics")
		must(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		must(t, err)
		var ours []string
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "pawl_delivery_attempts") {
				ours = append(ours, line)
			}
		}
		return strings.Join(ours, "")
	}
	for _, name := range []string{"second", "third", "fourth"} {
		reload(name)
	}
	release()
	if code := <-ended; code != http.StatusOK {
		t.Errorf("the message ended with %d", code)
	}
	counted := `pawl_delivery_attempts_total{destination="first",endpoint="first",outcome="ok"} 1`
	if text := scrape(); !strings.Contains(text, counted) || strings.Contains(text, `"second"`) {
		t.Errorf("want %s and nothing of second:\n%s", counted, text)
	}
	eventually(t, "the first configuration has drained", func() bool { return !a.engine.Relay().Drains(1) })
	reload("fifth")
	if text := scrape(); strings.Contains(text, `"first"`) || !strings.Contains(text, `"fourth"`) {
		t.Errorf("the names that drained are still there, or the last ones are not:\n%s", text)
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
