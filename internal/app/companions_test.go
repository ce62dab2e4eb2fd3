package app

// Catches: a message that was answered 202 and that nobody takes from its queue,
// since its source stopped storing while the request was on its way; a queue
// that takes no more at once than it did before a reload.

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A request that has begun when a reload takes ack: stored away is stored still,
// and delivered.
func TestStoredWhileTheSourceStopsStoring(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	stored := w.jobsConf(ep.URL, "{}")
	w.write(stored)
	a := w.start()
	if status, body := w.send("127.0.0.1:1", "m1"); status != http.StatusAccepted {
		t.Fatalf("answered %d %s", status, body)
	}
	eventually(t, "the first is delivered", func() bool { return ep.count() == 1 })

	finish := w.begin("127.0.0.1:1", `{"key":"m2"}`)
	w.write(strings.Replace(stored, ", ack: stored", "", 1))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := finish(); status != http.StatusAccepted {
		t.Fatalf("the one that had begun is answered %d", status)
	}
	eventually(t, "what was stored is delivered", func() bool { return ep.count() == 2 })

	eventually(t, "the source that stored has ended", func() bool { return ended(a.sources.storing["web"]) })
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(a.sources.companions) != 0 || len(a.sources.storing) != 0 {
		t.Errorf("nothing is stored any more, and %v take it, %v store it", a.sources.companions, a.sources.storing)
	}
	a.end()
}

func ended(all []*running) bool {
	for _, r := range all {
		select {
		case <-r.done:
		default:
			return false
		}
	}
	return true
}

// begin sends a request whose source waits for its body; finish sends that and
// returns the answer's status.
func (w *world) begin(address, body string) (finish func() int) {
	w.Helper()
	w.mu.Lock()
	real := w.real[address]
	w.mu.Unlock()
	conn, err := net.Dial("tcp", real)
	must(w.T, err)
	w.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: pawl\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(body))
	must(w.T, err)
	answers := bufio.NewReader(conn)
	for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} { // it reads the body
		if line, err := answers.ReadString('\n'); line != want {
			w.Fatalf("the source says %q: %v", line, err)
		}
	}
	return func() int {
		w.Helper()
		_, err := conn.Write([]byte(body))
		must(w.T, err)
		res, err := http.ReadResponse(answers, nil)
		must(w.T, err)
		must(w.T, res.Body.Close())
		return res.StatusCode
	}
}

// A reload that raises max_in_flight raises what is taken from the queue at once.
func TestMoreInFlightFromAQueue(t *testing.T) {
	const queued = `
state: %s/state
http: { listen: "127.0.0.1:2" }
jobs: { queues: { buffer: {} } }
sources:
  - { name: web, type: http, listen: "127.0.0.1:1" }
  - { name: work, type: queue, queue: buffer, max_in_flight: MOST }
routes:
  - { name: in, from: [web], to: [buffer] }
  - { name: out, from: [work], to: [ep] }
destinations:
  - { name: buffer, type: queue, queue: buffer, task: relay }
  - { name: ep, type: http, url: "%s", timeout: 30s }
`
	for name, conf := range map[string]func(w *world, url string) string{
		"of a source that stores": func(w *world, url string) string {
			return strings.Replace(w.jobsConf(url, "{}"), "ack: stored", "ack: stored, max_in_flight: MOST", 1)
		},
		"of type queue": func(w *world, url string) string { return fmt.Sprintf(queued, w.folder, url) },
	} {
		t.Run(name, func(t *testing.T) {
			ep, w := newEndpoint(t), newWorld(t)
			write := func(most string) { w.write(strings.Replace(conf(w, ep.URL), "MOST", most, 1)) }
			write("1")
			a := w.start()
			write("3")
			if _, err := a.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			release := ep.hold()
			defer release()
			for _, key := range []string{"m1", "m2", "m3"} {
				if status, body := w.send("127.0.0.1:1", key); status/100 != 2 {
					t.Fatalf("answered %d %s", status, body)
				}
			}
			eventually(t, "as many are in flight as the reload allows", func() bool { return ep.count() == 3 })
			release()
			a.end()
		})
	}
}
