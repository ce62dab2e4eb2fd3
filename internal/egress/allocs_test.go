package egress

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// answerBare answers requests of one known size without allocating, so that
// what is counted is the client's.
func answerBare(c net.Conn, size int) {
	buf := make([]byte, size)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok")
	for {
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// A request on a kept connection costs a handful of allocations, the ending of
// its context included.
func TestAllocations(t *testing.T) {
	req := &Request{Body: make([]byte, 1024)}
	var size atomic.Int64
	base := listen(t, func(_ int, c net.Conn) { answerBare(c, int(size.Load())) })
	req.Target = newTarget(t, "POST", base+"/events", Field{"Content-Type", "application/json"})
	req.Header = []Field{{"Idempotency-Key", "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}
	size.Store(int64(len(req.appendHead(nil)) + len(req.Body)))
	client := newClient(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := testing.AllocsPerRun(200, func() {
		if _, err := client.Do(ctx, req); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations", got)
	if got > 15 {
		t.Errorf("%v allocations a request, want 15 at most", got)
	}
}
