package e2e

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// outage sends a hundred messages a second while the endpoint is away for a
// time, each until it is acknowledged, and returns how often callers were told
// to come back.
func outage(t *testing.T, away time.Duration) (refused int) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(fmt.Sprintf(`
routes:
  - { name: all, from: [web], to: [ ep ] }
destinations:
  # Half of each wait is certain: no message is through with its tries before the
  # breaker opens, which full jitter makes unlikely and not impossible.
  - { name: ep, type: http, url: "%s", retry: { jitter: equal } }
`, ep.url()))
	p := s.start()
	var callers sync.WaitGroup
	var mu sync.Mutex
	all, delivered := 0, 0
	stop := make(chan struct{})
	callers.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			all++
			callers.Go(func() {
				key := fmt.Sprintf("m-%06d", n)
				again := time.NewTicker(250 * time.Millisecond)
				defer again.Stop()
				for end := time.Now().Add(4 * patience); time.Now().Before(end); <-again.C {
					a := send(s.url(), key)
					mu.Lock()
					if a.code == http.StatusOK && a.status == "delivered" {
						delivered++
					} else if a.code == http.StatusServiceUnavailable && a.retryAfter != "" || a.code == http.StatusGatewayTimeout {
						refused++
					} else {
						t.Errorf("%s was answered %+v", key, a)
					}
					mu.Unlock()
					if a.code == http.StatusOK {
						return
					}
				}
			})
		}
	})
	eventually(t, "messages flow", func() bool { return ep.count() > 50 })
	ep.down()
	<-time.After(away) // how long it is away is the scenario
	ep.up()
	before := ep.count()
	eventually(t, "messages flow again", func() bool { return ep.count() > before+100 })
	close(stop)
	callers.Wait()
	if delivered != all || ep.count() != all {
		t.Errorf("of %d messages %d were answered delivered and %d arrived", all, delivered, ep.count())
	}
	if left := s.letters(); len(left) != 0 {
		t.Errorf("%d dead letters: %v …", len(left), left[0])
	}
	t.Logf("%d messages, %d times a caller was told to come back", all, refused)
	p.stop()
	return refused
}

// TestRestart: an endpoint restarts for two seconds and has no fallback. No
// dead letter comes of it.
func TestRestart(t *testing.T) {
	t.Parallel()
	outage(t, 2*time.Second)
}

// TestAway: an endpoint is away for longer than the lane has places. Nobody's
// message is lost, and callers are told to come back. PAWL_LONG=1 makes it a
// minute.
func TestAway(t *testing.T) {
	t.Parallel()
	away := 10 * time.Second
	if os.Getenv("PAWL_LONG") == "1" {
		away = time.Minute
	}
	if outage(t, away) == 0 {
		t.Error("no caller was told to come back: the lane was never full")
	}
}
