package ingress

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnectionsLeaveDescriptorsForDelivery(t *testing.T) {
	for limit, want := range map[uint64]int{
		1: 1, 3: 1, 256: 128, 2046: 1023, 2048: 1024, 2 * MaxConns: MaxConns, 65536: MaxConns, math.MaxUint64: MaxConns,
	} {
		var text bytes.Buffer
		h := New(Options{Descriptors: limit, Log: slog.New(slog.NewTextHandler(&text, nil))})
		if got := cap(h.slots); got != want {
			t.Errorf("%d descriptors: %d connections, want %d", limit, got, want)
		}
		if warned := strings.Contains(text.String(), "raise LimitNOFILE"); warned != (want < 1024) {
			t.Errorf("%d descriptors: the log is %q", limit, text.String())
		}
	}
}

// TestTheBoundIsOfAllAddresses takes the last connection at one address and
// asks at the other.
func TestTheBoundIsOfAllAddresses(t *testing.T) {
	inBubble(t, Options{Descriptors: 8}, func(r *rig) { // four connections
		const other = "10.0.0.1:8081"
		r.mount("/x", say("ok"))
		if _, err := r.hub.Mount(other, nil, "/x", say("ok")); err != nil {
			r.Fatal(err)
		}
		for i, address := range []string{addr, addr, addr, other} {
			c, err := r.ask(address)
			if err != nil {
				t.Errorf("connection %d of 4: %v", i+1, err)
			}
			defer c.Close()
		}
		for _, address := range []string{addr, other} {
			c, err := r.ask(address)
			if err == nil {
				t.Errorf("a fifth connection was taken at %s", address)
			}
			_ = c.Close()
		}
	})
}

// TestAnIdleAddressKeepsNoSlot has more addresses than connections: each is
// served while the others have no caller.
func TestAnIdleAddressKeepsNoSlot(t *testing.T) {
	inBubble(t, Options{Descriptors: 2}, func(r *rig) { // one connection
		r.mount("/x", say("ok"))
		addresses := []string{addr}
		for _, other := range []string{"10.0.0.1:8081", "10.0.0.1:8082"} {
			if _, err := r.hub.Mount(other, nil, "/x", say("ok")); err != nil {
				r.Fatal(err)
			}
			addresses = append(addresses, other)
		}
		for _, address := range addresses {
			c, err := r.ask(address)
			if err != nil {
				t.Errorf("%s: %v", address, err)
			}
			_ = c.Close()
			synctest.Wait()
		}
	})
}

// ask sends a request over a connection of its own and waits a second for
// the answer; the connection stays open.
func (r *rig) ask(address string) (net.Conn, error) {
	r.Helper()
	c, err := r.net.Dial(r.Context(), "tcp", address)
	if err != nil {
		r.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n") }()
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_, err = http.ReadResponse(bufio.NewReader(c), nil)
	return c, err
}
