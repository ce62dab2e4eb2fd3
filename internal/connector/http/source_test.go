// These tests catch a message that is acknowledged without being in pawl's
// hands, or lost behind a 504 or a stop; a request that gets the wrong status;
// a forged, stale or changed request that is let in; a header or a credential
// that is kept and must not be; a body that is changed on the way, or larger
// than it may be, packed or not; and a caller who holds the source up.
package http

import (
	"bufio"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/ingress"
	"github.com/pawlhq/pawl/internal/testbed"
)

const address = "10.0.0.1:8080"

// relay is a handler that remembers what it got and settles as it is told.
type relay struct {
	mu     sync.Mutex
	got    []connector.Delivery
	settle func(context.Context, connector.Delivery) connector.Settlement
}

func (h *relay) Handle(ctx context.Context, d connector.Delivery) connector.Settlement {
	h.mu.Lock()
	h.got = append(h.got, d)
	settle := h.settle
	h.mu.Unlock()
	if settle != nil {
		return settle(ctx, d)
	}
	return connector.Settlement{Status: event.SettledDelivered, ID: d.Message.ID}
}

// set changes how messages are settled from now on.
func (h *relay) set(settle func(context.Context, connector.Delivery) connector.Settlement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settle = settle
}

// last returns the newest delivery.
func (h *relay) last(t *testing.T) connector.Delivery {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.got) == 0 {
		t.Fatal("no message was handed over")
	}
	return h.got[len(h.got)-1]
}

func (h *relay) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.got)
}

// rig is a running source on an in-memory network, in virtual time.
type rig struct {
	*testing.T
	net    testbed.Network
	source *Source
	relay  relay
	client *nethttp.Client
	stop   context.CancelFunc
	done   chan error
	events []event.Event
	mu     sync.Mutex
}

// withSource runs body against a source whose settings change has altered.
func withSource(t *testing.T, change func(*SourceSettings), body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, done: make(chan error, 1)}
		settings := newSourceSettings().(*SourceSettings)
		settings.Listen = address
		if change != nil {
			change(settings)
		}
		if p := settings.Check(); len(p) > 0 {
			t.Fatalf("settings: %v", p)
		}
		hub := ingress.New(ingress.Options{Listen: r.net.Listen})
		source, err := OpenSource(settings, connector.Env{Name: "web", Listeners: hub, Events: func(e event.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		r.source = source
		ctx, stop := context.WithCancel(t.Context())
		r.stop = stop
		go func() { r.done <- source.Run(ctx, &r.relay) }()
		transport := &nethttp.Transport{DialContext: r.net.Dial, DisableCompression: true}
		r.client = &nethttp.Client{Transport: transport}
		body(r)
		stop()
		transport.CloseIdleConnections()
		if err := <-r.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := hub.Close(t.Context()); err != nil {
			t.Errorf("hub: %v", err)
		}
	})
}

type answer struct {
	status int
	header nethttp.Header
	body   string
}

// field returns a member of an answer's JSON object.
func (a answer) field(t *testing.T, name string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(a.body), &object); err != nil {
		t.Fatalf("answer %q is no JSON object: %v", a.body, err)
	}
	s, _ := object[name].(string)
	return s
}

func (r *rig) send(method, path, body string, header ...string) answer {
	r.Helper()
	q, err := nethttp.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	res, err := r.client.Do(q)
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

func (r *rig) post(body string, header ...string) answer {
	r.Helper()
	return r.send(nethttp.MethodPost, "/", body, header...)
}

// raw writes bytes on a connection of its own and reads the answer.
func (r *rig) raw(text string) (answer, error) {
	r.Helper()
	c, err := r.net.Dial(r.Context(), "tcp", address)
	if err != nil {
		r.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.WriteString(c, text) }()
	return readAnswer(c)
}

func readAnswer(c net.Conn) (answer, error) {
	res, err := nethttp.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return answer{}, err
	}
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b)}, err
}

func TestMessageIsWhatWasSent(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.Path = "/in/"; s.Methods = []string{"POST", "PUT"} }, func(r *rig) {
		body := "\x00\xffany bytes\r\n"
		a := r.send("PUT", "/in/%E2%82%AC?b=2&a=1&b=3", body,
			"Idempotency-Key", "key 1", "Content-Type", "application/octet-stream",
			"X-Two", "1", "X-Two", "2", "X-Latin", "caf\xe9", "Authorization", "Bearer secret", "Cookie", "secret",
			"Proxy-Authorization", "secret", "Te", "trailers", "Connection", "X-Hop, close", "X-Hop", "hop", "Keep-Alive", "5")
		if a.status != 200 || a.body != `{"id":"key 1","status":"delivered"}` || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("answer %+v", a)
		}
		d := r.relay.last(t)
		m := d.Message
		if m.ID != "key 1" || !d.Keyed || m.Source != "web" || !m.Time.Equal(time.Now()) || m.ContentType != "application/octet-stream" || string(m.Body) != body {
			t.Errorf("message %+v, keyed %v", m, d.Keyed)
		}
		if diff := cmp.Diff(map[string][]string{
			"idempotency-key": {"key 1"}, "x-two": {"1", "2"}, "x-latin": {"café"},
			"user-agent": {"Go-http-client/1.1"},
		}, m.Headers); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		want := `{"method":"PUT","path":"/in/€","query":{"a":["1"],"b":["2","3"]},"remote":"192.0.2.1:10001"}`
		if got := string(m.Attributes["http"]); got != want {
			t.Errorf("attribute http:\n got %s\nwant %s", got, want)
		}
	})
}

func TestEverySettlementHasItsAnswer(t *testing.T) {
	for _, c := range []struct {
		outcome connector.Settlement
		status  int
		after   string
		word    string // the status of a 2xx, else the problem
	}{
		{connector.Settlement{Status: event.SettledDelivered}, 200, "", "delivered"},
		{connector.Settlement{Status: event.SettledDeadLettered}, 200, "", "dead_lettered"},
		{connector.Settlement{Status: event.SettledFiltered}, 200, "", "filtered"},
		{connector.Settlement{Status: event.SettledUnrouted}, 200, "", "unrouted"},
		{connector.Settlement{Status: event.SettledStored}, 202, "", "stored"},
		{connector.Settlement{Status: event.SettledRefused, RetryAfter: 1500 * time.Millisecond}, 503, "2", "urn:pawl:problem:unavailable"},
		{connector.Settlement{Status: event.SettledNacked, Err: errors.New("disk s3cr3t")}, 503, "1", "urn:pawl:problem:unavailable"},
		{connector.Settlement{Status: event.SettledJoined}, 503, "1", "urn:pawl:problem:unavailable"},
		{connector.Settlement{Status: "what"}, 503, "1", "urn:pawl:problem:unavailable"},
		{connector.Settlement{Status: event.SettledConflict}, 409, "", "urn:pawl:problem:key-conflict"},
	} {
		t.Run(string(c.outcome.Status), func(t *testing.T) {
			withSource(t, nil, func(r *rig) {
				r.relay.settle = func(context.Context, connector.Delivery) connector.Settlement { return c.outcome }
				a := r.post("{}", "Idempotency-Key", "k1")
				field := "status"
				if c.status >= 300 {
					field = "type"
				}
				if a.status != c.status || a.header.Get("Retry-After") != c.after || a.field(t, field) != c.word || a.field(t, "id") != "k1" {
					t.Errorf("got %d %v %s", a.status, a.header, a.body)
				}
				if strings.Contains(a.body, "s3cr3t") {
					t.Error("the answer tells a stranger what went wrong inside")
				}
			})
		})
	}
}

// A sender that is refused is told whether it waits for room or for a person.
func TestRefusalsSayWhy(t *testing.T) {
	for want, why := range map[string]error{
		"the source is paused; send the message again later": connector.ErrPaused,
		"there is no room for the message; send it again":    errors.New("full"),
	} {
		withSource(t, nil, func(r *rig) {
			r.relay.settle = func(context.Context, connector.Delivery) connector.Settlement {
				return connector.Settlement{Status: event.SettledRefused, Err: fmt.Errorf("refused: %w", why)}
			}
			if a := r.post("{}"); a.status != 503 || a.field(t, "detail") != want {
				t.Errorf("%v: %d %s, want %q", why, a.status, a.body, want)
			}
		})
	}
}

func TestPanicOfTheHandlerIsNoAcknowledgement(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		r.relay.settle = func(context.Context, connector.Delivery) connector.Settlement { panic("boom") }
		if a := r.post("{}"); a.status != 503 {
			t.Errorf("status %d", a.status)
		}
	})
}

func TestFixedAnswer(t *testing.T) {
	text, empty, object := "OK", "", `{"ok":true}`
	for _, c := range []struct {
		name   string
		answer Answer
		want   answer
	}{
		{"text", Answer{Body: &text}, answer{200, nethttp.Header{"Content-Type": {"text/plain; charset=utf-8"}}, "OK"}},
		{"JSON", Answer{Status: 201, Body: &object}, answer{201, nethttp.Header{"Content-Type": {"application/json"}}, object}},
		{"own type", Answer{Body: &object, Headers: map[string]string{"content-type": "a/b", "X-A": "1"}},
			answer{200, nethttp.Header{"Content-Type": {"a/b"}, "X-A": {"1"}}, object}},
		{"empty", Answer{Status: 202, Body: &empty}, answer{202, nethttp.Header{"Content-Type": {"text/plain; charset=utf-8"}}, ""}},
		{"no content", Answer{Status: 204}, answer{204, nethttp.Header{}, ""}},
		{"status only", Answer{Status: 202}, answer{202, nethttp.Header{"Content-Type": {"application/json"}}, `{"id":"k","status":"delivered"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withSource(t, func(s *SourceSettings) { s.Answer = &c.answer }, func(r *rig) {
				got := r.post("", "Idempotency-Key", "k")
				got.header.Del("Date")
				got.header.Del("Content-Length")
				if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(answer{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.MaxBody = 1000 }, func(r *rig) {
		big := strings.Repeat("x", 1001)
		for _, c := range []struct {
			name, method, path, body string
			header                   []string
			status                   int
			check                    string // a header that must be there
		}{
			{"method", "PUT", "/", "", nil, 405, "Allow"},
			{"GET", "GET", "/", "", nil, 405, "Allow"},
			{"path", "POST", "/other", "", nil, 200, ""}, // "/" takes everything
			{"too large", "POST", "/", big, nil, 413, ""},
			{"just fits", "POST", "/", big[1:], nil, 200, ""},
			{"encoding", "POST", "/", "x", []string{"Content-Encoding", "br"}, 415, "Accept-Encoding"},
			{"two encodings", "POST", "/", "x", []string{"Content-Encoding", "gzip, gzip"}, 415, "Accept-Encoding"},
			{"identity", "POST", "/", "x", []string{"Content-Encoding", "identity"}, 200, ""},
			{"multipart", "POST", "/", "x", []string{"Content-Type", "multipart/form-data; boundary=x"}, 415, ""},
			{"not gzip", "POST", "/", "x", []string{"Content-Encoding", "gzip"}, 400, ""},
			{"bad form", "POST", "/", "a=%zz", []string{"Content-Type", "application/x-www-form-urlencoded"}, 400, ""},
			{"form not UTF-8", "POST", "/", "a=%ff", []string{"Content-Type", "application/x-www-form-urlencoded"}, 400, ""},
			{"bad query", "POST", "/?a=%zz", "", nil, 400, ""},
		} {
			before := r.relay.count()
			a := r.send(c.method, c.path, c.body, c.header...)
			if a.status != c.status {
				t.Errorf("%s: status %d %s, want %d", c.name, a.status, a.body, c.status)
			}
			if c.status != 200 && (r.relay.count() != before || a.header.Get("Content-Type") != "application/problem+json") {
				t.Errorf("%s: became a message, or no problem document: %+v", c.name, a)
			}
			if c.check != "" && a.header.Get(c.check) == "" {
				t.Errorf("%s: no header %s", c.name, c.check)
			}
		}
		// The length is not announced.
		chunked := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n%s\r\n0\r\n\r\n", big)
		if a, err := r.raw(chunked); err != nil || a.status != 413 {
			t.Errorf("chunked: %+v, %v", a, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		invalid := 0
		for _, e := range r.events {
			if e.Kind == event.Settled && e.Settlement == event.SettledInvalid && e.Source == "web" {
				invalid++
			}
		}
		if invalid != 11 {
			t.Errorf("%d refused requests were counted, want 11", invalid)
		}
	})
}
