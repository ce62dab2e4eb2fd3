// These tests catch a destination that sends a message changed, without its
// key or twice; a value of a message that reaches the host, leaves its path or
// splits a header; a secret in an error; a signature that its receiver would
// refuse; an answer that is taken for what it is not.
package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	nethttp "net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/setting"
	"github.com/pawlhq/pawl/internal/testbed"
)

// endpoint is a server on an in-memory network that plays a script.
type endpoint struct {
	script connectortest.Script
	mu     sync.Mutex
	seen   []connectortest.Request
	last   *nethttp.Request // without its body
	says   string           // the body of its answer, "taken" where empty
}

func (e *endpoint) Requests() []connectortest.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}

// request returns the newest request.
func (e *endpoint) request(t *testing.T) *nethttp.Request {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		t.Fatal("nothing arrived")
	}
	return e.last
}

func (e *endpoint) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	e.mu.Lock()
	step := e.script.At(len(e.seen))
	if r.Method != nethttp.MethodGet || r.URL.RequestURI() != readyPath {
		key := r.Header.Get("Idempotency-Key")
		if ids := r.Header.Values(batchIDs); len(ids) > 0 {
			key = strings.Join(ids, ", ")
		}
		e.seen = append(e.seen, connectortest.Request{Key: key, Body: body})
	}
	e.last = r
	e.mu.Unlock()
	switch step.Do {
	case connectortest.Accept:
		w.Header().Set("X-Answer", "yes")
		says := e.says
		if says == "" {
			says = "taken"
		}
		_, _ = io.WriteString(w, says)
	case connectortest.Slow:
		time.Sleep(500 * time.Millisecond)
	case connectortest.Hang:
		<-r.Context().Done()
	case connectortest.Reset:
		c, _, _ := nethttp.NewResponseController(w).Hijack()
		c.(*testbed.Conn).Reset()
	case connectortest.Fail:
		e.fail(w, step.Fail)
	}
}

func (e *endpoint) fail(w nethttp.ResponseWriter, name string) {
	status := 0
	if _, err := fmt.Sscanf(name, "%d", &status); err == nil {
		if strings.HasSuffix(name, "wait") {
			w.Header().Set("Retry-After", "7")
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		return
	}
	c, _, _ := nethttp.NewResponseController(w).Hijack()
	_, _ = io.WriteString(c, "SMTP ready\r\n\r\n")
	_ = c.Close()
}

// serve starts the endpoint at host:port, with TLS where conf is not nil.
func serve(t *testing.T, n *testbed.Network, e *endpoint, hostport string, conf *tls.Config) {
	t.Helper()
	l, err := n.Listen("tcp", hostport)
	if err != nil {
		t.Fatal(err)
	}
	s := &nethttp.Server{Handler: e, TLSConfig: conf, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conf == nil {
			_ = s.Serve(l)
		} else {
			_ = s.ServeTLS(l, "", "")
		}
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
		synctest.Wait()
	})
}

// outgoing is a destination in front of an endpoint, in virtual time.
type outgoing struct {
	*testing.T
	net    testbed.Network
	far    endpoint
	dest   *Destination
	events []event.Event
}

// values are what the expressions of these tests evaluate to.
var values = map[string]string{
	".id": "a/b c?d#e", ".uni": "é", ".dots": "..", ".dot": ".", ".empty": "", ".line": "a\nb: c", ".plain": "42",
	".encoded": "%2e%2e", ".host": "@evil.test/", ".amp": "x&y=z",
}

type fakeExpr string

func (e fakeExpr) String(context.Context, *message.Message) (string, error) {
	if v, ok := values[string(e)]; ok {
		return v, nil
	}
	return "", errors.New("is null")
}

func compile(expr string) (connector.Expr, error) {
	if !strings.HasPrefix(expr, ".") {
		return nil, errors.New("no such expression")
	}
	return fakeExpr(expr), nil
}

// sending runs body with a destination whose settings and env are altered.
func sending(t *testing.T, change func(*DestinationSettings, *connector.Env), body func(o *outgoing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &outgoing{T: t}
		serve(t, &o.net, &o.far, "api.test:80", nil)
		s := newDestinationSettings(false)
		s.URL = "http://api.test/hook"
		env := connector.Env{Name: "api", Dial: o.net.Dial, Compile: compile, Events: func(e event.Event) { o.events = append(o.events, e) }}
		change(s, &env)
		if p := s.Check(); len(p) > 0 {
			t.Fatalf("settings: %v", p)
		}
		d, err := OpenDestination(s, env)
		if err != nil {
			t.Fatal(err)
		}
		o.dest = d
		body(o)
		_ = d.Close()
	})
}

func sample() *message.Message {
	return &message.Message{ID: "id-1", ContentType: "application/json", Body: []byte(signedBody), Headers: map[string][]string{}}
}

func TestRequestIsWhatTheSettingsSay(t *testing.T) {
	sending(t, func(s *DestinationSettings, env *connector.Env) {
		s.Method = "PUT"
		s.URL = "http://api.test/a/{{ .id }}/{{ .uni }}?x={{ .amp }}&y=1"
		s.Headers = map[string]setting.Secret{"X-Fixed": one("fixed"), "x-total": one("n={{ .plain }}"), "Host": one("other.test")}
		s.Auth = &Login{Basic: &BasicAuth{User: "ann", Password: one("p:w")}}
		env.IdempotencyHeader = "X-Key"
		env.KeepAnswers = true
	}, func(o *outgoing) {
		m := sample()
		m.Headers["traceparent"], m.Headers["tracestate"] = []string{"00-abc"}, []string{"a=1", "b=2"}
		a, err := o.dest.Send(o.Context(), m)
		if err != nil || a.Status != 200 || string(a.Body) != "taken" || a.Header.Get("X-Answer") != "yes" {
			o.Errorf("answer %+v, %v", a, err)
		}
		r := o.far.request(o.T)
		if r.Method != "PUT" || r.RequestURI != "/a/a%2Fb%20c%3Fd%23e/%C3%A9?x=x%26y%3Dz&y=1" || r.Host != "other.test" {
			o.Errorf("%s %s at %s", r.Method, r.RequestURI, r.Host)
		}
		r.Header.Del("Content-Length")
		if diff := cmp.Diff(nethttp.Header{
			"X-Key": {"id-1"}, "Content-Type": {"application/json"}, "X-Fixed": {"fixed"}, "X-Total": {"n=42"},
			"Authorization": {"Basic YW5uOnA6dw=="}, "User-Agent": {userAgent()}, "Traceparent": {"00-abc"}, "Tracestate": {"a=1,b=2"},
		}, r.Header); diff != "" {
			o.Errorf("headers (-want +got):\n%s", diff)
		}
		if !strings.HasPrefix(userAgent(), "pawl") {
			o.Errorf("User-Agent %q", userAgent())
		}
		ctx := connector.WithTrace(o.Context(), connector.TraceContext{Parent: "00-own"})
		if _, err := o.dest.Send(ctx, m); err != nil {
			o.Error(err)
		}
		if h := o.far.request(o.T).Header; h.Get("Traceparent") != "00-own" || h.Get("Tracestate") != "" {
			o.Errorf("an attempt that is traced sent %v", h)
		}
	})
}

func TestAnswersAreKeptOnlyWhenAskedFor(t *testing.T) {
	sending(t, func(*DestinationSettings, *connector.Env) {}, func(o *outgoing) {
		if a, err := o.dest.Send(o.Context(), sample()); err != nil || a.Status != 200 || a.Body != nil {
			o.Errorf("%+v, %v", a, err)
		}
	})
}

func TestForwardedHeaders(t *testing.T) {
	sending(t, func(s *DestinationSettings, env *connector.Env) {
		env.ForwardHeaders = []string{"x-*", "*"}
		s.Headers = map[string]setting.Secret{"X-Own": one("mine")}
	}, func(o *outgoing) {
		m := sample()
		m.Headers = map[string][]string{
			"x-a": {"1", "2"}, "x-own": {"theirs"}, "host": {"evil.test"}, "content-length": {"1"}, "transfer-encoding": {"chunked"},
			"authorization": {"theirs"}, "cookie": {"theirs"}, "idempotency-key": {"theirs"}, "content-type": {"theirs"},
			"proxy-authorization": {"theirs"}, "connection": {"x-a"}, "accept": {"b"}, "user-agent": {"theirs"},
		}
		if _, err := o.dest.Send(o.Context(), m); err != nil {
			o.Fatal(err)
		}
		r := o.far.request(o.T)
		r.Header.Del("Content-Length")
		if diff := cmp.Diff(nethttp.Header{
			"X-A": {"1", "2"}, "X-Own": {"mine"}, "Accept": {"b"}, "Idempotency-Key": {"id-1"},
			"Content-Type": {"application/json"}, "User-Agent": {userAgent()},
		}, r.Header); diff != "" || r.Host != "api.test" {
			o.Errorf("host %s, headers (-want +got):\n%s", r.Host, diff)
		}
	})
}

func TestSignaturesAreWhatReceiversExpect(t *testing.T) {
	const hookID, hookTime, hookSig = "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"
	for _, c := range []struct {
		name string
		sign Sign
		want nethttp.Header
	}{
		{"hmac", Sign{HMAC: &HMACForm{Secrets: secrets("s1", "s2"), Prefix: "sha256="}}, nethttp.Header{"X-Signature": {githubOne, githubTwo}}},
		{"sha512 with a time", Sign{HMAC: &HMACForm{Secret: one("s1"), Algorithm: "sha512", Encoding: "base64", Header: "X-Sig", TimestampHeader: "X-Time"}},
			nethttp.Header{"X-Sig": {sha512One}, "X-Time": {signedAt}}},
		{"standard_webhooks", Sign{StandardWebhooks: &Secrets{Secret: one("whsec_c2VjcmV0LW9uZQ=="), Secrets: secrets("c2VjcmV0LXR3bw==")}},
			nethttp.Header{hookID: {"msg_1"}, hookTime: {signedAt}, hookSig: {standardOne + " " + standardTwo}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sending(t, func(s *DestinationSettings, env *connector.Env) {
				s.Sign = &c.sign
				if c.sign.StandardWebhooks != nil {
					env.IdempotencyHeader = "webhook-id" // must not be sent twice
				}
			}, func(o *outgoing) {
				m := sample()
				m.ID = "msg_1"
				signatures := func() nethttp.Header {
					if _, err := o.dest.Send(o.Context(), m); err != nil {
						o.Fatal(err)
					}
					got := o.far.request(o.T).Header
					maps.DeleteFunc(got, func(name string, _ []string) bool { return c.want[name] == nil })
					return got
				}
				if diff := cmp.Diff(c.want, signatures()); diff != "" {
					o.Fatalf("(-want +got):\n%s", diff)
				}
				if strings.Contains(fmt.Sprint(c.want), signedAt) {
					time.Sleep(time.Minute) // the next attempt has a time of its own
					if later := signatures(); strings.Contains(fmt.Sprint(later), signedAt) {
						o.Errorf("a later attempt carries the time of an earlier one: %v", later)
					}
				}
			})
		})
	}
}

// TestOwnSignaturesPassOurSource: what the destination signs, the source with
// the same settings takes.
func TestOwnSignaturesPassOurSource(t *testing.T) {
	form := HMACForm{Secret: one("s1"), TimestampHeader: "X-Time", Algorithm: "sha1", Encoding: "base64", Prefix: "v=", Payload: "{timestamp}/{body}"}
	withSource(t, func(s *SourceSettings) { s.Auth = &Auth{HMAC: &HMACAuth{HMACForm: form}} }, func(r *rig) {
		s := newDestinationSettings(false)
		s.URL, s.Sign = "http://"+address+"/", &Sign{HMAC: &form}
		d, err := OpenDestination(s, connector.Env{Dial: r.net.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := d.Send(r.Context(), sample()); err != nil {
			t.Error(err)
		}
		if m := r.relay.last(r.T).Message; m.ID != "id-1" || string(m.Body) != signedBody {
			t.Errorf("arrived as %+v", m)
		}
	})
}

func TestResetOfAUsedConnection(t *testing.T) {
	sending(t, func(*DestinationSettings, *connector.Env) {}, func(o *outgoing) {
		o.far.script = connectortest.Script{{Do: connectortest.Reset}, {Do: connectortest.Accept}, {Do: connectortest.Reset}, {Do: connectortest.Accept}}
		if _, err := o.dest.Send(o.Context(), sample()); err == nil || !failure.From(err).Tags.Has(failure.Connect) || len(o.far.Requests()) != 1 {
			o.Errorf("a reset of a new connection: %v, %d requests", err, len(o.far.Requests()))
		}
		if _, err := o.dest.Send(o.Context(), sample()); err != nil {
			o.Error(err)
		}
		if _, err := o.dest.Send(o.Context(), sample()); err != nil {
			o.Errorf("a reset of a used connection: %v", err)
		}
		if len(o.far.Requests()) != 4 || len(o.events) != 1 || o.events[0].Kind != event.ConnectionRetried || o.events[0].Destination != "api" {
			o.Errorf("%d requests, events %+v", len(o.far.Requests()), o.events)
		}
	})
}

func TestConnectingIsBounded(t *testing.T) {
	sending(t, func(s *DestinationSettings, env *connector.Env) {
		s.ConnectTimeout = setting.Duration(2 * time.Second)
		env.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}, func(o *outgoing) {
		begin := time.Now()
		_, err := o.dest.Send(o.Context(), sample())
		if took := time.Since(begin); err == nil || !failure.From(err).Tags.Has(failure.Timeout) || took != 2*time.Second {
			o.Errorf("%v after %v", err, took)
		}
	})
}

func TestPrivateAddressesCanBeDenied(t *testing.T) {
	s := newDestinationSettings(false)
	s.URL, s.DenyPrivate = "http://127.0.0.1:1/", true
	d, err := OpenDestination(s, connector.Env{Name: "api"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Send(t.Context(), sample()); err == nil || failure.From(err).Class != failure.Permanent {
		t.Errorf("%v, want a permanent failure", err)
	}
}
