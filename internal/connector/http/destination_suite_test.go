package http

import (
	"bytes"
	"crypto/tls"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/setting"
	"github.com/pawlhq/pawl/internal/testbed"
)

// transport is a way for a request to travel.
type transport struct {
	name   string
	change func(*DestinationSettings)
	conf   *tls.Config
	proto  string
}

func transports(t *testing.T) []transport {
	t.Helper()
	cert, key, _ := certificateFiles(t, "api.test")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	secure := func(s *DestinationSettings) {
		s.URL = strings.Replace(s.URL, "http://", "https://", 1)
		s.TLS = &setting.ClientTLS{CA: cert}
	}
	return []transport{
		{"plain", func(*DestinationSettings) {}, nil, "HTTP/1.1"},
		{"tls", secure, &tls.Config{Certificates: []tls.Certificate{pair}}, "HTTP/1.1"},
		{"http2", func(s *DestinationSettings) { secure(s); s.HTTP2 = true }, &tls.Config{Certificates: []tls.Certificate{pair}}, "HTTP/2.0"},
	}
}

// readyPath is what a health check of the suite asks for.
const readyPath = "/ready?full=1"

// lines takes a batch of NDJSON apart.
func lines(t testing.TB, r connectortest.Request) []connectortest.Request {
	t.Helper()
	keys := strings.Split(r.Key, ", ")
	var rs []connectortest.Request
	for line := range bytes.Lines(r.Body) {
		if len(rs) == len(keys) || !bytes.HasSuffix(line, []byte("\n")) {
			t.Fatalf("the body is not NDJSON of %d lines: %.300q", len(keys), r.Body)
		}
		key, err := url.PathUnescape(keys[len(rs)])
		if err != nil {
			t.Fatal(err)
		}
		rs = append(rs, connectortest.Request{Key: key, Body: line[:len(line)-1]})
	}
	return rs
}

const topSecret = "s3cr3t-value"

// statuses are the failures that every transport can play.
func statuses() []connectortest.Failure {
	status := func(name string, class failure.Class, verdict failure.Verdict, tags ...failure.Tag) connectortest.Failure {
		return connectortest.Failure{
			Name: name, Step: connectortest.Step{Do: connectortest.Fail, Fail: name},
			Tags: tags, Class: class, Verdict: verdict, Throttled: strings.HasPrefix(name, "429"),
		}
	}
	all := []connectortest.Failure{
		status("500", failure.Transient, failure.Sick, "5xx", "500"),
		status("503", failure.Transient, failure.Sick, "5xx", "503"),
		status("503 wait", failure.Transient, failure.Neutral, "5xx", "503"),
		status("429 wait", failure.Transient, failure.Neutral, "4xx", "429"),
		status("408", failure.Transient, failure.Neutral, "4xx", "408", "timeout"),
		status("404", failure.Permanent, failure.Suspect, "4xx", "404"),
		status("400", failure.Permanent, failure.Alive, "4xx", "400"),
		status("307", failure.Permanent, failure.Alive, "3xx", "307"), // never followed
	}
	for i := range all {
		if strings.HasSuffix(all[i].Name, "wait") {
			all[i].RetryAfter = 7 * time.Second
		}
	}
	return all
}

// TestSuite runs what every destination must do. A reset is not in its table:
// on a connection that was used before it makes egress send once more, see
// TestResetOfAUsedConnection.
func TestSuite(t *testing.T) {
	for _, way := range transports(t) {
		t.Run(way.name, func(t *testing.T) {
			failures := statuses()
			if way.proto == "HTTP/1.1" {
				failures = append(failures, connectortest.Failure{
					Name: "broken", Step: connectortest.Step{Do: connectortest.Fail, Fail: "broken"},
					Tags: failure.Tags{failure.Broken}, Class: failure.Transient, Verdict: failure.Sick,
				})
			}
			connectortest.Destination(t, connectortest.DestinationHarness{
				Open: func(t *testing.T, script connectortest.Script) (connector.Destination, connectortest.FarSide) {
					far := &endpoint{script: script}
					n := &testbed.Network{}
					s := newDestinationSettings(false)
					s.URL = "http://api.test:99/hook?token=" + topSecret
					s.Headers = map[string]setting.Secret{"X-Api-Key": setting.NewSecret(topSecret)}
					s.Auth = &Login{Bearer: &BearerLogin{Token: setting.NewSecret(topSecret)}}
					way.change(s)
					if p := s.Check(); len(p) > 0 {
						t.Fatalf("settings: %v", p)
					}
					serve(t, n, far, "api.test:99", way.conf)
					d, err := OpenDestination(s, connector.Env{Name: "api", Dial: n.Dial, HealthPath: readyPath})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = d.Close() })
					return d, far
				},
				Clock: connectortest.InBubble, Failures: failures,
				Hangs: connectortest.Yes, Keys: connectortest.Yes, Secrets: []string{topSecret},
				Batches: &connectortest.BatchHarness{Items: lines, Unfit: &message.Message{ID: "odd", Body: []byte("no JSON")}},
				Health: &connectortest.HealthHarness{
					Unwell: []connectortest.Step{{Do: connectortest.Fail, Fail: "503"}, {Do: connectortest.Fail, Fail: "404"}},
					Hangs:  connectortest.Yes,
				},
			})
		})
	}
}
