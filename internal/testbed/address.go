package testbed

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// handedOut are the ports that FreeAddress has given out.
var handedOut sync.Map

// FreeAddress returns a loopback address that nobody listens at, another one at
// each call, for a process under test. It is below the ports that systems give to
// outgoing connections: while an endpoint is down, no connection of anybody must
// come to sit on its port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(20_000))
		if _, taken := handedOut.LoadOrStore(address, true); taken {
			continue
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatal("no port is free")
	return ""
}
