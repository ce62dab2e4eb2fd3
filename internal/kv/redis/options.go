package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawlhq/pawl/internal/setting"
)

// Options say where the server is.
type Options struct {
	// URL is redis://[user[:password]@]host[:port][/database], rediss:// for TLS,
	// or unix://[user[:password]@]/path. In its query db names the database, each
	// addr one more node of a cluster, and client_name the connections.
	URL setting.Secret
	// Prefix goes before every key, so that several relays, or others, can use
	// one database; "pawl:" where it is empty. It must not hold { or }, which
	// say on which node of a cluster a key is.
	Prefix string
	// TLS is for a rediss URL that needs an authority or a certificate of its
	// own. Its ServerName is the URL's host unless set.
	TLS *tls.Config
	// Silence is how long a server may leave a connection without an answer, or a
	// dial without a connection, before it is given up; the operations that wait
	// on it have ended at their own contexts long before. So it is more than
	// those are given, and no more than it must be, since they hold their places
	// until then; 2 seconds where it is zero.
	Silence time.Duration
}

const (
	defaultPrefix  = "pawl:"
	defaultSilence = 2 * time.Second
	// buffer is of a connection, each way: a batch of some hundred operations.
	buffer = 64 << 10
)

// client checks the options and returns them as the library's.
func (o Options) client() (rueidis.ClientOption, error) {
	if strings.ContainsAny(o.Prefix, "{}") {
		return rueidis.ClientOption{}, fmt.Errorf("prefix: %q must not hold { or }", o.Prefix)
	}
	if o.Silence < 0 {
		return rueidis.ClientOption{}, fmt.Errorf("silence: %v is negative", o.Silence)
	}
	unix, err := checkURL(o.URL.Reveal())
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	c, err := rueidis.ParseURL(o.URL.Reveal())
	if err != nil {
		return rueidis.ClientOption{}, errURL
	}
	if c.SelectDB < 0 {
		return rueidis.ClientOption{}, errors.New("url: the database is a number from 0")
	}
	if o.TLS != nil {
		if c.TLSConfig == nil {
			return rueidis.ClientOption{}, errors.New("tls: the URL must begin with rediss:// for TLS")
		}
		name := c.TLSConfig.ServerName
		c.TLSConfig = o.TLS.Clone()
		c.TLSConfig.MinVersion = max(c.TLSConfig.MinVersion, tls.VersionTLS12)
		if c.TLSConfig.ServerName == "" {
			c.TLSConfig.ServerName = name
		}
	}
	c.DialCtxFn = dialer(unix)
	// Operations are retried by kv.Retry alone.
	c.DisableRetry = true
	c.DisableCache = true
	// One connection a node: this store's operations happen in the order in
	// which they were sent.
	c.PipelineMultiplex = -1
	c.ReadBufferEachConn, c.WriteBufferEachConn = buffer, buffer
	silence := o.Silence
	if silence == 0 {
		silence = defaultSilence
	}
	c.Dialer.Timeout, c.ConnWriteTimeout = silence, silence
	return c, nil
}

// errURL says nothing of the URL, as there is a password in it, and where it is
// malformed nobody can tell what.
var errURL = errors.New("url: want redis://[user[:password]@]host[:port][/database], rediss://… or unix://…/path; special characters of a password are written as %XX")

// known are the query's parameters.
var known = []string{"addr", "client_name", "db"}

// network is what is dialed.
type network string

const (
	tcp  network = "tcp"
	unix network = "unix"
)

// checkURL finds what the library would pass over, and never tells a secret.
func checkURL(text string) (network, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errURL
	}
	net := tcp
	switch u.Scheme {
	case "redis", "rediss":
		if u.Host == "" {
			return "", errURL
		}
	case "unix":
		net = unix
		if u.Path == "" || u.Host != "" {
			return "", errURL
		}
	default:
		return "", errURL
	}
	if u.Opaque != "" || u.Fragment != "" {
		return "", errURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", errURL
	}
	for name, values := range query {
		if !slices.Contains(known, name) {
			// The name may be the rest of a password with a ? in it.
			return "", fmt.Errorf("url: an unknown parameter; there are %s", strings.Join(known, ", "))
		}
		if name != "addr" && len(values) > 1 {
			return "", fmt.Errorf("url: %s is there twice", name)
		}
		if name == "addr" && net == unix {
			return "", errors.New("url: addr goes with redis:// and rediss:// only")
		}
	}
	return net, nil
}

// dialer is the library's own, but for UNIX sockets.
func dialer(n network) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		if c == nil {
			return d.DialContext(ctx, string(n), addr)
		}
		over := tls.Dialer{NetDialer: d, Config: c}
		return over.DialContext(ctx, string(n), addr)
	}
}
