package kvtest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands before a server and fails on demand. Safe for concurrent use.
type Proxy struct {
	t      testing.TB
	target string
	addr   string

	mu       sync.Mutex
	changed  *sync.Cond
	listener net.Listener // nil while it is cut
	mode     mode
	conns    map[net.Conn]struct{}
	silenced int // bytes of answers that were held or swallowed
	accepted int // connections
	running  sync.WaitGroup
}

// mode is what becomes of the server's answers.
type mode uint8

const (
	passed    mode = iota
	held           // kept until they are passed again
	swallowed      // lost; the requests arrive
)

// NewProxy returns one that passes everything to a TCP address. It is closed
// with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	p := &Proxy{t: t, target: target, addr: "127.0.0.1:0", conns: map[net.Conn]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.Mend()
	t.Cleanup(func() {
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.addr }

// Cut breaks every connection, and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mode = passed
	for c := range p.conns {
		c.Close()
	}
	p.changed.Broadcast()
}

// Mend passes everything again, held answers too.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode, p.silenced = passed, 0
	p.changed.Broadcast()
	if p.listener != nil {
		return
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.addr)
	if err != nil {
		p.t.Errorf("the proxy can't listen again: %v", err)
		return
	}
	p.listener, p.addr = l, l.Addr().String()
	p.running.Go(func() { p.accept(l) })
}

// Hold keeps the answers back from now on; requests pass.
func (p *Proxy) Hold() { p.set(held) }

// Swallow loses the answers from now on; requests pass.
func (p *Proxy) Swallow() { p.set(swallowed) }

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	p.changed.Broadcast()
}

// WaitSilenced waits until an answer was held or swallowed: the server has done
// what was asked.
func (p *Proxy) WaitSilenced() {
	p.t.Helper()
	end := time.Now().Add(patience)
	defer time.AfterFunc(patience, p.changed.Broadcast).Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.silenced == 0 {
		if !time.Now().Before(end) {
			p.t.Fatalf("the server sent no answer within %v", patience)
		}
		p.changed.Wait()
	}
}

// Accepted returns how many connections were made.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

func (p *Proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			c.Close()
			continue
		}
		if !p.add(l, c, server) {
			return
		}
		p.running.Go(func() { p.requests(server, c) })
		p.running.Go(func() { p.answers(c, server) })
	}
}

// add keeps a connection's two ends, unless the proxy was cut meanwhile.
func (p *Proxy) add(l net.Listener, ends ...net.Conn) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	for _, c := range ends {
		if p.listener != l {
			c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return p.listener == l
}

// end closes both ends, as each of the two goroutines does.
func (p *Proxy) end(ends ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		c.Close()
		delete(p.conns, c)
	}
	p.changed.Broadcast()
}

func (p *Proxy) requests(server, client net.Conn) {
	defer p.end(server, client)
	_, _ = io.Copy(server, client) // what breaks is closed, and that is all there is to do
}

func (p *Proxy) answers(client, server net.Conn) {
	defer p.end(server, client)
	b := make([]byte, 32<<10)
	for {
		n, err := server.Read(b)
		if err != nil {
			return
		}
		if !p.let(client, n) {
			continue
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

// let reports whether an answer passes, after it was held as long as it is to be.
func (p *Proxy) let(client net.Conn, n int) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode != passed {
		p.silenced += n
		p.changed.Broadcast()
	}
	for p.mode == held {
		if _, open := p.conns[client]; !open {
			return false
		}
		p.changed.Wait()
	}
	return p.mode == passed
}
