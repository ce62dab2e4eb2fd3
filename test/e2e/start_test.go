package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// refuses runs `pawl run`, which must exit 2 and say what is wrong.
func (s *site) refuses(parts ...string) {
	s.Helper()
	p := s.launch()
	if code := p.wait(); code != 2 {
		s.Errorf("exit %d, want 2", code)
	}
	has(s.TB, p.err.String(), parts...)
	if n := strings.Count(p.err.String(), "\n"); n > 12 {
		s.Errorf("%d lines for one mistake:\n%s", n, p.err)
	}
}

func TestLockedState(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	p := s.start()
	s.refuses(fmt.Sprintf("state folder %s is locked by pawl (pid %d)", s.state(), p.cmd.Process.Pid))
	if a := send(s.url(), "m"); a.status != "delivered" {
		t.Errorf("the first one answers %+v", a)
	}
	info, err := os.Stat(s.state())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("state folder: %v, %v", info.Mode(), err)
	}
	info, err = os.Stat(s.path("state/pawl.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("control socket: %v, %v", info.Mode(), err)
	}
	p.kill()
	s.start().stop() // neither the lock nor the socket of a killed pawl is in the way
}

func TestTakenPort(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	free := s.listen
	s.listen = l.Addr().String()
	s.write(oneEndpoint(ep))
	s.refuses("source web: can't listen at "+s.listen, "address already in use")
	// Everything was given back: the same folder starts at another port.
	s.listen = free
	admin := s.admin
	s.admin = l.Addr().String()
	s.write(oneEndpoint(ep))
	s.refuses("http.listen: can't listen at "+s.admin, "address already in use")
	s.admin = admin
	s.write(oneEndpoint(ep))
	s.start().stop()
}

func TestStateThatCantBe(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	if err := os.WriteFile(s.path("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.write(oneEndpoint(ep))
	s.rewrite("state: "+s.state(), "state: $FOLDER/file/below")
	s.refuses("state folder", "not a directory")
}

// TestBadConfiguration says everything at once.
func TestBadConfiguration(t *testing.T) {
	s := newSite(t)
	s.write(`
routes:
  - { name: all, from: [web, nobody], to: [ ep ] }
destinations:
  - { name: ep, type: http, url: "http://127.0.0.1:9/", retires: 3, timeout: 5 parsecs }
`)
	wants := []string{`unknown key "retires"`, `did you mean "retry"?`, "nobody", "parsecs", "pawl.yaml:9:"}
	s.refuses(wants...)
	r := s.run("lint")
	if r.code != 1 {
		t.Errorf("lint exited %d, want 1", r.code)
	}
	has(t, r.out, wants...)
	lint := decode[struct {
		OK       bool             `json:"ok"`
		Problems []map[string]any `json:"problems"`
	}](t, s.must(1, "lint", "--json"))
	if lint.OK || len(lint.Problems) != 3 {
		t.Errorf("lint --json: %+v", lint)
	}
	if _, err := os.Stat(s.state()); err == nil {
		t.Error("a refused configuration made a state folder")
	}
	if r := s.run("run", "-c", s.path("nosuch.yaml")); r.code != 2 || !strings.Contains(r.errOut, "nosuch.yaml") {
		t.Errorf("a missing file: exit %d, %s", r.code, r.errOut)
	}
}
