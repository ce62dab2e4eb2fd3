package testbed

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// backlog is how many dialled connections a listener keeps before Dial waits
// for Accept: few, so that a test of a full accept queue is quick to write.
const backlog = 16

// Network is an in-memory network of TCP-like listeners, found by their
// address as text. The zero value is ready. Safe for concurrent use; it fits
// connector.Env.Listen and connector.Env.Dial.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	nextPort  int // ephemeral ports handed out so far
	dials     int // connections made so far
}

// Listen opens address. Port 0 takes a free one. A taken address is
// EADDRINUSE.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	if port == "0" {
		n.nextPort++
		address = net.JoinHostPort(host, strconv.Itoa(40000+n.nextPort))
	}
	if _, taken := n.listeners[address]; taken {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: textAddr(address), Err: syscall.EADDRINUSE}
	}
	l := &listener{network: n, addr: textAddr(address), queue: make(chan net.Conn, backlog), done: make(chan struct{})}
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[address] = l
	return l, nil
}

// Dial connects to a listener. Nobody there is ECONNREFUSED; a full accept
// queue waits until ctx ends.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.dials++
	local := textAddr(fmt.Sprintf("192.0.2.1:%d", 10000+n.dials%50000))
	n.mu.Unlock()
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: textAddr(address), Err: err}
	}
	if l == nil {
		return fail(syscall.ECONNREFUSED)
	}
	near, far := pipe(local, l.addr)
	select {
	case <-l.done:
		return fail(syscall.ECONNREFUSED)
	case <-ctx.Done():
		return fail(ctx.Err())
	case l.queue <- far:
	}
	select {
	case <-l.done: // closed in between: nobody will accept it
		far.Reset()
	default:
	}
	return near, nil
}

// Dials returns how many times Dial was called.
func (n *Network) Dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// textAddr is an address of the in-memory network.
type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }

type listener struct {
	network *Network
	addr    textAddr
	queue   chan net.Conn
	once    sync.Once
	done    chan struct{}
}

// Accept returns the next dialled connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	case c := <-l.queue:
		return c, nil
	}
}

// Close frees the address and resets what nobody accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, string(l.addr))
		l.network.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.queue:
				c.(*Conn).Reset()
			default:
				return
			}
		}
	})
	return nil
}

// Addr returns the address that was opened.
func (l *listener) Addr() net.Addr { return l.addr }
