package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/testbed"
)

// endpoint is a destination that this test plays.
type endpoint struct {
	testing.TB
	address string

	mu      sync.Mutex
	server  *http.Server
	arrived map[string]int // by the key, what it took
	tried   map[string]int // by the key, every request
	answer  func(key string) int
	hang    chan struct{} // requests wait for it; nil for none
}

func newEndpoint(t testing.TB) *endpoint {
	t.Helper()
	e := &endpoint{TB: t, address: testbed.FreeAddress(t), arrived: map[string]int{}, tried: map[string]int{}}
	e.up()
	t.Cleanup(e.down)
	return e
}

func (e *endpoint) url() string { return "http://" + e.address + "/in/" }

// up listens at the address.
func (e *endpoint) up() {
	e.Helper()
	l, err := net.Listen("tcp", e.address)
	if err != nil {
		e.Fatal(err)
	}
	server := &http.Server{Handler: e}
	e.mu.Lock()
	e.server = server
	e.mu.Unlock()
	go func() { _ = server.Serve(l) }() // ends with down
}

// down closes the listener and every connection, as a crash does.
func (e *endpoint) down() {
	e.mu.Lock()
	server := e.server
	e.mu.Unlock()
	_ = server.Close()
}

// answers sets the status for each key.
func (e *endpoint) answers(f func(key string) int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = f
}

// fails makes a share of the requests fail.
func (e *endpoint) fails(seed uint64, share float64, status int) {
	random := rand.New(rand.NewPCG(seed, 1))
	e.answers(func(string) int { // called under e.mu
		if random.Float64() < share {
			return status
		}
		return http.StatusOK
	})
}

// holds makes requests wait until release is called.
func (e *endpoint) holds() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wait := make(chan struct{})
	e.hang = wait
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		close(wait)
		e.hang = nil
	})
}

// ServeHTTP takes a message. What it says when it fails repeats the token that
// it was sent, as careless endpoints do.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	e.mu.Lock()
	e.tried[key]++
	status := http.StatusOK
	if e.answer != nil {
		status = e.answer(key)
	}
	hang := e.hang
	e.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return
		}
	}
	if status >= 300 {
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "no: %s %s", r.Header.Get("Authorization"), r.URL.Path)
		return
	}
	if want := bodyOf(key); string(body) != want {
		e.Errorf("the message %q arrived with the body %q", key, body)
	}
	e.mu.Lock()
	e.arrived[key]++
	e.mu.Unlock()
}

func (e *endpoint) got(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.arrived[key]
}

func (e *endpoint) tries(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tried[key]
}

// count returns how many keys arrived.
func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.arrived)
}

// bodyOf is the body that the message of a key has.
func bodyOf(key string) string { return fmt.Sprintf(`{"key":%q}`, key) }
