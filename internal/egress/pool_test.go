package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// No more connections are opened than there are callers, whatever their
// number and however many requests they send: from the hundredth request of a
// caller on, 99 of 100 have gone over a connection that was there.
func TestReuse(t *testing.T) {
	for _, callers := range []int{1, 64, 512} {
		t.Run(fmt.Sprint(callers, " callers"), func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, o Options) {
				each, most := 30, callers
				if o.Protocol == HTTP2 {
					// net/http dials for a request that meanwhile gets another
					// connection, and keeps what it dialled.
					most = 2 * callers
				}
				var opened, resent atomic.Int64
				base := listen(t, func(_ int, c net.Conn) {
					opened.Add(1)
					answerAll(c, okAnswer)
				})
				// A connection that was idle for seconds because this machine is
				// slow is not what is counted here.
				o.IdleTimeout = time.Minute
				o.OnResend = func() { resent.Add(1) }
				client, ctx := newClient(t, o), within(t)
				var wg sync.WaitGroup
				for range callers {
					req := post(t, base)
					wg.Go(func() {
						for range each {
							if got, err := client.Do(ctx, req); err != nil || got.Status != 200 {
								t.Errorf("got %+v, %v", got, err)
								return
							}
							runtime.Gosched()
						}
					})
				}
				wg.Wait()
				if n := opened.Load(); n > int64(most) {
					t.Errorf("%d connections for %d requests of %d callers", n, callers*each, callers)
				}
				if resent.Load() != 0 {
					t.Errorf("%d requests were sent again", resent.Load())
				}
			})
		})
	}
}

// counting is a Dial that counts what it opened and what was closed again.
type counting struct {
	opened, closed atomic.Int64
	serve          func(n int, c net.Conn)
}

type countedConn struct {
	net.Conn
	once   sync.Once
	closed *atomic.Int64
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.closed.Add(1) })
	return c.Conn.Close()
}

func (d *counting) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	n := int(d.opened.Add(1)) - 1
	go func() {
		defer func() { _ = far.Close() }()
		d.serve(n, far)
	}()
	return &countedConn{Conn: near, closed: &d.closed}, nil
}

func serveOK(_ int, c net.Conn) { answerAll(c, okAnswer) }

// inBubble runs test in virtual time with a client over counted connections.
func inBubble(t *testing.T, o Options, serve func(int, net.Conn), test func(t *testing.T, client *Client, dialled *counting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dialled := &counting{serve: serve}
		o.Dial = dialled.dial
		client, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		test(t, client, dialled)
		client.Close()
		synctest.Wait()
		if dialled.opened.Load() != dialled.closed.Load() {
			t.Errorf("%d connections opened and %d closed at the end", dialled.opened.Load(), dialled.closed.Load())
		}
	})
}

func mustDo(t *testing.T, client *Client) *Response {
	t.Helper()
	got, err := client.Do(t.Context(), post(t, "http://a.example/"))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestIdleTimeout(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		inBubble(t, o, serveOK, func(t *testing.T, client *Client, dialled *counting) {
			mustDo(t, client)
			time.Sleep(DefaultIdleTimeout - time.Millisecond)
			if !mustDo(t, client).Reused {
				t.Error("not reused just before the idle timeout")
			}
			time.Sleep(DefaultIdleTimeout + time.Millisecond)
			synctest.Wait()
			if dialled.closed.Load() != 1 {
				t.Error("the idle connection is still open after the timeout")
			}
			if mustDo(t, client).Reused {
				t.Error("reused after the idle timeout")
			}
		})
	})
}

// One timer closes them all, each near its time.
func TestReaper(t *testing.T) {
	inBubble(t, Options{}, serveOK, func(t *testing.T, client *Client, dialled *counting) {
		p := client.path.(*direct).pool
		var held []*conn
		for range 8 {
			c, err := client.path.(*direct).open(t.Context(), endpoint{addr: "a.example:80"})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		for _, c := range held { // idle one after the other, 200 ms apart
			p.put(c, time.Now())
			time.Sleep(200 * time.Millisecond)
		}
		var closed []int64
		for range 6 { // from 1.6 s on, each second
			time.Sleep(time.Second)
			synctest.Wait()
			closed = append(closed, dialled.closed.Load())
		}
		// The first is due at 4 s, the last at 5.4 s; the timer may come half a
		// second late.
		if closed[1] != 0 || closed[2] == 0 || closed[2] == 8 || closed[4] != 8 {
			t.Errorf("closed after 2.6, 3.6, 4.6, … s: %v", closed)
		}
		if len(p.idle) != 0 || p.armed {
			t.Error("the pool keeps something of a host without connections")
		}
	})
}

// A busy connection is given up at its age too, or a change of DNS would never
// be seen; those opened together do not all end together.
func TestMaxAge(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		o.MaxAge = time.Minute
		inBubble(t, o, serveOK, func(t *testing.T, client *Client, dialled *counting) {
			for range 61 {
				mustDo(t, client)
				time.Sleep(time.Second)
			}
			if n := dialled.opened.Load(); n != 2 {
				t.Errorf("%d connections in 61 s, want a second one after at most a minute", n)
			}
		})
	})
	d := newDirect(Options{MaxAge: time.Minute, Dial: inMemory(func(int, net.Conn) {})})
	ages := map[time.Duration]bool{}
	for range ageSteps {
		c, err := d.open(t.Context(), endpoint{addr: "a.example:80"})
		if err != nil {
			t.Fatal(err)
		}
		age := time.Until(c.dies).Round(time.Millisecond)
		if age > time.Minute || age < 54*time.Second {
			t.Errorf("an age of %v, want the last tenth of a minute", age)
		}
		ages[age] = true
		c.abort()
	}
	if len(ages) != ageSteps {
		t.Errorf("%d ages of %d connections", len(ages), ageSteps)
	}
}

// The connection used last comes first, and MaxIdle bounds what is kept.
func TestPoolOrder(t *testing.T) {
	inBubble(t, Options{MaxIdle: 3}, serveOK, func(t *testing.T, client *Client, dialled *counting) {
		d, to := client.path.(*direct), endpoint{addr: "a.example:80"}
		var all []*conn
		for range 5 {
			c, err := d.open(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, c := range all {
			d.pool.put(c, time.Now())
		}
		if dialled.closed.Load() != 2 {
			t.Errorf("%d closed, want the two over MaxIdle", dialled.closed.Load())
		}
		var order []int
		for {
			c, err := d.pool.take(to, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if c == nil {
				break
			}
			order = append(order, slices.Index(all, c))
			c.abort()
		}
		if diff := cmp.Diff([]int{2, 1, 0}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if c, _ := d.pool.take(endpoint{addr: to.addr, secure: true}, time.Now()); c != nil {
			t.Error("https got a connection of http")
		}
	})
}

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
