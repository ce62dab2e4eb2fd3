package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// storedConfig answers 202 once a message is in the store, and delivers from
// there.
func storedConfig(ep *endpoint) string {
	return fmt.Sprintf(`relay: e2e
state: $STATE
http: { listen: "$ADMIN" }
shutdown_timeout: 10s
jobs: {}
dead_letter: { type: store }
sources:
  - { name: web, type: http, listen: "$LISTEN", path: /events, ack: stored }
routes:
  - { name: all, from: [web], to: [ep] }
destinations:
  - name: ep
    type: http
    url: "%s"
    timeout: 2s
    retry: { attempts: 2, backoff: 5ms, max_backoff: 20ms }
    circuit_breaker: false
`, ep.url())
}

// TestKillStored kills pawl under an intake that answers before delivery: what
// was answered 202 arrives, or is a dead letter, after the next start.
func TestKillStored(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 4))
	s := newSite(t)
	ep := newEndpoint(t)
	s.writeRaw(storedConfig(ep))
	answers := map[string]answer{}
	n, began := max(rounds(t)/4, 2), time.Now()
	for round := range n {
		ep.fails(random.Uint64(), 0.5*random.Float64(), http.StatusServiceUnavailable)
		p := s.start()
		c := load(t, s.url(), fmt.Sprintf("s%03d", round), 16, 0)
		eventually(t, "messages are stored, and one arrives", func() bool {
			return c.answered(http.StatusAccepted) >= 20 && ep.count() > 0
		})
		<-time.After(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		p.kill()
		for key, a := range c.end() {
			answers[key] = a
		}
	}
	ep.answers(func(string) int { return http.StatusOK })
	p := s.start()
	stored := map[string]bool{}
	for key, a := range answers {
		switch {
		case a.code == http.StatusAccepted && a.status == "stored" && a.id == key:
			stored[key] = true
		case a.code != 0 && a.code != http.StatusServiceUnavailable:
			t.Errorf("%s was answered %+v", key, a)
		}
	}
	if len(stored) < 20*n {
		t.Errorf("only %d messages were stored: the test looks at nothing", len(stored))
	}
	// A message that failed again and again is tried ever more seldom: as long again as
	// all rounds took, and a half.
	long := patience + 3*time.Since(began)/2
	var missing []string
	if !inTimeOf(long, func() bool {
		missing = missing[:0]
		dead := ids(s.letters())
		for key := range stored {
			if ep.got(key) == 0 && !dead[key] {
				missing = append(missing, key)
			}
		}
		return len(missing) == 0
	}) {
		t.Fatalf("not within %v: %d of %d stored messages neither arrived nor are dead letters: %.200q", long, len(missing), len(stored), missing)
	}
	p.stop()
	t.Logf("%d stored, %d dead letters", len(stored), len(s.letters()))
}

// TestStoredRepeat answers a repeat under the same key as the first time, and
// refuses another body.
func TestStoredRepeat(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.writeRaw(storedConfig(ep))
	p := s.start()
	for range 2 {
		if a := send(s.url(), "k1"); a.code != http.StatusAccepted || a.id != "k1" || a.status != "stored" {
			t.Fatalf("answered %+v", a)
		}
	}
	if a := sendBody(s.url(), "k1", `{"key":"other"}`, nil); a.code != http.StatusConflict {
		t.Errorf("another body under the key was answered %+v", a)
	}
	eventually(t, "it arrives", func() bool { return ep.got("k1") > 0 })
	p.stop()
	if n := ep.got("k1"); n != 1 {
		t.Errorf("it arrived %d times", n)
	}
}

// TestAwayJobs restarts the server after an absence much longer than a lease: the
// worker's kept result is taken.
func TestAwayJobs(t *testing.T) {
	t.Parallel()
	away := 4 * time.Second
	if os.Getenv("PAWL_LONG") == "1" {
		away = 5 * time.Minute
	}
	s := newSite(t)
	s.writeRaw(jobsConfig)
	p := s.start()
	api := s.jobs()
	const n = 20
	created := map[string]bool{}
	for i := range n {
		code, id := api.create("work", fmt.Sprintf("away-%d", i))
		if code != http.StatusCreated {
			t.Fatalf("create: %d %s", code, id)
		}
		created[id] = true
	}
	code, got := api.claim("worker-away", "work", "", n, time.Second)
	if code != http.StatusOK || len(got) != n {
		t.Fatalf("claim: %d with %d jobs", code, len(got))
	}
	p.kill()
	<-time.After(away)
	p = s.start()
	for _, l := range got {
		code, results := api.report("worker-away", report{Lease: l.Lease, Type: "complete", Result: map[string]any{"kept": true}})
		if code != http.StatusOK || results[0].Status != "ok" || results[0].JobStatus != "succeeded" {
			t.Errorf("a kept result was answered %d %+v", code, results)
		}
	}
	for id := range created {
		if _, v := api.get(id); v.Status != "succeeded" || v.Attempt != 1 {
			t.Errorf("job %s is %s after %d attempts", id, v.Status, v.Attempt)
		}
	}
	p.stop()
}

// TestStopWithParkedClaims stops while workers wait for jobs.
func TestStopWithParkedClaims(t *testing.T) {
	s := newSite(t)
	s.writeRaw(jobsConfig)
	p := s.start()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			code, got := s.jobs().claim(fmt.Sprintf("worker-%d", i), "work", "", 1, 20*time.Second)
			if code != http.StatusOK && code != http.StatusServiceUnavailable && code != 0 || len(got) > 0 {
				t.Errorf("a waiting claim was answered %d with %d jobs", code, len(got))
			}
		})
	}
	eventually(t, "claims are parked", func() bool { _, body := s.get("/metrics"); return strings.Contains(body, "pawl_claims_parked 10") })
	p.stop()
	all.Wait()
}

// TestLockedStore gives a store that another pawl has to nobody else.
func TestLockedStore(t *testing.T) {
	s, other := newSite(t), newSite(t)
	s.writeRaw(jobsConfig)
	p := s.start()
	other.writeRaw(strings.Replace(jobsConfig, "jobs:\n", "jobs:\n  store: sqlite:"+filepath.Join(s.state(), "pawl.db")+"\n", 1))
	other.refuses("locked by", fmt.Sprint("pid ", p.cmd.Process.Pid))
	p.stop()
}

// TestBackup copies the store while it is worked, and starts a pawl on the copy.
func TestBackup(t *testing.T) {
	s, restored := newSite(t), newSite(t)
	s.writeRaw(jobsConfig)
	p := s.start()
	before := map[string]string{}
	for i := range 50 {
		key := fmt.Sprintf("b-%d", i)
		code, id := s.jobs().create("work", key)
		if code != http.StatusCreated {
			t.Fatalf("create: %d %s", code, id)
		}
		before[key] = id
	}
	d := newDiary()
	c := s.jobs().crew(d, "busy", 7, false)
	eventually(t, "jobs are completed", func() bool { return d.tally()["complete"] > 10 })
	s.must(0, "backup", s.path("copy.db"))
	s.must(2, "backup", s.path("copy.db"))
	c.end()
	p.stop()
	restored.writeRaw(strings.Replace(jobsConfig, "jobs:\n", "jobs:\n  store: sqlite:"+s.path("copy.db")+"\n", 1))
	p = restored.start()
	for key, id := range before {
		if code, v := restored.jobs().get(id); code != http.StatusOK || v.ID != id {
			t.Errorf("job %s (%s) is not in the copy: %d", id, key, code)
		}
	}
	if code, id := restored.jobs().create("work", "b-0"); code != http.StatusOK || id != before["b-0"] {
		t.Errorf("a repeated key in the copy was answered %d %s, want %s", code, id, before["b-0"])
	}
	p.stop()
}

// TestStoredOutage: a stored message outlasts an outage that is longer than the
// destination's own retries, with no dead letter.
func TestStoredOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ep := newEndpoint(t)
	ep.answers(func(string) int { return http.StatusServiceUnavailable })
	s.writeRaw(storedConfig(ep))
	p := s.start()
	for i := range 3 {
		if a := send(s.url(), fmt.Sprintf("o-%d", i)); a.code != http.StatusAccepted {
			t.Fatalf("answered %+v", a)
		}
	}
	eventually(t, "the destination's attempts are used up", func() bool {
		return ep.tries("o-0") >= 2 && ep.tries("o-1") >= 2 && ep.tries("o-2") >= 2
	})
	ep.answers(func(string) int { return http.StatusOK })
	eventually(t, "they arrive", func() bool { return ep.got("o-0") > 0 && ep.got("o-1") > 0 && ep.got("o-2") > 0 })
	if left := s.letters(); len(left) != 0 {
		t.Errorf("dead letters: %v", left)
	}
	p.stop()
}
