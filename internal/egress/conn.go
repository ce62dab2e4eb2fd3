package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// endpoint names what a connection leads to.
type endpoint struct {
	addr   string
	secure bool
}

// conn is one connection of the direct path. One request has it at a time.
type conn struct {
	net.Conn // what is read and written: raw, or TLS over it
	raw      net.Conn
	to       endpoint
	probe    probe
	dies     time.Time // when it is too old to be used again
	since    time.Time // when it became idle
}

// aLongTimeAgo makes a read return at once.
var aLongTimeAgo = time.Unix(1, 0)

// quiet reports whether the connection is open and nothing has come that
// nobody asked for.
func (c *conn) quiet() bool {
	if !c.probe.quiet() {
		return false
	}
	if !c.to.secure {
		return true
	}
	// TLS may have read ahead, which no look at the socket shows. A read whose
	// time is up gets what is there and does not go to the socket.
	var one [1]byte
	_ = c.SetReadDeadline(aLongTimeAgo)
	if _, err := c.Read(one[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return c.SetReadDeadline(time.Time{}) == nil
}

// abort closes the connection without a word to the server. It never blocks
// and may be called at any time, by anyone.
func (c *conn) abort() { _ = c.raw.Close() }

// retire closes a connection that no request has.
func (c *conn) retire() { _ = c.Conn.Close() }

// dialer opens connections.
type dialer struct {
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	config *tls.Config // with no ServerName, unless the options had one
}

// sessions bounds the TLS sessions kept for resumption: as many as one client
// has hosts, and then some.
const sessions = 64

func newDialer(o Options) dialer {
	d := dialer{dial: o.Dial, config: &tls.Config{}}
	if d.dial == nil {
		nd := &net.Dialer{}
		if o.DenyPrivate {
			nd.Control = guard()
		}
		d.dial = nd.DialContext
	}
	if o.ConnectTimeout > 0 {
		dial := d.dial
		d.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
			defer cancel()
			return dial(ctx, network, addr)
		}
	}
	if o.TLS != nil {
		d.config = o.TLS.Clone()
	}
	if d.config.MinVersion < tls.VersionTLS12 {
		d.config.MinVersion = tls.VersionTLS12
	}
	if d.config.ClientSessionCache == nil {
		d.config.ClientSessionCache = tls.NewLRUClientSessionCache(sessions)
	}
	return d
}

// open connects, and shakes hands where the target is https.
func (d *dialer) open(ctx context.Context, to endpoint) (*conn, error) {
	raw, err := d.dial(ctx, "tcp", to.addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, raw: raw, to: to, probe: newProbe(raw)}
	if !to.secure {
		return c, nil
	}
	config := d.config.Clone()
	config.NextProtos = []string{"http/1.1"}
	if config.ServerName == "" {
		// The address was made by JoinHostPort.
		config.ServerName, _, _ = net.SplitHostPort(to.addr)
	}
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		c.abort()
		return nil, err
	}
	c.Conn = secured
	return c, nil
}
