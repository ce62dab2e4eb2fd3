package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (s *site) generation() int {
	s.Helper()
	return decode[struct {
		Generation int `json:"generation"`
	}](s.TB, s.must(0, "status", "--json")).Generation
}

// TestReload reloads good and bad configurations under load, by signal and by
// command, with changed destinations and changed sources. No request fails.
func TestReload(t *testing.T) {
	s := newSite(t)
	one, two := newEndpoint(t), newEndpoint(t)
	s.write(oneEndpoint(one))
	p := s.start()
	c := load(t, s.url(), "m", 8, time.Millisecond)
	eventually(t, "messages flow", func() bool { return c.acked() > 20 })

	s.write(oneEndpoint(two))
	if out := s.must(0, "reload"); out != "reloaded; this is configuration 2\n" {
		t.Errorf("reload says %q", out)
	}
	if a := send(s.url(), "after"); a.status != "delivered" || two.got("after") != 1 {
		t.Errorf("after the reload: %+v, and %d at the new endpoint", a, two.got("after"))
	}

	s.write(oneEndpoint(one))
	p.signal(syscall.SIGHUP)
	eventually(t, "SIGHUP reloads", func() bool { return s.generation() == 3 })

	s.rewrite("from: [web]", "from: [wep]")
	r := s.run("reload")
	if r.code != 2 {
		t.Errorf("a bad configuration: exit %d", r.code)
	}
	has(t, r.errOut, "pawl.yaml:", "wep", "did you mean")
	p.signal(syscall.SIGHUP)
	eventually(t, "a bad SIGHUP is logged", func() bool { return strings.Count(p.err.String(), "wep") >= 2 })

	s.write(oneEndpoint(two))
	s.rewrite("state: ", "state: x")
	r = s.runWith("", "reload", "--state", s.state())
	if r.code != 2 || !strings.Contains(r.errOut, "restart pawl") {
		t.Errorf("a changed state folder: exit %d, %s", r.code, r.errOut)
	}

	// A port that is taken is found only when it is opened.
	s.write(oneEndpoint(two))
	s.rewrite("path: /events }", "path: /events }\n  - { name: extra, type: http, listen: \""+one.address+"\" }")
	r = s.run("reload")
	if r.code != 2 || !strings.Contains(r.errOut, "address already in use") {
		t.Errorf("a taken port: exit %d, %s", r.code, r.errOut)
	}
	if g := s.generation(); g != 3 {
		t.Errorf("refused configurations made generation %d", g)
	}

	// A changed source takes over at the same address.
	for i := range 5 {
		s.write(oneEndpoint(two))
		s.rewrite("path: /events", fmt.Sprintf("max_body: %dKiB, path: /events", 10+i))
		s.must(0, "reload")
	}
	answers := c.end()
	for key, a := range answers {
		if a.code != http.StatusOK || a.status != "delivered" {
			t.Errorf("%s was answered %+v", key, a)
		}
	}
	if len(answers) < 200 {
		t.Errorf("only %d messages: the test looks at nothing", len(answers))
	}
	p.stop()
}

// TestWatch reloads when a file changes.
func TestWatch(t *testing.T) {
	s := newSite(t)
	one, two := newEndpoint(t), newEndpoint(t)
	s.write(oneEndpoint(one))
	p := s.start("--watch")
	n := 0
	eventually(t, "the change takes effect", func() bool {
		if n++; n == 1 {
			s.write(oneEndpoint(two))
		}
		key := fmt.Sprintf("m-%d", n)
		return send(s.url(), key).status == "delivered" && two.got(key) == 1
	})
	p.stop()
}
