package http

import (
	"bytes"
	"compress/gzip"
	"encoding/json/v2"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/ingress"
	"github.com/pawlhq/pawl/internal/testbed"
)

func TestRefusedBodyIsNotReadToItsEnd(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.MaxBody = 1000 }, func(r *rig) {
		// Announced too large: answered at once, though the body never comes.
		begin := time.Now()
		a, err := r.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
		if err != nil || a.status != 413 || time.Since(begin) != 0 {
			t.Errorf("%+v, %v after %v", a, err, time.Since(begin))
		}
	})
}

func TestSlowBodyIsCut(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		c, err := r.net.Dial(r.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		begin := time.Now()
		go func() {
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
			for range 1000 {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		a, err := readAnswer(c)
		if err != nil || a.status != 408 || time.Since(begin) != ingress.TransferTimeout || r.relay.count() != 0 {
			t.Errorf("%+v, %v after %v", a, err, time.Since(begin))
		}
		_ = c.Close()
		time.Sleep(2 * time.Second) // the writer notices
	})
}

func TestBodyThatEndsEarlyIsNoMessage(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		c, err := r.net.Dial(r.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
		_ = c.(*testbed.Conn).CloseWrite()
		if a, err := readAnswer(c); err != nil || a.status != 400 || r.relay.count() != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		_ = c.Close()
	})
}

func packed(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGzip(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.MaxBody = 1 << 20 }, func(r *rig) {
		zeros := func(n int) string { return packed(t, strings.Repeat("\x00", n)) }
		whole := packed(t, `{"a":1}`)
		for name, c := range map[string]struct {
			body   string
			status int
		}{
			"unpacked":       {whole, 200},
			"two members":    {whole + packed(t, " "), 200},
			"cut":            {whole[:len(whole)-4], 400},
			"trailing bytes": {whole + "xxxx", 400},
			"past max_body":  {zeros(1<<20 + 1), 413},
			"bomb":           {zeros(1 << 20), 413}, // a thousand times its size
			"small is fine":  {zeros(ratioFrom), 200},
		} {
			a := r.post(c.body, "Content-Encoding", "gzip")
			if a.status != c.status {
				t.Errorf("%s: %d %s, want %d", name, a.status, a.body, c.status)
			}
		}
		r.post(whole, "Content-Encoding", "gzip")
		m := r.relay.last(t).Message
		if string(m.Body) != `{"a":1}` || m.Headers["content-encoding"] != nil {
			t.Errorf("body %q, headers %v", m.Body, m.Headers)
		}
	})
}

func TestForms(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		r.post("b=2&a=1+x&b=%C3%A9&c=", "Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		m := r.relay.last(t).Message
		if string(m.Body) != `{"a":"1 x","b":["2","é"],"c":""}` || m.ContentType != "application/json" ||
			!strings.Contains(string(m.Attributes["http"]), `"form":true`) {
			t.Errorf("body %s, type %s, http %s", m.Body, m.ContentType, m.Attributes["http"])
		}
	})
}

// curl -d '{"a":1}' says that it sends a form.
func TestJSONSentAsAForm(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		for _, c := range []struct {
			body, want string
			form       bool
		}{
			{`{"a":"b&c=d"}`, `{"a":"b&c=d"}`, false},
			{` [1,2]`, ` [1,2]`, false},
			{`{"a":1`, `{"{\"a\":1":""}`, true},
			{`7`, `{"7":""}`, true},
		} {
			r.post(c.body, "Content-Type", "application/x-www-form-urlencoded")
			m := r.relay.last(t).Message
			if form := strings.Contains(string(m.Attributes["http"]), `"form":true`); string(m.Body) != c.want || form != c.form || m.ContentType != "application/json" {
				t.Errorf("%s became %s (%s), a form: %v; want %s, %v", c.body, m.Body, m.ContentType, form, c.want, c.form)
			}
		}
	})
}

func TestTooLargeSaysHowMuchIsTaken(t *testing.T) {
	for limit, want := range map[int]string{100: "the 100 bytes that", 64 << 10: "the 64KiB that"} {
		if err := errTooLarge(limit); !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func encoded(t *testing.T, m *message.Message) string {
	t.Helper()
	text, err := message.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFromRequestIsWhatTheSourceMakes holds the messages of commands against
// those of a source.
func TestFromRequestIsWhatTheSourceMakes(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.Methods = []string{"PUT"} }, func(r *rig) {
		for _, c := range []struct{ contentType, body string }{
			{"application/json", `{"a":1}`},
			{"application/x-www-form-urlencoded", "a=1"},
			{"application/x-www-form-urlencoded", `{"a":1}`},
		} {
			header := []string{"Content-Type", c.contentType, "X-Kind", "a", "X-Kind", "b", "Idempotency-Key", "k", "Cookie", "secret", "User-Agent", "test"}
			r.send("PUT", "/in?x=1&x=2", c.body, header...)
			want := r.relay.last(t).Message
			q, err := nethttp.NewRequest("PUT", "http://x/in?x=1&x=2", nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(header); i += 2 {
				q.Header.Add(header[i], header[i+1])
			}
			var about struct {
				Remote string `json:"remote"`
			}
			if err := json.Unmarshal(want.Attributes["http"], &about); err != nil {
				t.Fatal(err)
			}
			q.RemoteAddr = about.Remote
			got, err := FromRequest(q, []byte(c.body), 1000)
			if err != nil {
				t.Fatal(err)
			}
			got.Source, got.Time = want.Source, want.Time
			if diff := cmp.Diff(encoded(t, want), encoded(t, got)); diff != "" {
				t.Errorf("%s %s (-source +FromRequest):\n%s", c.contentType, c.body, diff)
			}
		}
	})
}

func TestBodiesThatArriveAreBoundedTogether(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		r.source.bodies = newBudget(200 << 10)
		slow := func(n int) net.Conn {
			c, err := r.net.Dial(r.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", n))
			}()
			return c
		}
		small := slow(trustedLength - 1) // within what everybody gets
		big := slow(100 << 10)
		synctest.Wait()
		other := slow(100 << 10)
		if a, err := readAnswer(other); err != nil || a.status != 503 || a.header.Get("Retry-After") != "1" {
			t.Errorf("past the budget: %+v, %v", a, err)
		}
		if a := r.post("{}"); a.status != 200 {
			t.Errorf("a small body while the budget is spent: %d", a.status)
		}
		for _, c := range []net.Conn{small, big, other} {
			_ = c.Close()
		}
		synctest.Wait()
		if left := r.source.bodies.left.Load(); left != 200<<10 {
			t.Errorf("%d bytes of the budget are left after all is over", left)
		}
	})
}
