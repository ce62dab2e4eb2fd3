package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A server that closes an idle connection just when a request is on its way
// costs one sending again, which is counted, and never an error.
func TestResend(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		resent := 0
		o.OnResend = func() { resent++ }
		requests := 0
		inBubble(t, o, func(n int, c net.Conn) {
			in := bufio.NewReader(c)
			if readRequest(in) != nil {
				return
			}
			requests++
			_, _ = io.WriteString(c, okAnswer)
			if n == 1 {
				answerAll(c, okAnswer)
				return
			}
			// The request is read and not answered: the worst moment, since a
			// client cannot know.
			if readRequest(in) == nil {
				requests++
			}
		}, func(t *testing.T, client *Client, dialled *counting) {
			mustDo(t, client)
			got := mustDo(t, client)
			if !got.Resent || got.Reused || resent != 1 || requests != 3 || dialled.opened.Load() != 2 {
				t.Errorf("got %+v, %d resent, %d requests, %d connections; want it resent once on a second one",
					got, resent, requests, dialled.opened.Load())
			}
			if got = mustDo(t, client); !got.Reused || got.Resent || resent != 1 {
				t.Errorf("after it: %+v, %d resent", got, resent)
			}
		})
	})
}

// A fresh connection that fails as well ends it: never a third sending.
func TestResendOnlyOnce(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		resent := 0
		o.OnResend = func() { resent++ }
		inBubble(t, o, func(n int, c net.Conn) {
			in := bufio.NewReader(c)
			if n == 0 && readRequest(in) == nil {
				_, _ = io.WriteString(c, okAnswer)
			}
			_ = readRequest(in)
		}, func(t *testing.T, client *Client, dialled *counting) {
			mustDo(t, client)
			_, err := client.Do(t.Context(), post(t, "http://a.example/"))
			wantConnect(t, err)
			if resent != 1 || dialled.opened.Load() != 2 {
				t.Errorf("%d resent over %d connections, want once over a second one", resent, dialled.opened.Load())
			}
		})
	})
}

// Once a byte of the answer has come the request is not sent again.
func TestNoResendAfterFirstByte(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		o.OnResend = func() { t.Error("sent again") }
		inBubble(t, o, func(n int, c net.Conn) {
			in := bufio.NewReader(c)
			if readRequest(in) == nil {
				_, _ = io.WriteString(c, okAnswer)
			}
			if readRequest(in) == nil {
				_, _ = io.WriteString(c, "HTTP")
			}
		}, func(t *testing.T, client *Client, _ *counting) {
			mustDo(t, client)
			_, err := client.Do(t.Context(), post(t, "http://a.example/"))
			wantBroken(t, err)
		})
	})
}

// Neither is one that was given up.
func TestNoResendAfterCancel(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		o.OnResend = func() { t.Error("sent again") }
		inBubble(t, o, func(n int, c net.Conn) {
			in := bufio.NewReader(c)
			if readRequest(in) == nil {
				_, _ = io.WriteString(c, okAnswer)
			}
			_, _ = io.Copy(io.Discard, in)
		}, func(t *testing.T, client *Client, _ *counting) {
			mustDo(t, client)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := client.Do(ctx, post(t, "http://a.example/")); err == nil {
				t.Error("no error")
			}
		})
	})
}

// What a server does with a connection after its answer decides whether it is
// used again. Nothing of it reaches the next caller.
func TestNotReused(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		reused    bool
	}{
		{name: "as usual", raw: okAnswer, reused: true},
		{name: "HTTP/1.0 that keeps it open", raw: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", reused: true},
		{name: "HTTP/1.0", raw: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{name: "close", raw: "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok"},
		{name: "close, then keep-alive", raw: "HTTP/1.1 200 OK\r\nConnection: close\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"},
		{name: "more than it said", raw: okAnswer + "HTTP/1.1 500 Smuggled\r\nContent-Length: 2\r\n\r\nno"},
		{name: "204 with a body", raw: "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nno"},
		{name: "length beside chunks", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{name: "longer than is read", raw: "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n01234567890123456789"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := newClient(t, Options{MaxBodyBytes: 10})
			base := listen(t, answering(test.raw))
			for i := range 2 {
				got, err := client.Do(within(t), post(t, base))
				if err != nil {
					t.Fatal(err)
				}
				if want := test.reused && i == 1; got.Reused != want || got.Status == 500 {
					t.Errorf("answer %d: %+v, want reused %v", i, got, want)
				}
			}
		})
	}
}

// tampered is a connection with something done after each read or write.
type tampered struct {
	net.Conn
	afterRead  func()
	afterWrite func() error
}

func (c tampered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.afterRead()
	return n, err
}

func (c tampered) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil {
		err = c.afterWrite()
	}
	return n, err
}

// What the client itself knows against a connection counts too, where no look
// at the socket would show it.
func TestNotReusedByOwnKnowledge(t *testing.T) {
	const half = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"
	for _, test := range []struct {
		name, raw string
		// cancel ends the context when the answer has been read; fail is what
		// writing says though the request went out.
		cancel bool
		fail   error
	}{
		{name: "body not read", raw: half},
		{name: "cancelled after the answer", raw: okAnswer, cancel: true},
		{name: "not all written", raw: okAnswer, fail: syscall.EPIPE},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cancel context.CancelFunc
				dial := inMemory(answering(test.raw))
				client, err := New(Options{
					MaxBodyBytes: 10, OnResend: func() { t.Error("found out by sending") },
					Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
						c, err := dial(ctx, network, addr)
						return tampered{Conn: c, afterWrite: func() error { return test.fail }, afterRead: func() {
							if test.cancel {
								cancel()
							}
						}}, err
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				req := post(t, "http://a.example/")
				req.KeepBody = false
				for range 2 {
					var ctx context.Context
					ctx, cancel = context.WithCancel(t.Context())
					got, err := client.Do(ctx, req)
					if err != nil || got.Status != 200 || got.Reused {
						t.Errorf("got %+v, %v; want 200 on a connection of its own", got, err)
					}
					cancel()
					synctest.Wait()
				}
			})
		})
	}
}

// A look at the socket finds what came while the connection was idle: the
// server's end of it, or an answer that nobody asked for.
func TestProbe(t *testing.T) {
	for name, act := range map[string]func(c net.Conn){
		"closed":     func(c net.Conn) { _ = c.Close() },
		"reset":      func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() },
		"unexpected": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 408 Idle\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			idle, acted := make(chan struct{}), make(chan struct{})
			hold := make(chan struct{})
			base := listen(t, func(n int, c net.Conn) {
				if n > 0 {
					answerAll(c, okAnswer)
					return
				}
				_ = readRequest(bufio.NewReader(c))
				_, _ = io.WriteString(c, okAnswer)
				<-idle
				act(c)
				close(acted)
				<-hold
			})
			t.Cleanup(func() { close(hold) })
			client := newClient(t, Options{OnResend: func() { t.Error("found out by sending") }})
			if _, err := client.Do(within(t), post(t, base)); err != nil {
				t.Fatal(err)
			}
			close(idle)
			<-acted
			got, err := client.Do(within(t), post(t, base))
			if err != nil || got.Status != 200 || got.Reused {
				t.Errorf("got %+v, %v; want 200 on a fresh connection", got, err)
			}
		})
	}
}

// corked is a connection that sends what is written in one packet, when it is
// told to.
type corked struct {
	net.Conn
	held *bytes.Buffer // nil: writes are not held back
}

func (c *corked) Write(b []byte) (int, error) {
	if c.held != nil {
		return c.held.Write(b)
	}
	return c.Conn.Write(b)
}

func (c *corked) uncork() {
	_, _ = c.Conn.Write(c.held.Bytes())
	c.held = nil
}

// What TLS has read ahead of an answer counts as well: here it comes in the
// same packet, as a record of its own.
func TestReadAheadOfTLS(t *testing.T) {
	authority, config := newAuthority(t, "good.example")
	base := listen(t, func(_ int, c net.Conn) {
		cork := &corked{Conn: c}
		secured := tls.Server(cork, config)
		for in := bufio.NewReader(secured); readRequest(in) == nil; cork.uncork() {
			cork.held = new(bytes.Buffer)
			_, _ = io.WriteString(secured, okAnswer)
			_, _ = io.WriteString(secured, "HTTP/1.1 500 Smuggled\r\nContent-Length: 2\r\n\r\nno")
		}
	})
	client := newClient(t, Options{TLS: &tls.Config{RootCAs: authority, ServerName: "good.example"}})
	req := post(t, "https"+strings.TrimPrefix(base, "http"))
	for range 2 {
		got, err := client.Do(within(t), req)
		if err != nil || got.Status != 200 || got.Reused {
			t.Errorf("got %+v, %v; want 200 on a connection of its own", got, err)
		}
	}
}

// Requests given up by the thousand leave nothing behind, and those that were
// not given up get their own answer.
func TestCancelStorm(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		base := listen(t, serveOK)
		client := newClient(t, o)
		var wg sync.WaitGroup
		var whole atomic.Int64
		for caller := range 32 {
			req := post(t, base)
			wg.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					if i%2 == 0 {
						go func() {
							for range (caller*7 + i*3) % 40 {
								runtime.Gosched()
							}
							cancel()
						}()
					}
					got, err := client.Do(ctx, req)
					switch {
					case err == nil && string(got.Body) == "ok":
						whole.Add(1)
					case err == nil:
						t.Errorf("an answer that is not whole: %+v", got)
					case ctx.Err() == nil:
						t.Errorf("not cancelled, and yet: %v", err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if whole.Load() < 32*25 {
			t.Errorf("only %d answers, though every second request was left alone", whole.Load())
		}
		client.Close() // goleak looks after the rest
	})
}

// Close lets a request in flight end, and its connection with it.
func TestCloseInFlight(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		inBubble(t, o, func(_ int, c net.Conn) {
			in := bufio.NewReader(c)
			for readRequest(in) == nil {
				time.Sleep(time.Second)
				_, _ = io.WriteString(c, okAnswer)
			}
		}, func(t *testing.T, client *Client, dialled *counting) {
			time.AfterFunc(500*time.Millisecond, client.Close)
			if got := mustDo(t, client); got.Status != 200 {
				t.Errorf("got %+v", got)
			}
			time.Sleep(DefaultIdleTimeout + time.Second)
			synctest.Wait()
			if dialled.closed.Load() != 1 {
				t.Error("the connection outlived its request")
			}
		})
	})
}
