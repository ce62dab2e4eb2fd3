package egress

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
