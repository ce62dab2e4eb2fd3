package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
)

func wantConnect(t *testing.T, err error, also ...failure.Tag) {
	t.Helper()
	wantFailure(t, err, failure.Transient, failure.Sick, append([]failure.Tag{failure.Connect}, also...)...)
}

func TestNoConnection(t *testing.T) {
	dialing := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + l.Addr().String()
	_ = l.Close()
	// A resolver whose servers are gone, so that no real one is asked.
	lost := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: dialing(syscall.ENETUNREACH)}}
	for _, test := range []struct {
		name, url string
		dial      func(context.Context, string, string) (net.Conn, error)
		also      []failure.Tag
		text      string
	}{
		{name: "refused", url: refused, text: "connection refused"},
		{name: "unreachable", url: "http://a.example/", dial: dialing(syscall.EHOSTUNREACH), text: "no route to host"},
		{name: "no such name", url: "http://a.example/", dial: dialing(&net.DNSError{Err: "no such host", Name: "a.example", IsNotFound: true}), also: []failure.Tag{failure.DNS}, text: "no such host"},
		{name: "no name server", url: "http://pawl.invalid/", dial: lost.DialContext, also: []failure.Tag{failure.DNS}, text: "does not resolve"},
		{name: "slow name server", url: "http://a.example/", dial: dialing(&net.DNSError{Err: "i/o timeout", Name: "a.example", IsTimeout: true}), also: []failure.Tag{failure.DNS}, text: "i/o timeout"},
		{name: "kernel gave up", url: "http://a.example/", dial: dialing(syscall.ETIMEDOUT), text: "connection timed out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, o Options) {
				o.Dial = test.dial
				_, err := newClient(t, o).Do(within(t), post(t, test.url))
				wantConnect(t, err, test.also...)
				if !strings.Contains(err.Error(), test.text) {
					t.Errorf("%q does not say %q", err, test.text)
				}
			})
		})
	}
}

func TestConnectionLost(t *testing.T) {
	for _, test := range []struct {
		name  string
		serve func(c *net.TCPConn)
	}{
		{"closed without an answer", func(c *net.TCPConn) { _ = readRequest(bufio.NewReader(c)) }},
		{"reset before the request", func(c *net.TCPConn) { _ = c.SetLinger(0) }},
		{"reset without an answer", func(c *net.TCPConn) { _ = readRequest(bufio.NewReader(c)); _ = c.SetLinger(0) }},
		{"reset inside the body", func(c *net.TCPConn) {
			_ = readRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok")
			_ = c.SetLinger(0)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, o Options) {
				var connections atomic.Int64
				base := listen(t, func(_ int, c net.Conn) {
					connections.Add(1)
					test.serve(c.(*net.TCPConn))
				})
				_, err := newClient(t, o).Do(within(t), post(t, base))
				wantConnect(t, err)
				if n := connections.Load(); n != 1 {
					t.Errorf("%d connections, want one: a fresh one that fails is not tried again", n)
				}
			})
		})
	}
}

// newAuthority returns a pool with one certificate and a TLS configuration of
// a server that has it, valid for names.
func newAuthority(t *testing.T, names ...string) (*x509.CertPool, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// secureServer answers 200 with the protocol it was asked by.
func secureServer(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.TLS = config
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// to dials one server whatever name is asked for.
func to(s *httptest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
}

func TestTLS(t *testing.T) {
	pool, config := newAuthority(t, "good.example")
	server := secureServer(t, config)
	onBothPaths(t, func(t *testing.T, o Options) {
		o.Dial = to(server)
		want := map[Protocol]string{HTTP1: "HTTP/1.1", HTTP2: "HTTP/2.0"}[o.Protocol]
		trusting := o
		trusting.TLS = &tls.Config{RootCAs: pool}
		client := newClient(t, trusting)
		for i := range 3 {
			got, err := client.Do(within(t), post(t, "https://good.example/"))
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Body) != want || got.Reused != (i > 0) {
				t.Errorf("answer %d: %q reused %v, want %s and reused after the first", i, got.Body, got.Reused, want)
			}
		}
		_, err := client.Do(within(t), post(t, "https://evil.example/"))
		wantFailure(t, err, failure.Permanent, failure.Suspect, failure.TLS)
		_, err = newClient(t, o).Do(within(t), post(t, "https://good.example/"))
		wantFailure(t, err, failure.Permanent, failure.Suspect, failure.TLS)
	})
}

func TestBrokenHandshake(t *testing.T) {
	pool, old := newAuthority(t, "good.example")
	old.MaxVersion = tls.VersionTLS11
	_, strict := newAuthority(t, "good.example")
	strict.ClientAuth = tls.RequireAnyClientCert
	onBothPaths(t, func(t *testing.T, o Options) {
		o.TLS = &tls.Config{RootCAs: pool}
		t.Run("server without TLS", func(t *testing.T) {
			base := listen(t, func(_ int, c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad\r\n\r\n") })
			_, err := newClient(t, o).Do(within(t), post(t, "https"+strings.TrimPrefix(base, "http")))
			wantConnect(t, err)
		})
		t.Run("server hangs up", func(t *testing.T) {
			base := listen(t, func(int, net.Conn) {})
			_, err := newClient(t, o).Do(within(t), post(t, "https"+strings.TrimPrefix(base, "http")))
			wantConnect(t, err)
		})
		t.Run("server of TLS 1.1", func(t *testing.T) {
			dialing := o
			dialing.Dial = to(secureServer(t, old))
			_, err := newClient(t, dialing).Do(within(t), post(t, "https://good.example/"))
			wantConnect(t, err)
		})
		t.Run("server that wants a certificate of ours", func(t *testing.T) {
			dialing := o
			dialing.Dial = to(secureServer(t, strict))
			dialing.TLS = &tls.Config{InsecureSkipVerify: true}
			_, err := newClient(t, dialing).Do(within(t), post(t, "https://good.example/"))
			wantConnect(t, err)
		})
	})
}

// inMemory makes a Dial whose far end serve gets.
func inMemory(serve func(n int, c net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	n := 0
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func(n int) {
			defer func() { _ = far.Close() }()
			serve(n, far)
		}(n)
		n++
		return near, nil
	}
}

// Wherever a request hangs, the end of its context ends it at that moment, and
// says why.
func TestEndOfContext(t *testing.T) {
	hang := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	for _, test := range []struct {
		name, scheme, text string
		dial               func(context.Context, string, string) (net.Conn, error)
	}{
		{name: "connecting", text: "connecting", dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
		}},
		{name: "handshake", scheme: "https", text: "connecting", dial: inMemory(func(_ int, c net.Conn) { hang(c) })},
		{name: "writing", text: "sending the request", dial: inMemory(func(_ int, c net.Conn) {
			_, _ = c.Read(make([]byte, 10))
			time.Sleep(time.Hour) // virtual
		})},
		{name: "before the header", text: "waiting for the answer", dial: inMemory(func(_ int, c net.Conn) { hang(c) })},
		{name: "inside the header", text: "reading the answer", dial: inMemory(func(_ int, c net.Conn) {
			_ = readRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			hang(c)
		})},
		{name: "inside the body", text: "reading the answer", dial: inMemory(func(_ int, c net.Conn) {
			_ = readRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok")
			hang(c)
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, o Options) {
				o.Dial = test.dial
				t.Run("deadline", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						defer cancel()
						_, err := doAfter(t, ctx, o, test.scheme, 5*time.Second)
						wantFailure(t, err, failure.Transient, failure.Sick, failure.Timeout)
						if !errors.Is(err, context.DeadlineExceeded) || !(strings.Contains(err.Error(), test.text) || o.Protocol == HTTP2) {
							t.Errorf("%q, want it to say %q", err, test.text)
						}
					})
				})
				t.Run("cancel", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithCancel(t.Context())
						time.AfterFunc(2*time.Second, cancel)
						_, err := doAfter(t, ctx, o, test.scheme, 2*time.Second)
						wantFailure(t, err, failure.Transient, failure.Neutral, failure.Cancelled)
						if !errors.Is(err, context.Canceled) {
							t.Errorf("the cause of %q is not context.Canceled", err)
						}
					})
				})
			})
		})
	}
}

// doAfter sends one request and checks that it took exactly wait.
func doAfter(t *testing.T, ctx context.Context, o Options, scheme string, wait time.Duration) (*Response, error) {
	t.Helper()
	client, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if scheme == "" {
		scheme = "http"
	}
	start := time.Now()
	got, err := client.Do(ctx, post(t, scheme+"://a.example/"))
	if took := time.Since(start); took != wait {
		t.Errorf("took %v, want %v", took, wait)
	}
	time.Sleep(2 * time.Hour) // virtual: servers that sleep see the end of their connection
	return got, err
}

// A context that has ended before sends nothing at all.
func TestEndedContext(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		o.Dial = func(context.Context, string, string) (net.Conn, error) {
			t.Error("a connection was opened")
			return nil, io.EOF
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := newClient(t, o).Do(ctx, post(t, "http://a.example/"))
		wantFailure(t, err, failure.Transient, failure.Neutral, failure.Cancelled)
	})
}

// The guard looks at what a name resolves to, and its refusal is final.
func TestDenyPrivate(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		o.DenyPrivate = true
		client := newClient(t, o)
		base := listen(t, func(int, net.Conn) { t.Error("the guard let a private address through") })
		_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"} {
			_, err := client.Do(within(t), post(t, "http://"+host+":"+port))
			wantFailure(t, err, failure.Permanent, failure.Neutral)
		}
	})
}

// Whatever goes wrong, its text holds nothing of the URL but the host.
func TestNoSecretInFailures(t *testing.T) {
	const secret = "s3cret"
	serve := []func(int, net.Conn){
		func(int, net.Conn) {},
		answerOnce("HTTP/1.1 " + secret + "\r\n\r\n"),
		answerOnce("HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n"),
		answerOnce("HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n"),
		answerOnce("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n"),
		answerOnce("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + secret + "\r\n"),
	}
	onBothPaths(t, func(t *testing.T, o Options) {
		for i, s := range serve {
			base := listen(t, s)
			req := post(t, "http://me:"+secret+"@"+strings.TrimPrefix(base, "http://")+"/"+secret+"?key="+secret)
			req.Header = append(req.Header, Field{"X-Key", secret})
			_, err := newClient(t, o).Do(within(t), req)
			for cause := err; cause != nil; cause = errors.Unwrap(cause) {
				if strings.Contains(cause.Error(), secret) {
					t.Errorf("server %d: %q holds the secret", i, cause)
				}
			}
			if err == nil {
				t.Errorf("server %d: no error", i)
			}
		}
	})
}
