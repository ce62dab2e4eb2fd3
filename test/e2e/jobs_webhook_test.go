package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json/v2"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// webhook is a receiver of events, as a program of somebody else's.
type webhook struct {
	url    string
	secret []byte

	mu     sync.Mutex
	fails  bool
	bodies map[string]string // by the webhook-id
	counts map[string]int    // taken, by the event's id
	tried  map[string]int    // by the webhook-id
	failed []string
}

const hookSecret = "d2ViaG9vay1vZi10aGUtc3Rvcm0tb2YtZTJl" // base64 of 27 bytes

var hookEvents = []string{"job.failed", "circuit.opened", "circuit.closed", "replay.moved"}

func newWebhook(t testing.TB) *webhook {
	t.Helper()
	secret, err := base64.StdEncoding.DecodeString(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &webhook{url: "http://" + l.Addr().String() + "/hook", secret: secret, bodies: map[string]string{}, counts: map[string]int{}, tried: map[string]int{}}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }() // ends with the test
	t.Cleanup(func() { _ = server.Close() })
	return h
}

// subscribe subscribes it.
func (h *webhook) subscribe(api *jobServer) {
	api.Helper()
	code, text := api.call(http.MethodPost, "/v3/subscriptions", "", map[string]any{
		"name": "hook", "url": h.url, "events": hookEvents, "secret": "whsec_" + hookSecret,
	})
	if code != http.StatusCreated {
		api.Fatalf("a subscription was answered %d: %s", code, text)
	}
}

// failing lets the first try of some deliveries fail, after they were taken in or
// before.
func (h *webhook) failing(yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = yes
}

// ServeHTTP takes a delivery in.
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender was killed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	id := r.Header.Get("webhook-id")
	mac := hmac.New(sha256.New, h.secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, r.Header.Get("webhook-timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if got := r.Header.Get("webhook-signature"); got != want || id == "" {
		h.failed = append(h.failed, fmt.Sprintf("delivery %q is signed %q, want %q", id, got, want))
	}
	var e happened
	if err := json.Unmarshal(body, &e); err != nil {
		h.failed = append(h.failed, fmt.Sprintf("delivery %q is %s: %v", id, body, err))
	}
	if before, there := h.bodies[id]; there && before != string(body) {
		h.failed = append(h.failed, fmt.Sprintf("delivery %q is %s, and was %s", id, body, before))
	}
	if id != "evt_"+e.ID {
		h.failed = append(h.failed, fmt.Sprintf("the delivery of event %s has the id %q", e.ID, id))
	}
	h.bodies[id] = string(body)
	h.tried[id]++
	if h.fails && h.tried[id] == 1 {
		switch hash(id) % 32 {
		case 0:
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		case 1:
			h.counts[e.ID]++
			panic(http.ErrAbortHandler) // it was taken in, and its sender is never told
		}
	}
	h.counts[e.ID]++
}

func hash(text string) byte {
	sum := sha256.Sum256([]byte(text))
	return sum[0]
}

// check waits until every event was delivered that is to be.
func (h *webhook) check(t *testing.T, st *story) {
	t.Helper()
	left := map[string]happened{}
	for _, e := range st.all {
		if slices.Contains(hookEvents, e.Type) {
			left[e.ID] = e
		}
	}
	wanted := len(left)
	all := inTime(func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for id := range left {
			if h.counts[id] > 0 {
				delete(left, id)
			}
		}
		return len(left) == 0
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, problem := range h.failed {
		t.Error(problem)
	}
	if !all {
		t.Errorf("not delivered within %v: %v", patience, slices.Collect(maps.Values(left)))
	}
	if len(h.counts) != wanted {
		t.Errorf("%d events were delivered, %d are there", len(h.counts), wanted)
	}
	repeats := 0
	for _, n := range h.counts {
		repeats += n - 1
	}
	t.Logf("%d events were delivered, %d of them again", wanted, repeats)
}
