// These tests catch a request that reaches the wrong source or none, a reload
// that leaves a path unserved for a moment, a socket that stays open or closes
// on requests in flight, and a caller who can hold pawl's connections: a slow
// header, a slow body, an endless header, too many connections.
package ingress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/testbed"
)

const addr = "10.0.0.1:8080"

// say answers every request with its words.
func say(words string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, words) })
}

type rig struct {
	*testing.T
	net    testbed.Network
	hub    *Hub
	client *http.Client
}

// inBubble runs body with a hub on an in-memory network, in virtual time.
func inBubble(t *testing.T, o Options, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t}
		o.Listen = r.net.Listen
		r.hub = New(o)
		transport := &http.Transport{DialContext: r.net.Dial}
		r.client = &http.Client{Transport: transport}
		body(r)
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := r.hub.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func (r *rig) mount(path string, h http.Handler) func() {
	r.Helper()
	unmount, err := r.hub.Mount(addr, nil, path, h)
	if err != nil {
		r.Fatal(err)
	}
	return unmount
}

func (r *rig) get(path string) (int, string) {
	r.Helper()
	res, err := r.client.Get("http://" + addr + path)
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func TestPathsFindTheirSource(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		for _, p := range []string{"/events", "/a/", "/a/b/", "/a/b"} {
			r.mount(p, say(p))
		}
		for path, want := range map[string]string{
			"/events": "/events", "/events?x=/a/": "/events", "/a/": "/a/", "/a/x": "/a/",
			"/a/b": "/a/b", "/a/b/": "/a/b/", "/a/b/c/d": "/a/b/", "/a/bc": "/a/", "/%61/x": "/a/",
		} {
			if status, body := r.get(path); status != 200 || body != want {
				t.Errorf("%s: %d %q, want %q", path, status, body, want)
			}
		}
		for _, path := range []string{"/", "/events/", "/Events", "/a", "//events"} {
			status, body := r.get(path)
			if status != 404 || !strings.Contains(body, `"urn:pawl:problem:not-found"`) {
				t.Errorf("%s: %d %s, want a 404 problem", path, status, body)
			}
		}
	})
}

// TestHeldAddressesLetCallersWait calls before the second path is mounted, and
// an address that was open before the hold.
func TestHeldAddressesLetCallersWait(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		const other, third = "10.0.0.1:8081", "10.0.0.1:8082"
		r.mount("/open", say("open"))
		release, inner := r.hub.Hold(), r.hub.Hold()
		at := func(address, path string) func() {
			unmount, err := r.hub.Mount(address, nil, path, say(path))
			if err != nil {
				r.Fatal(err)
			}
			return unmount
		}
		at(other, "/first")
		gone := at(third, "/gone")
		answered := make(chan int, 1)
		go func() {
			res, err := r.client.Get("http://" + other + "/second")
			if err != nil {
				t.Error(err)
				answered <- 0
				return
			}
			_ = res.Body.Close()
			answered <- res.StatusCode
		}()
		synctest.Wait()
		if status, _ := r.get("/open"); status != http.StatusOK {
			t.Errorf("an address that was open answers %d", status)
		}
		at(other, "/second")
		gone()
		release()
		release()
		synctest.Wait()
		if len(answered) > 0 {
			t.Error("a caller was served before the last release")
		}
		inner()
		if status := <-answered; status != http.StatusOK {
			t.Errorf("the caller that waited was answered %d", status)
		}
	})
}

// TestHeldAddressesClose closes a hub whose addresses nobody was let into.
func TestHeldAddressesClose(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		release := r.hub.Hold()
		r.mount("/x", say("x"))
		if err := r.hub.Close(r.Context()); err != nil {
			t.Error(err)
		}
		release()
	})
}

func TestMountRefuses(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.mount("/events", say(""))
		if _, err := r.hub.Mount(addr, nil, "events", say("")); err == nil || err.Error() != `path "events" must begin with a slash` {
			t.Errorf("Mount of a path without a slash: %v", err)
		}
		taken, err := r.net.Listen("tcp", "10.0.0.1:81")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		if _, err := r.hub.Mount("10.0.0.1:81", nil, "/", say("")); err == nil ||
			!strings.Contains(err.Error(), "can't listen at 10.0.0.1:81") || strings.Contains(err.Error(), "restart") {
			t.Errorf("Mount of a taken address: %v", err)
		}
		// The same port at another host of this machine, as the kernel answers.
		wide, err := r.net.Listen("tcp", ":8080")
		if err != nil {
			t.Fatal(err)
		}
		defer wide.Close()
		want := "its port is open here at " + addr + ", and another host for it needs a restart: close that address first"
		if _, err := r.hub.Mount(":8080", nil, "/", say("")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Mount of another host: %v, want %q", err, want)
		}
		secure, _ := certificate(r.T, "x.test")
		want = addr + " is open without tls; to have it with tls needs a restart: close the address first"
		if _, err := r.hub.Mount(addr, secure, "/events", say("")); err == nil || err.Error() != want {
			t.Errorf("Mount with tls: %v, want %q", err, want)
		}
	})
}

func TestReloadNeverLeavesAPathUnserved(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		expect := func(want string) {
			t.Helper()
			if status, body := r.get("/x"); status != 200 || body != want {
				t.Fatalf("got %d %q, want %q", status, body, want)
			}
		}
		first := r.mount("/x", say("first"))
		expect("first")
		second := r.mount("/x", say("second"))
		expect("second")
		first()
		first() // twice does nothing
		expect("second")
		third := r.mount("/x", say("third"))
		third() // a reload taken back
		expect("second")
		if n := r.net.Dials(); n != 1 {
			t.Errorf("%d connections, want the one to survive every swap", n)
		}
		second()
		if r.hub.Addr(addr) != nil {
			t.Error("the address is still open after its last path")
		}
	})
}

func TestLastUnmountFinishesWhatIsInFlight(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		unmount := r.mount("/slow", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(20 * time.Second)
			_, _ = io.WriteString(w, "done")
		}))
		var wg sync.WaitGroup
		wg.Go(func() {
			if status, body := r.get("/slow"); status != 200 || body != "done" {
				t.Errorf("in flight: %d %q", status, body)
			}
		})
		synctest.Wait()
		unmount()
		if _, err := r.net.Dial(r.Context(), "tcp", addr); err == nil {
			t.Error("the socket is still open")
		}
		again := r.mount("/slow", say("new")) // the address is free
		if _, body := r.get("/slow"); body != "new" {
			t.Errorf("after opening again: %q", body)
		}
		wg.Wait()
		again()
	})
}

func TestClosingListenerAsksToComeBack(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		unmount := r.mount("/x", say("x"))
		s := r.hub.servers[addr]
		unmount()
		rec := &recorder{header: http.Header{}}
		s.ServeHTTP(rec, mustRequest(t, "/x"))
		if rec.status != 503 || rec.header.Get("Retry-After") != "1" {
			t.Errorf("status %d, Retry-After %q; want 503 and 1", rec.status, rec.header.Get("Retry-After"))
		}
	})
}

func TestCloseIsGracefulAndBounded(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.mount("/slow", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(20 * time.Second)
		}))
		var wg sync.WaitGroup
		wg.Go(func() {
			if res, err := r.client.Get("http://" + addr + "/slow"); err == nil {
				t.Errorf("a cut request was answered %d", res.StatusCode)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := r.hub.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close past its time: %v", err)
		}
		wg.Wait()
		if _, err := r.hub.Mount(addr, nil, "/", say("")); err == nil {
			t.Error("Mount after Close worked")
		}
		time.Sleep(time.Minute) // let the handler return
	})
}

// raw opens a connection and writes text to it.
func (r *rig) raw(text string) net.Conn {
	r.Helper()
	c, err := r.net.Dial(r.Context(), "tcp", addr)
	if err != nil {
		r.Fatal(err)
	}
	go func() { _, _ = io.WriteString(c, text) }()
	return c
}

func TestSlowCallersAreCut(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       time.Duration
	}{
		{"header", "POST /x HTTP/1.1\r\nHost: x\r\n", ReadHeaderTimeout},
		{"body", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", TransferTimeout},
		{"idle", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", IdleTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Options{}, func(r *rig) {
				r.mount("/x", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if _, err := io.ReadAll(q.Body); err != nil {
						w.WriteHeader(http.StatusRequestTimeout)
					}
				}))
				begin := time.Now()
				conn := r.raw(c.text)
				_, _ = io.Copy(io.Discard, conn)
				if took := time.Since(begin); took < c.want || took > c.want+time.Second {
					t.Errorf("cut after %v, want %v", took, c.want)
				}
				_ = conn.Close()
			})
		})
	}
}

func TestHeaderBound(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		r.mount("/x", say("ok"))
		for size, want := range map[int]int{MaxHeaderBytes - 1024: 200, MaxHeaderBytes + 8192: 431} {
			conn := r.raw(fmt.Sprintf("GET /x HTTP/1.1\r\nHost: x\r\nX-Big: %s\r\n\r\n", strings.Repeat("a", size)))
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || res.StatusCode != want {
				t.Errorf("a header of %d bytes: %v, %v; want %d", size, res, err, want)
			}
			_ = conn.Close()
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	inBubble(t, Options{MaxConns: 2}, func(r *rig) {
		r.mount("/x", say("ok"))
		first, second := r.raw(""), r.raw("")
		third := r.raw("GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = third.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := third.Read(make([]byte, 1)); err == nil {
			t.Error("a third connection was served with two allowed")
		}
		_ = first.Close() // gives its slot back
		_ = third.SetReadDeadline(time.Now().Add(time.Second))
		if res, err := http.ReadResponse(bufio.NewReader(third), nil); err != nil || res.StatusCode != 200 {
			t.Errorf("after a slot came free: %v", err)
		}
		_, _ = second.Close(), third.Close()
	})
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

func mustRequest(t *testing.T, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
