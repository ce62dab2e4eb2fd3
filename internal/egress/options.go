package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// Protocol says which versions of HTTP a client speaks.
type Protocol uint8

// The protocols. The zero value is HTTP1.
const (
	// HTTP1 speaks HTTP/1.1 and nothing else, on our own connections unless
	// there is a proxy.
	HTTP1 Protocol = iota
	// HTTP2 offers HTTP/2 to https:// servers (ALPN) and takes HTTP/1.1 where
	// they have nothing better. http:// stays HTTP/1.1.
	HTTP2
)

// The limits of a client where Options leave them zero.
const (
	// DefaultMaxIdle keeps every connection of the largest lane (512 places),
	// twice over: closing one that was in use a moment ago costs a handshake.
	DefaultMaxIdle = 1024
	// DefaultIdleTimeout is shorter than the five seconds after which the most
	// impatient common server (Node.js) closes a connection.
	DefaultIdleTimeout = 4 * time.Second
	// DefaultMaxAge is how long a change of DNS may go unseen.
	DefaultMaxAge = 5 * time.Minute
	// DefaultMaxHeaderBytes is four times what common servers will send.
	DefaultMaxHeaderBytes = 64 << 10
	// DefaultMaxBodyBytes is the size of the largest message a source takes: an
	// answer has no reason to be larger.
	DefaultMaxBodyBytes = 1 << 20
)

// Options are what a Client is made of. The zero value is plain HTTP/1.1 with
// the default limits.
type Options struct {
	// TLS is used for https:// targets; nil means the system's authorities. It
	// is copied. TLS 1.2 is the least unless it says otherwise.
	TLS *tls.Config
	// Proxy, where set, is asked for every connection (http, https, socks5 or
	// socks5h, with credentials if it has any).
	Proxy *url.URL
	// Protocol is HTTP1 unless set.
	Protocol Protocol
	// Dial opens connections in place of a net.Dialer. It must honour ctx.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ConnectTimeout bounds the opening of a connection, DNS included and TLS
	// not; 0 leaves it to the request's ctx.
	ConnectTimeout time.Duration
	// DenyPrivate refuses addresses that are not on the public internet. The
	// check is made on the address that is dialled, after DNS.
	DenyPrivate bool

	// MaxIdle bounds the idle connections kept for one host:port.
	MaxIdle int
	// IdleTimeout is how long an idle connection is kept.
	IdleTimeout time.Duration
	// MaxAge is the age at which a connection is not used again, so that a
	// change of DNS is seen.
	MaxAge time.Duration
	// MaxHeaderBytes bounds the status line and header fields of an answer,
	// its 1xx answers and trailers included.
	MaxHeaderBytes int
	// MaxBodyBytes bounds how much of an answer's body is read.
	MaxBodyBytes int64

	// OnResend is called each time a request is sent again because its reused
	// connection turned out to be dead. It must be safe for concurrent use.
	OnResend func()
}

// withDefaults fills in what is zero and refuses what cannot work.
func (o Options) withDefaults() (Options, error) {
	for _, limit := range []struct {
		name string
		n    int64
	}{
		{"MaxIdle", int64(o.MaxIdle)}, {"IdleTimeout", int64(o.IdleTimeout)}, {"MaxAge", int64(o.MaxAge)}, {"ConnectTimeout", int64(o.ConnectTimeout)},
		{"MaxHeaderBytes", int64(o.MaxHeaderBytes)}, {"MaxBodyBytes", o.MaxBodyBytes},
	} {
		if limit.n < 0 {
			return o, fmt.Errorf("egress: %s is negative; leave it zero for the default", limit.name)
		}
	}
	if o.Protocol > HTTP2 {
		return o, fmt.Errorf("egress: unknown protocol %d", o.Protocol)
	}
	if o.Proxy != nil {
		switch o.Proxy.Scheme {
		case "http", "https", "socks5", "socks5h":
		default:
			return o, fmt.Errorf("egress: proxy scheme %q: use http, https, socks5 or socks5h", o.Proxy.Scheme)
		}
		if o.DenyPrivate {
			return o, errors.New("egress: a proxy would reach private addresses past the guard; use one or the other")
		}
	}
	if o.Dial != nil && o.DenyPrivate {
		return o, errors.New("egress: the guard works in the default dialer; use DenyPrivate or Dial, not both")
	}
	o.MaxIdle = orDefault(o.MaxIdle, DefaultMaxIdle)
	o.IdleTimeout = orDefault(o.IdleTimeout, DefaultIdleTimeout)
	o.MaxAge = orDefault(o.MaxAge, DefaultMaxAge)
	o.MaxHeaderBytes = orDefault(o.MaxHeaderBytes, DefaultMaxHeaderBytes)
	o.MaxBodyBytes = orDefault(o.MaxBodyBytes, DefaultMaxBodyBytes)
	if o.OnResend == nil {
		o.OnResend = func() {}
	}
	return o, nil
}

func orDefault[T int | int64 | time.Duration](n, def T) T {
	if n == 0 {
		return def
	}
	return n
}
