package http

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

func TestDestinationSettingsAreChecked(t *testing.T) {
	kinds := map[string]connector.DestinationKind{}
	for _, k := range DestinationKinds() {
		kinds[k.Type] = k
	}
	for _, c := range []struct {
		name, typ string
		change    func(*DestinationSettings)
		want      []string
	}{
		{"fine", "https", func(*DestinationSettings) {}, nil},
		{"plain for https", "https", func(s *DestinationSettings) { s.URL = "http://a.test/" + topSecret }, []string{"url"}},
		{"plain for http", "http", func(s *DestinationSettings) { s.URL = "http://a.test" }, nil},
		{"missing", "http", func(s *DestinationSettings) { s.URL = "" }, []string{"url"}},
		{"scheme", "http", func(s *DestinationSettings) { s.URL = "ftp://a/" + topSecret }, []string{"url"}},
		{"no host", "http", func(s *DestinationSettings) { s.URL = "https:///" + topSecret }, []string{"url"}},
		{"host of a message", "http", func(s *DestinationSettings) { s.URL = "https://{{ .h }}.test/" }, []string{"url"}},
		{"port of a message", "http", func(s *DestinationSettings) { s.URL = "https://a.test:{{ .h }}/" }, []string{"url"}},
		{"all of a message", "http", func(s *DestinationSettings) { s.URL = "{{ .h }}" }, []string{"url"}},
		{"behind the host", "http", func(s *DestinationSettings) { s.URL = "https://a.test{{ .h }}/" }, []string{"url"}},
		{"user", "http", func(s *DestinationSettings) {
			s.URL = "https://a:" + topSecret + "@a.test/"
			s.Auth = &Login{Bearer: &BearerLogin{Token: one("x")}}
		}, []string{"auth"}},
		{"fragment", "http", func(s *DestinationSettings) { s.URL = "https://a.test/#" + topSecret }, []string{"url"}},
		{"open braces", "http", func(s *DestinationSettings) { s.URL = "https://a.test/{{ .x" }, []string{"url"}},
		{"dots", "http", func(s *DestinationSettings) { s.URL = "https://a.test/a/%2E%2e/b" }, []string{"url"}},
		{"bad escape", "http", func(s *DestinationSettings) { s.URL = "https://a.test/%zz" }, []string{"url"}},
		{"query of a message", "http", func(s *DestinationSettings) { s.URL = "https://a.test?x={{ .x }}" }, nil},
		{"port 0", "http", func(s *DestinationSettings) { s.URL = "https://a.test:0/x" }, []string{"url"}},
		{"port beyond", "http", func(s *DestinationSettings) { s.URL = "https://a.test:65536" }, []string{"url"}},
		{"endless port", "http", func(s *DestinationSettings) { s.URL = "https://[::1]:99999999999999999999/" }, []string{"url"}},
		{"last port", "http", func(s *DestinationSettings) { s.URL = "https://a.test:65535/" }, nil},
		{"proxy's port", "http", func(s *DestinationSettings) { s.Proxy = one("http://a.test:0") }, []string{"proxy"}},
		{"method of all", "http", func(s *DestinationSettings) { s.Method = "*" }, []string{"method"}},
		{"method", "http", func(s *DestinationSettings) { s.Method = "CONNECT" }, []string{"method"}},
		{"headers", "http", func(s *DestinationSettings) {
			s.Headers = map[string]setting.Secret{
				"a b": one(""), "Connection": one(""), "Host": one("{{ .h }}"), "X": one(topSecret + "\n"), "Y": one("{{"), "X-a": one(""), "x-A": one(""),
			}
		}, []string{"headers.Connection", "headers.Host", "headers.X", "headers.Y", "headers.a b", "headers.x-A"}},
		{"two logins", "http", func(s *DestinationSettings) {
			s.Auth = &Login{Bearer: &BearerLogin{Token: one(topSecret + "\n")}, Basic: &BasicAuth{}}
			s.Headers = map[string]setting.Secret{"authorization": one(topSecret)}
		}, []string{"headers.authorization", "auth", "auth.bearer.token", "auth.basic.user"}},
		{"no token", "http", func(s *DestinationSettings) { s.Auth = &Login{Bearer: &BearerLogin{}} }, []string{"auth.bearer.token"}},
		{"sign", "http", func(s *DestinationSettings) {
			s.Sign = &Sign{HMAC: &HMACForm{Prefix: "\n"}, StandardWebhooks: &Secrets{Secret: one("no base64!" + topSecret)}}
		}, []string{"sign", "sign.hmac.secret", "sign.hmac.prefix", "sign.standard_webhooks.secret"}},
		{"signed twice", "http", func(s *DestinationSettings) {
			s.Headers = map[string]setting.Secret{"x-SIGNATURE": one("x"), "X-Time": one("x")}
			s.Sign = &Sign{HMAC: &HMACForm{Secret: one("s"), Algorithm: "sha256", Encoding: "hex", TimestampHeader: "x-time"}}
		}, []string{"headers.X-Time", "headers.x-SIGNATURE"}},
		{"signed twice as webhooks", "http", func(s *DestinationSettings) {
			s.Headers = map[string]setting.Secret{"Webhook-Id": one("x")}
			s.Sign = &Sign{StandardWebhooks: &Secrets{Secret: one("c2VjcmV0")}}
		}, []string{"headers.Webhook-Id"}},
		{"signature over other headers", "http", func(s *DestinationSettings) {
			s.Auth = &Login{Bearer: &BearerLogin{Token: one("x")}}
			s.Sign = &Sign{HMAC: &HMACForm{Secret: one("s"), Algorithm: "sha256", Encoding: "hex", Header: "authorization", TimestampHeader: "content-type"}}
		}, []string{"sign.hmac.header", "sign.hmac.timestamp_header"}},
		{"signature in Authorization", "http", func(s *DestinationSettings) {
			s.Sign = &Sign{HMAC: &HMACForm{Secret: one("s"), Algorithm: "sha256", Encoding: "hex", Header: "Authorization"}}
		}, nil},
		{"one header for both", "http", func(s *DestinationSettings) {
			s.Sign = &Sign{HMAC: &HMACForm{Secret: one("s"), Algorithm: "sha256", Encoding: "hex", Header: "X-Both", TimestampHeader: "x-both"}}
		}, []string{"sign.hmac.timestamp_header"}},
		{"tls", "http", func(s *DestinationSettings) {
			s.URL, s.TLS, s.HTTP2 = "http://a.test", &setting.ClientTLS{Cert: "x"}, true
		}, []string{"tls", "tls", "http2"}},
		{"proxy", "http", func(s *DestinationSettings) { s.Proxy = one("ftp://" + topSecret) }, []string{"proxy"}},
		{"no proxy", "http", func(s *DestinationSettings) { s.Proxy = one(topSecret); s.DenyPrivate = true }, []string{"proxy", "deny_private"}},
		{"connect_timeout", "http", func(s *DestinationSettings) { s.ConnectTimeout = 0 }, []string{"connect_timeout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := kinds[c.typ].New().(*DestinationSettings)
			s.URL = "https://a.test/x"
			c.change(s)
			var got []string
			for _, p := range s.Check() {
				got = append(got, p.Field)
				if strings.Contains(p.Message, topSecret) {
					t.Errorf("a problem shows a secret: %s", p.Message)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*DestinationSettings)
		want   string
	}{
		"expression in the URL":  {func(s *DestinationSettings) { s.URL = "http://a.test/{{ x }}" }, "url: {{ x }}: no such expression"},
		"expression in a header": {func(s *DestinationSettings) { s.Headers = map[string]setting.Secret{"X": one("{{ x }}")} }, "headers.X: template: the {{ at byte 1: no such expression"},
		"the key among headers":  {func(s *DestinationSettings) { s.Headers = map[string]setting.Secret{"idempotency-key": one("x")} }, "headers.Idempotency-Key: pawl sets this one itself"},
		"a signature among them": {func(s *DestinationSettings) {
			s.Headers = map[string]setting.Secret{"x-signature": one("x")}
			s.Sign = &Sign{HMAC: &HMACForm{Secret: one("s")}}
		}, "headers.X-Signature: pawl sets this one itself"},
		"the key as a signature": {func(s *DestinationSettings) {
			s.Sign = &Sign{HMAC: &HMACForm{Secret: one("s"), Header: "idempotency-KEY"}}
		}, "sign: idempotency-KEY carries the message's id"},
		"the key as its time": {func(s *DestinationSettings) {
			s.Sign = &Sign{HMAC: &HMACForm{Secret: one("s"), TimestampHeader: "Idempotency-Key"}}
		}, "sign: Idempotency-Key carries the message's id"},
		"authorities without file": {func(s *DestinationSettings) {
			s.URL = "https://a.test"
			s.TLS = &setting.ClientTLS{CA: "/nonexistent.pem"}
		}, "nonexistent"},
	} {
		s := newDestinationSettings(false)
		s.URL = "http://a.test/"
		c.change(s)
		if _, err := OpenDestination(s, connector.Env{Compile: compile}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestWhereTellsTheHostAlone(t *testing.T) {
	for url, want := range map[string]string{
		"https://user:s3cr3t@api.example.com:8443/s3cr3t?token=s3cr3t": "https://api.example.com:8443",
		"http://h/{{.id}}": "http://h",
		"nonsense":         "",
	} {
		if got := (&DestinationSettings{URL: url}).Where(); got != want {
			t.Errorf("%s is at %q, not %q", url, got, want)
		}
	}
}
