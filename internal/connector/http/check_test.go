package http

import (
	"crypto/tls"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/setting"
)

// Would catch: a check that asks for another place, without the login, or with
// what belongs to a message; and a status that is taken for the other thing.
func TestHealthCheckAsksTheOrigin(t *testing.T) {
	sending(t, func(s *DestinationSettings, env *connector.Env) {
		s.URL = "http://api.test/a/{{ .plain }}?token=x"
		s.Headers = map[string]setting.Secret{
			"X-Fixed": one("fixed"), "X-Varied": one("{{ .plain }}"), "Content-Type": one("text/plain"), "Host": one("other.test"),
		}
		s.Auth = &Login{Bearer: &BearerLogin{Token: one("t0ken")}}
		s.Sign = &Sign{HMAC: &HMACForm{Secret: one("s")}}
		env.HealthPath = readyPath
	}, func(o *outgoing) {
		if err := o.dest.Check(o.Context()); err != nil {
			o.Fatal(err)
		}
		r := o.far.request(o.T)
		if r.Method != "GET" || r.RequestURI != readyPath || r.Host != "other.test" {
			o.Errorf("%s %s at %s", r.Method, r.RequestURI, r.Host)
		}
		if diff := cmp.Diff(map[string][]string{
			"Authorization": {"Bearer t0ken"}, "X-Fixed": {"fixed"}, "User-Agent": {userAgent()},
		}, map[string][]string(r.Header)); diff != "" {
			o.Errorf("header (-want +got)\n%s", diff)
		}
		if n := len(o.far.Requests()); n != 0 {
			o.Errorf("a check counts as %d messages", n)
		}
	})
}

func TestHealthCheckStatuses(t *testing.T) {
	for status, well := range map[string]bool{"204": true, "302": true, "307": true, "400": false, "404": false, "429": false, "500": false, "503 wait": false} {
		sending(t, func(_ *DestinationSettings, env *connector.Env) { env.HealthPath = readyPath }, func(o *outgoing) {
			o.far.script = connectortest.Script{{Do: connectortest.Fail, Fail: status}}
			if err := o.dest.Check(o.Context()); (err == nil) != well {
				o.Errorf("%s: %v", status, err)
			} else if err != nil && len(failure.From(err).Tags) == 0 {
				o.Errorf("%s: no tags: %v", status, err)
			}
		})
	}
}

func TestHealthPath(t *testing.T) {
	for path, good := range map[string]bool{
		"/": true, "/ready": true, "/a%2Fb?x=1&y": true, "ready": false, "//evil.test/ready": false, "http://evil.test/": false,
		"/a#b": false, "/\n": false, "@evil.test/": false, "/%zz": false,
	} {
		s := newDestinationSettings(false)
		s.URL = "http://api.test/hook"
		d, err := OpenDestination(s, connector.Env{HealthPath: path})
		if (err == nil) != good {
			t.Errorf("%q: %v", path, err)
		}
		if err == nil {
			if d.health.Addr() != "api.test:80" {
				t.Errorf("%q asks %s", path, d.health.Addr())
			}
			_ = d.Close()
		}
	}
	s := newDestinationSettings(false)
	s.URL = "http://api.test/hook"
	d, err := OpenDestination(s, connector.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context()); !errors.Is(err, errNoHealthPath) {
		t.Errorf("without a path: %v", err)
	}
}

// The check goes through the same door: certificate and guard count.
func TestHealthCheckVerifiesTheCertificate(t *testing.T) {
	cert, key, _ := certificateFiles(t, "api.test")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	sending(t, func(s *DestinationSettings, env *connector.Env) {
		s.URL = "https://api.test/hook"
		env.HealthPath = readyPath
	}, func(o *outgoing) {
		serve(o.T, &o.net, &o.far, "api.test:443", &tls.Config{Certificates: []tls.Certificate{pair}})
		if f := failure.From(o.dest.Check(o.Context())); f == nil || !f.Tags.Has(failure.TLS) {
			o.Errorf("a certificate that nobody vouches for: %v", f)
		}
	})
}
