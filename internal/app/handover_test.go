package app

// Catches: a reload that is refused since a path passes from one source to
// another, one that leaves the path unserved for a moment, and one that is
// taken back and leaves the path to the wrong source; and a stop that makes a
// path look like one that was never there.

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// passing is a configuration with one route from all sources; each source is
// its name and path.
func (w *world) passing(url, more string, sources ...[2]string) string {
	var list, names []string
	for _, s := range sources {
		list = append(list, fmt.Sprintf(`  - { name: %s, type: http, listen: "127.0.0.1:1", path: %s, answer: { body: %s } }`, s[0], s[1], s[0]))
		names = append(names, s[0])
	}
	return fmt.Sprintf("state: %s/state\nhttp: { listen: off }\nsources:\n%s\nroutes: [ { name: all, from: [%s], to: [ep] } ]\ndestinations:\n  - { name: ep, type: http, url: %q }\n%s\n",
		w.folder, strings.Join(list, "\n"), strings.Join(names, ", "), url, more)
}

// who returns which source answers at a path.
func (w *world) who(path string) (string, error) {
	w.mu.Lock()
	real := w.real["127.0.0.1:1"]
	w.mu.Unlock()
	res, err := http.Post("http://"+real+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return fmt.Sprint(res.Status, string(text)), err
	}
	return string(text), err
}

func TestPathPassesToARenamedSource(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.passing(ep.URL, "", [2]string{"old", "/"}))
	r := w.start()
	defer r.end()

	// Callers never meet a path that nobody serves.
	var over atomic.Bool
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for !over.Load() {
				if who, err := w.who("/"); err != nil || who != "old" && who != "new" && !strings.HasPrefix(who, "503") {
					t.Errorf("answered %q, %v", who, err)
					return
				}
			}
		})
	}
	w.write(w.passing(ep.URL, "  - { name: x, type: unopenable }", [2]string{"new", "/"}))
	if _, err := r.Reload(t.Context()); err == nil {
		t.Error("a destination that can't be opened is taken")
	}
	if who, err := w.who("/"); who != "old" {
		t.Errorf("after a refused reload %q answers, %v", who, err)
	}
	w.write(w.passing(ep.URL, "", [2]string{"new", "/"}))
	if _, err := r.Reload(t.Context()); err != nil {
		t.Errorf("a renamed source: %v", err)
	}
	if who, err := w.who("/"); who != "new" {
		t.Errorf("after the reload %q answers, %v", who, err)
	}
	over.Store(true)
	callers.Wait()
}

func TestTwoSourcesSwapPaths(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	w.write(w.passing(ep.URL, "", [2]string{"a", "/1"}, [2]string{"b", "/2"}))
	r := w.start()
	defer r.end()
	w.write(w.passing(ep.URL, "", [2]string{"a", "/2"}, [2]string{"b", "/1"}))
	if _, err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/1": "b", "/2": "a"} {
		if who, err := w.who(path); who != want {
			t.Errorf("%s is answered by %q, %v; want %q", path, who, err, want)
		}
	}
}

// Of two sources at one address one is done at once when pawl stops, and the
// other has a message that hangs: the first tells its senders to come again for
// as long as the stop takes.
func TestStopTurnsAwayAtEveryPath(t *testing.T) {
	w := newWorld(t)
	ep := newEndpoint(t)
	release := ep.hold()
	defer release()
	w.write(w.passing(ep.URL, "", [2]string{"a", "/1"}, [2]string{"b", "/2"}))
	r := w.start()
	hangs := make(chan string, 1)
	go func() {
		who, _ := w.who("/1")
		hangs <- who
	}()
	eventually(t, "a message hangs", func() bool { return ep.count() == 1 })
	r.stop()
	eventually(t, "the stop began", func() bool { return r.api().Status(t.Context()).Stopping })
	eventually(t, "the source that is idle has ended", func() bool {
		select {
		case <-r.sources.running["b"].done:
			return true
		default:
			return false
		}
	})
	for range 20 {
		if who, err := w.who("/2"); err != nil || !strings.HasPrefix(who, "503") {
			t.Errorf("while another source drains: %q, %v", who, err)
			break
		}
	}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() { // until nobody listens
			for {
				who, err := w.who("/2")
				if err != nil {
					return
				}
				if !strings.HasPrefix(who, "503") {
					t.Errorf("at the end of the stop: %q", who)
					return
				}
			}
		})
	}
	release()
	r.end()
	callers.Wait()
	if who := <-hangs; who != "a" {
		t.Errorf("the message that hung is answered %q", who)
	}
}
