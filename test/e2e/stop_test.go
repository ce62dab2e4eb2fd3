package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// TestSIGTERM stops pawl under load: exit 0, and every answer that went out is
// kept. What is in flight at an endpoint that takes its time is finished.
func TestSIGTERM(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	ep.fails(seed(t), 0.3, http.StatusServiceUnavailable)
	s.write(oneEndpoint(ep))
	p := s.start()
	c := load(t, s.url(), "m", 16, time.Millisecond)
	eventually(t, "the load is on", func() bool { return c.acked() > 50 })
	release := ep.holds()
	one := make(chan answer, 1)
	go func() { one <- send(s.url(), "slow") }()
	eventually(t, "it is in flight", func() bool { return ep.tries("slow") > 0 })
	began := time.Now()
	p.signal(syscall.SIGTERM)
	eventually(t, "it drains", func() bool { return containsAny(p.err.String(), `"msg":"stopping"`) })
	release()
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if took := time.Since(began); took > 10*time.Second { // shutdown_timeout
		t.Errorf("stopping took %v", took)
	}
	answers := c.end()
	answers["slow"] = <-one
	if a := answers["slow"]; a.code != http.StatusOK {
		t.Errorf("a message in flight was answered %+v", a)
	}
	checkAcked(t, s, ep, answers)
	t.Logf("answers %v", codes(answers))
}

// TestSIGTERMHang stops pawl while an endpoint hangs for longer than
// shutdown_timeout: the rest is given back, and that is a good end.
func TestSIGTERMHang(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	defer ep.holds()()
	s.write(oneEndpoint(ep))
	s.rewrite("shutdown_timeout: 10s", "shutdown_timeout: 300ms")
	s.rewrite("timeout: 5s", "timeout: 60s")
	p := s.start()
	const n = 5
	told := make(chan answer, n)
	for i := range n {
		go func() { told <- send(s.url(), fmt.Sprintf("m-%d", i)) }()
	}
	eventually(t, "all are in flight", func() bool {
		for i := range n {
			if ep.tries(fmt.Sprintf("m-%d", i)) == 0 {
				return false
			}
		}
		return true
	})
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d, want 0: nothing is lost", code)
	}
	for range n {
		if a := <-told; a.code != http.StatusServiceUnavailable || a.retryAfter == "" || a.id == "" {
			t.Errorf("answered %+v, want 503 with Retry-After and the id", a)
		}
	}
	has(t, p.err.String(), "shutdown_timeout was too short", `"messages":5`)
	if left := s.letters(); len(left) != 0 {
		t.Errorf("dead letters of what was given back: %v", left)
	}
}

// TestSecondSignal ends pawl at once.
func TestSecondSignal(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	defer ep.holds()()
	s.write(oneEndpoint(ep))
	s.rewrite("shutdown_timeout: 10s", "shutdown_timeout: 1h")
	p := s.start()
	told := make(chan answer, 1)
	go func() { told <- send(s.url(), "m") }()
	eventually(t, "it is in flight", func() bool { return ep.tries("m") > 0 })
	p.signal(syscall.SIGTERM)
	eventually(t, "it drains", func() bool { return containsAny(p.err.String(), `"msg":"stopping"`) })
	if status, body := s.get("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz while stopping: %d %s", status, body)
	}
	p.signal(syscall.SIGTERM)
	p.wait()
	if got := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", p.cmd.ProcessState)
	}
	if a := <-told; a.code != 0 {
		t.Errorf("answered %+v", a)
	}
	s.start().stop() // and nothing is in the way of the next
}

// TestSIGTERMReplay stops pawl in the middle of a replay: the rest stays open.
func TestSIGTERMReplay(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	p := s.start()
	die(s, ep, "m", 30)
	replayed := make(chan result, 1)
	go func() { replayed <- s.run("dlq", "replay", "--all", "--rate", "10/s") }()
	eventually(t, "the replay begins", func() bool { return ep.count() > 2 })
	p.stop()
	if r := <-replayed; r.code != 1 {
		t.Errorf("the replay exited %d: %s%s", r.code, r.out, r.errOut)
	}
	s.must(0, "dlq", "replay", "--all")
	if left := s.letters(); len(left) != 0 || ep.count() != 30 {
		t.Errorf("%d arrived, %v left", ep.count(), left)
	}
}
