package e2e

import (
	"bufio"
	"encoding/json/v2"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"
)

// rounds returns how many rounds of kill -9 to run: 20, fewer where the tests
// are run once more for the race detector's sake.
func rounds(t testing.TB) int {
	text := os.Getenv("PAWL_KILL_ROUNDS")
	switch {
	case text == "" && testing.Short():
		return 5
	case text == "":
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("PAWL_KILL_ROUNDS is %q; it must be a number", text)
	}
	return n
}

// seed returns the seed of the random moments: PAWL_E2E_SEED repeats a run.
func seed(t testing.TB) uint64 {
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("PAWL_E2E_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("PAWL_E2E_SEED is %q; it must be a number", text)
		}
		s = n
	}
	t.Logf("PAWL_E2E_SEED=%d repeats this run", s)
	return s
}

// killConfig is the configuration of one round: with or without a fallback, and
// with or without a best-effort leg.
func killConfig(ep, side *endpoint, withFallback, withBestEffort bool) string {
	to, fallback := "ep", ""
	if withBestEffort {
		to += ", { destination: side, required: false }"
	}
	if withFallback {
		fallback = "fallback: [disk]"
	}
	return fmt.Sprintf(`
routes:
  - { name: all, from: [web], to: [ %s ] }
destinations:
  - name: ep
    type: http
    url: "%s"
    auth: { bearer: { token: "{{env.OUT_TOKEN}}" } }
    timeout: 2s
    %s
    retry: { attempts: 2, backoff: 5ms, max_backoff: 20ms }
    circuit_breaker: false
  - { name: disk, type: file, path: $FOLDER/fallback.ndjson, format: envelope }
  - { name: side, type: http, url: "%s", timeout: 1s, retry: { attempts: 1 }, circuit_breaker: false }
`, to, ep.url(), fallback, side.url())
}

// TestKill kills pawl at random moments under load and starts it again on the
// same state and port. What was answered 200 must have arrived, or be a dead
// letter.
func TestKill(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 0))
	s := newSite(t)
	ep, side := newEndpoint(t), newEndpoint(t)
	side.fails(random.Uint64(), 0.5, 500)
	answers := map[string]answer{}
	n := rounds(t)
	for round := range n {
		ep.fails(random.Uint64(), 0.2+0.6*random.Float64(), http.StatusServiceUnavailable)
		s.write(killConfig(ep, side, random.IntN(2) == 0, random.IntN(2) == 0))
		p := s.start()
		c := load(t, s.url(), fmt.Sprintf("r%03d", round), 16, 0)
		// A round is not over before something was acknowledged, and the moment
		// is random from there.
		eventually(t, "messages are acknowledged", func() bool { return c.acked() >= 20 })
		<-time.After(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
		p.kill()
		for key, a := range c.end() {
			answers[key] = a
		}
	}
	s.write(killConfig(ep, side, false, false))
	p := s.start()
	checkAcked(t, s, ep, answers)
	p.stop()
	checkAcked(t, s, ep, answers) // and without a running pawl
	if k := codes(answers); k[http.StatusOK] < 20*n {
		t.Errorf("only %v answers: the test looks at nothing", k)
	} else {
		t.Logf("%d messages in %d rounds: answers %v", len(answers), n, k)
	}
}

// checkAcked is the oracle: each message that was answered 200 is where the
// answer says.
func checkAcked(t *testing.T, s *site, ep *endpoint, answers map[string]answer) {
	t.Helper()
	dead, onDisk := ids(s.letters()), fallbackKeys(t, s.path("fallback.ndjson"))
	for key, a := range answers {
		arrived := ep.got(key) > 0 || onDisk[key] > 0
		switch {
		case a.code == http.StatusOK && a.id != key:
			t.Errorf("the answer to %s names %q", key, a.id)
		case a.code == http.StatusOK && a.status == "delivered" && !arrived:
			t.Errorf("%s was answered delivered and did not arrive", key)
		case a.code == http.StatusOK && a.status == "dead_lettered" && !dead[key]:
			t.Errorf("%s was answered dead_lettered and is no dead letter", key)
		case a.code == http.StatusOK && a.status != "delivered" && a.status != "dead_lettered":
			t.Errorf("%s was answered %q", key, a.status)
		case a.code != http.StatusOK && a.code != http.StatusServiceUnavailable && a.code != 0:
			t.Errorf("%s was answered %+v", key, a)
		}
	}
}

// fallbackKeys counts the messages in a file of envelopes by id. A torn last
// line is what a kill may leave and a later start mends.
func fallbackKeys(t testing.TB, path string) map[string]int {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var m struct {
			ID   string `json:"id"`
			Body any    `json:"body"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Errorf("%s: %v in %s", path, err, lines.Text())
			continue
		}
		keys[m.ID]++
	}
	return keys
}
