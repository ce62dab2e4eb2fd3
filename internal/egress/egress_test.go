// These tests would catch: an answer that is read otherwise than HTTP says, or
// read at all where two readers could differ about it; a message that is sent
// twice without being counted, or lost because an idle connection died; a
// failure with the wrong tags, class or verdict, or with a secret in its text;
// a header that splits a request; a wait that does not end with its context; a
// connection or goroutine that is never given back; connections that are not
// reused.
package egress

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/failure"
)

func TestAnswers(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	for _, test := range []struct {
		name, method, raw string
		status            int
		body              string
		cut               bool
		max               int64
	}{
		{name: "length", raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "no reason", raw: "HTTP/1.1 202\r\nContent-Length: 0\r\n\r\n", status: 202},
		{name: "length twice, the same", raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "chunks", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", status: 200, body: "ok0123456789"},
		{name: "trailers", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n", status: 200, body: "ok"},
		{name: "chunks win over a length", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n2\r\nok\r\n0\r\n\r\n", status: 200, body: "ok"},
		{name: "until close", raw: "HTTP/1.1 200 OK\r\n\r\nok", status: 200, body: "ok"},
		{name: "HTTP/1.0", raw: "HTTP/1.0 200 OK\r\n\r\nok", status: 200, body: "ok"},
		{name: "lines end with LF", raw: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", status: 200, body: "ok"},
		{name: "HEAD", method: "HEAD", raw: "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", status: 200},
		{name: "204", raw: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "304", raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n", status: 304},
		{name: "redirect is not followed", raw: "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", status: 302},
		{name: "1xx", raw: "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "as long as allowed", max: 1000, raw: "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + long, status: 200, body: long},
		{name: "longer by length", max: 999, raw: "HTTP/1.1 500 Oh\r\nContent-Length: 1000\r\n\r\n" + long, status: 500, body: long[:999], cut: true},
		{name: "longer by chunks", max: 999, raw: "HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + long + "\r\n0\r\n\r\n", status: 500, body: long[:999], cut: true},
		{name: "longer until close", max: 999, raw: "HTTP/1.1 500 Oh\r\n\r\n" + long, status: 500, body: long[:999], cut: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, o Options) {
				o.MaxBodyBytes = test.max
				client := newClient(t, o)
				req := post(t, listen(t, answerOnce(test.raw)))
				if test.method != "" {
					req.Target, req.Body = newTarget(t, test.method, "http://"+req.Target.Addr()), nil
				}
				got, err := client.Do(within(t), req)
				if err != nil {
					t.Fatal(err)
				}
				if got.Status != test.status || string(got.Body) != test.body || got.Truncated != test.cut || got.Reused || got.Resent {
					t.Errorf("got %+v, want %d %q truncated %v", got, test.status, test.body, test.cut)
				}
			})
		})
	}
}

// Each of these would let another reader see another answer, or is endless.
func TestBrokenAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, test := range []struct {
		name, raw string
		// lenient says that net/http takes it.
		lenient bool
	}{
		{name: "another protocol", raw: "SSH-2.0-OpenSSH_9.9\r\n"},
		{name: "HTTP/2 by surprise", raw: "HTTP/2.0 200 OK\r\n\r\n", lenient: true},
		{name: "status of two digits", raw: "HTTP/1.1 20 OK\r\n\r\n"},
		{name: "status with a sign", raw: "HTTP/1.1 +20 OK\r\n\r\n", lenient: true},
		{name: "status below 100", raw: "HTTP/1.1 099 OK\r\n\r\n" + okAnswer, lenient: true},
		{name: "two lengths", raw: ok + "Content-Length: 3\r\nContent-Length: 2\r\n\r\nok"},
		{name: "list of lengths", raw: ok + "Content-Length: 2, 2\r\n\r\nok"},
		{name: "negative length", raw: ok + "Content-Length: -1\r\n\r\n"},
		{name: "length with a sign", raw: ok + "Content-Length: +2\r\n\r\nok"},
		{name: "empty length", raw: ok + "Content-Length:\r\n\r\n"},
		{name: "length beyond 63 bits", raw: ok + "Content-Length: 9223372036854775808\r\n\r\n"},
		{name: "gzip, chunked", raw: ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{name: "chunked twice", raw: ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{name: "chunked in HTTP/1.0", raw: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", lenient: true},
		{name: "chunk size not hexadecimal", raw: ok + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n"},
		{name: "chunk size empty", raw: ok + "Transfer-Encoding: chunked\r\n\r\n\r\nok\r\n0\r\n\r\n"},
		{name: "chunk size of 17 digits", raw: ok + "Transfer-Encoding: chunked\r\n\r\n00000000000000002\r\nok\r\n0\r\n\r\n"},
		{name: "chunk size line ends with LF", raw: ok + "Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n"},
		{name: "chunk longer than its size", raw: ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n"},
		{name: "chunk extension without end", raw: ok + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 5000) + "\r\nok\r\n0\r\n\r\n"},
		{name: "chunk extensions beyond their share", raw: ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 200)+"\r\no\r\n", 100) + "0\r\n\r\n"},
		{name: "trailer that is no field", raw: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nno field\r\n\r\n"},
		{name: "trailers too large", raw: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 70) + "\r\n", lenient: true},
		{name: "folded line", raw: ok + "X: a\r\n b\r\nContent-Length: 0\r\n\r\n", lenient: true},
		{name: "space before the colon", raw: ok + "Content-Length : 0\r\n\r\n", lenient: true},
		{name: "name that is no token", raw: ok + "X(: a\r\nContent-Length: 0\r\n\r\n", lenient: true},
		{name: "no colon", raw: ok + "X\r\nContent-Length: 0\r\n\r\n"},
		{name: "NUL in a value", raw: ok + "X: a\x00b\r\nContent-Length: 0\r\n\r\n"},
		{name: "CR in a value", raw: ok + "X: a\rb\r\nContent-Length: 0\r\n\r\n"},
		{name: "header too large", raw: ok + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 70) + "\r\n"},
		{name: "one line too large", raw: ok + "X: " + strings.Repeat("x", 70_000)},
		{name: "101", raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + okAnswer},
		{name: "six 1xx", raw: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 6) + okAnswer, lenient: true},
		{name: "1xx without end", raw: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 70_000/27)},
		{name: "head cut short", raw: "HTTP/1.1 200 OK\r\nContent-Le"},
		{name: "body cut short", raw: ok + "Content-Length: 5\r\n\r\nok"},
		{name: "chunk cut short", raw: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nok"},
		{name: "last chunk missing", raw: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, o Options) {
				client := newClient(t, o)
				got, err := client.Do(within(t), post(t, listen(t, answerOnce(test.raw))))
				if test.lenient && client.standard() {
					return
				}
				if err == nil {
					t.Fatalf("took it as %+v", got)
				}
				wantBroken(t, err)
			})
		})
	}
}

// standard reports whether the client takes the path of net/http.
func (c *Client) standard() bool {
	_, ok := c.path.(*standard)
	return ok
}

// What came of an answer before it broke is returned beside the error.
func TestAnswerBesideError(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		base := listen(t, answerOnce("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\nhalf"))
		got, err := newClient(t, o).Do(within(t), post(t, base))
		wantBroken(t, err)
		if got == nil || got.Status != 503 || got.Get("retry-after") != "7" || string(got.Body) != "half" {
			t.Errorf("got %+v, want the status, header and half a body", got)
		}
	})
}

func TestHeaderOfAnswer(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		base := listen(t, answering("HTTP/1.1 200 OK\r\nx-one:  1 \r\nX-Two: a\r\nX-Two: b: c\r\nX-Empty:\r\nContent-Length: 0\r\n\r\n"))
		got, err := newClient(t, o).Do(within(t), post(t, base))
		if err != nil {
			t.Fatal(err)
		}
		want := http.Header{"X-One": {"1"}, "X-Two": {"a", "b: c"}, "X-Empty": {""}, "Content-Length": {"0"}}
		if diff := cmp.Diff(want, got.Header()); diff != "" {
			t.Errorf("header (-want +got):\n%s", diff)
		}
		for name, value := range map[string]string{"X-ONE": "1", "x-two": "a", "X-Empty": "", "X-None": ""} {
			if got.Get(name) != value {
				t.Errorf("Get(%q) = %q, want %q", name, got.Get(name), value)
			}
		}
	})
}

// The body is thrown away unless it is asked for, and the connection lives on.
func TestBodyNotKept(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		client, req := newClient(t, o), post(t, listen(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")))
		req.KeepBody = false
		for i := range 2 {
			got, err := client.Do(within(t), req)
			if err != nil {
				t.Fatal(err)
			}
			if got.Body != nil || got.Truncated || got.Reused != (i == 1) {
				t.Errorf("answer %d: %+v", i, got)
			}
		}
	})
}

func TestRequestOnTheWire(t *testing.T) {
	type seen struct {
		Method, URI, Host, Body string
		Header                  http.Header
		Length                  int64
	}
	large := strings.Repeat("x", copiedBody+1)
	for _, test := range []struct {
		name   string
		target func(base string) *Target
		body   string
		want   seen
	}{
		{
			name: "POST with everything",
			target: func(base string) *Target {
				return newTarget(t, "POST", "http://me:secret@"+base+"/a%2Fb?q=ü x&r=1#part", Field{"content-type", "text/plain"}, Field{"Host", "front.example"})
			},
			body: "hello",
			want: seen{"POST", "/a%2Fb?q=%C3%BC%20x&r=1", "front.example", "hello", http.Header{
				"Content-Type": {"text/plain"}, "Authorization": {"Basic bWU6c2VjcmV0"}, "User-Agent": {"pawl"}, "Content-Length": {"5"},
			}, 5},
		},
		{
			name:   "POST without a body",
			target: func(base string) *Target { return newTarget(t, "POST", "http://"+base) },
			want:   seen{"POST", "/", "", "", http.Header{"User-Agent": {"pawl"}, "Content-Length": {"0"}}, 0},
		},
		{
			name:   "GET",
			target: func(base string) *Target { return newTarget(t, "GET", "http://"+base+"/?", Field{"User-Agent", "me"}) },
			want:   seen{"GET", "/?", "", "", http.Header{"User-Agent": {"me"}}, 0},
		},
		{
			name:   "large body",
			target: func(base string) *Target { return newTarget(t, "PUT", "http://"+base+"/x") },
			body:   large,
			want:   seen{"PUT", "/x", "", large, http.Header{"User-Agent": {"pawl"}, "Content-Length": {"16385"}}, 16385},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, o Options) {
				got := make(chan seen, 1)
				base := strings.TrimPrefix(listen(t, func(_ int, c net.Conn) {
					req, err := http.ReadRequest(bufio.NewReader(c))
					if err != nil {
						t.Error(err)
						return
					}
					body, _ := io.ReadAll(req.Body)
					got <- seen{req.Method, req.RequestURI, req.Host, string(body), req.Header, req.ContentLength}
					_, _ = io.WriteString(c, "HTTP/1.1 204 Fine\r\nConnection: close\r\n\r\n")
				}), "http://")
				test.want.Header["X-Key"] = []string{"k", "l"}
				if test.want.Host == "" {
					test.want.Host = base
				}
				req := &Request{Target: test.target(base), Header: []Field{{"X-Key", "k"}, {"X-Key", "l"}}, Body: []byte(test.body)}
				if _, err := newClient(t, o).Do(within(t), req); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, <-got); diff != "" {
					t.Errorf("request (-want +got):\n%s", diff)
				}
				if test.want.Host == base {
					test.want.Host = ""
				}
			})
		})
	}
}

// A server that answers without reading a large body is heard, and neither the
// body nor the connection is used after that.
func TestEarlyAnswer(t *testing.T) {
	const tooLarge = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
	onBothPaths(t, func(t *testing.T, o Options) {
		for _, test := range []struct {
			name string
			// direct: net/http may report the write that failed instead.
			direct bool
			serve  func(c net.Conn, hold <-chan struct{})
		}{
			{"and keeps the connection", false, func(c net.Conn, hold <-chan struct{}) {
				_, _ = bufio.NewReader(c).ReadString('\n')
				_, _ = io.WriteString(c, tooLarge)
				<-hold
			}},
			{"and closes the connection", true, func(c net.Conn, _ <-chan struct{}) {
				_, _ = bufio.NewReader(c).ReadString('\n')
				_, _ = io.WriteString(c, tooLarge)
				_ = c.(*net.TCPConn).CloseWrite()
				_, _ = io.CopyN(io.Discard, c, 1<<20)
			}},
		} {
			t.Run(test.name, func(t *testing.T) {
				client := newClient(t, o)
				if test.direct && client.standard() {
					return
				}
				hold := make(chan struct{})
				base := listen(t, func(_ int, c net.Conn) { test.serve(c, hold) })
				t.Cleanup(func() { close(hold) })
				req := post(t, base)
				req.Body = bytes.Repeat([]byte("x"), 32<<20)
				for range 2 {
					got, err := client.Do(within(t), req)
					if err != nil {
						t.Fatal(err)
					}
					if got.Status != 413 || string(got.Body) != "no" || got.Reused {
						t.Errorf("got %+v, want the 413 on a connection of its own", got)
					}
					clear(req.Body) // would be a data race were it still read
				}
			})
		}
	})
}

func TestRequestRefused(t *testing.T) {
	var reached atomic.Bool
	base := listen(t, func(int, net.Conn) { reached.Store(true) })
	onBothPaths(t, func(t *testing.T, o Options) {
		client := newClient(t, o)
		for _, field := range []Field{
			{"X", "a\r\nY: secret"}, {"X", "a\nsecret"}, {"X", "secret\x00"}, {"X y", "secret"}, {"", "secret"},
			{"X:", "secret"}, {"X\r\nY", "secret"}, {"Content-Length", "1"}, {"transfer-encoding", "chunked"},
			{"Connection", "close"}, {"Host", "other"}, {"TE", "trailers"}, {"Expect", "100-continue"}, {"Upgrade", "x"},
		} {
			req := post(t, base)
			req.Header = append(req.Header, field)
			_, err := client.Do(within(t), req)
			wantFailure(t, err, failure.Permanent, failure.Neutral)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%v tells the value", err)
			}
		}
		_, err := client.Do(within(t), &Request{})
		wantFailure(t, err, failure.Permanent, failure.Neutral)
	})
	if reached.Load() {
		t.Error("a refused request opened a connection")
	}
}

func TestClosedClient(t *testing.T) {
	onBothPaths(t, func(t *testing.T, o Options) {
		client := newClient(t, o)
		client.Close()
		client.Close()
		if _, err := client.Do(context.Background(), post(t, "http://127.0.0.1:1")); err == nil {
			t.Error("a closed client sent a request")
		}
	})
}
