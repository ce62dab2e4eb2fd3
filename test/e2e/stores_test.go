package e2e

// These tests catch relays that share a store and do not drop a duplicate between
// them, one that stops when its store is away or does not share it again when it
// is back, and one whose death blocks the others.

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testbed"
)

// redisServer is a Redis server of the test's own.
type redisServer struct {
	testing.TB
	address string
	cmd     *exec.Cmd
	log     bytes.Buffer
}

func newRedis(t testing.TB) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("PAWL_REQUIRE_SERVICES") != "" {
			t.Fatal("redis-server is not in the path")
		}
		t.Skip("left out: redis-server is not in the path")
	}
	r := &redisServer{TB: t, address: testbed.FreeAddress(t)}
	t.Cleanup(r.kill)
	r.start()
	return r
}

func (r *redisServer) start() {
	r.Helper()
	_, port, err := net.SplitHostPort(r.address)
	if err != nil {
		r.Fatal(err)
	}
	r.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.TempDir())
	r.cmd.Stdout = &r.log
	if err := r.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	eventually(r.TB, "redis-server listens", func() bool {
		c, err := net.Dial("tcp", r.address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// kill is kill -9.
func (r *redisServer) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

// twins are two relays of one name with one store and one endpoint.
func twins(t *testing.T, r *redisServer, ep *endpoint) (a, b *site) {
	t.Helper()
	text := fmt.Sprintf(`relay: twins
state: $STATE
http: { listen: "$ADMIN" }
shutdown_timeout: 10s
stores:
  - { name: shared, type: redis, url: "redis://%s/0" }
sources:
  - { name: web, type: http, listen: "$LISTEN", path: /events, dedupe: { key: .order, store: shared } }
routes:
  - { name: all, from: [web], transforms: [ { jq: del(.order) } ], to: [ep] }
destinations:
  - { name: ep, type: http, url: "%s", timeout: 60s, circuit_breaker: false }
`, r.address, ep.url())
	for _, s := range []**site{&a, &b} {
		*s = newSite(t)
		(*s).writeRaw(text)
	}
	return a, b
}

// order sends an order under a key of its own and returns how it was answered.
func order(s *site, key, order string) string {
	return sendBody(s.url(), key, fmt.Sprintf(`{"key":%q,"order":%q}`, key, order), http.Header{}).status
}

// TestTwinsDropADuplicateBetweenThem also kills their store with a message under
// way: each goes on, and they share it again when it is back.
func TestTwinsDropADuplicateBetweenThem(t *testing.T) {
	t.Parallel()
	ep, store := newEndpoint(t), newRedis(t)
	ep.answers(func(string) int { return http.StatusOK })
	a, b := twins(t, store, ep)
	a.start()
	b.start()
	want := func(s *site, key, number, want string) {
		t.Helper()
		if got := order(s, key, number); got != want {
			t.Errorf("order %s as %s was %q, want %q", number, key, got, want)
		}
	}
	want(a, "a1", "1", "delivered")
	want(b, "b1", "1", "filtered")
	want(b, "b2", "2", "delivered")
	want(a, "a2", "2", "filtered")

	release := ep.holds()
	held := make(chan string, 1)
	go func() { held <- order(a, "a-held", "held") }()
	eventually(t, "an order is under way", func() bool { return ep.tries("a-held") > 0 })
	store.kill()
	release()
	if got := <-held; got != "delivered" || ep.got("a-held") != 1 {
		t.Errorf("the order under way while the store died was %q, and arrived %d times", got, ep.got("a-held"))
	}
	want(a, "a-held-again", "held", "filtered") // by its own memory
	want(a, "a3", "3", "delivered")
	want(a, "a4", "3", "filtered")  // by its own memory
	want(b, "b3", "3", "delivered") // which the other does not know
	want(a, "a5", "1", "filtered")

	store.start()
	n := 0
	eventually(t, "they share their store again", func() bool {
		n++
		number := fmt.Sprintf("again-%d", n)
		first, second := order(a, "a-"+number, number), order(b, "b-"+number, number)
		if first != "delivered" {
			t.Fatalf("order %s was %q", number, first)
		}
		return second == "filtered"
	})
}

// TestADeadTwinBlocksNobody kills a relay with a message under way: the same
// order at the other waits for no longer than its mark lasts.
func TestADeadTwinBlocksNobody(t *testing.T) {
	t.Parallel()
	ep, store := newEndpoint(t), newRedis(t)
	a, b := twins(t, store, ep)
	dies := a.start()
	b.start()
	release := ep.holds()
	first, second := make(chan string, 1), make(chan string, 1)
	go func() { first <- order(a, "a1", "1") }()
	eventually(t, "the first is under way", func() bool { return ep.tries("a1") > 0 })
	go func() { second <- order(b, "b1", "1") }()
	dies.kill()
	<-first
	release()
	ep.answers(func(string) int { return http.StatusOK })
	select {
	case got := <-second:
		if got != "delivered" {
			t.Errorf("the order at the other was %q", got)
		}
	case <-time.After(patience):
		t.Fatal("the order at the other waits for the dead one")
	}
	if ep.got("b1") == 0 {
		t.Error("it did not arrive")
	}
	if got := order(b, "b2", "1"); got != "filtered" {
		t.Errorf("the next was %q", got)
	}
}
