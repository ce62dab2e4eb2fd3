package http

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/setting"
)

func TestSettingsAreChecked(t *testing.T) {
	secret := setting.NewSecret("s")
	body := "x"
	for _, c := range []struct {
		name   string
		change func(*SourceSettings)
		want   []string // fields
	}{
		{"fine", func(*SourceSettings) {}, nil},
		{"everything", func(s *SourceSettings) {
			*s = SourceSettings{
				Listen: "8080", Path: "x", TLS: &setting.ServerTLS{Cert: "a"}, MaxBody: 11 << 20,
				KeyPrefix: strings.Repeat("x", 65), IDHeader: "a b",
				Auth:   &Auth{},
				Answer: &Answer{Status: 404, Headers: map[string]string{"a b": "", "Connection": "", "X": "\n"}},
			}
		}, []string{"listen", "path", "methods", "tls", "ack_timeout", "max_body", "key_prefix", "id_header", "auth", "answer.status", "answer.headers.Connection", "answer.headers.X", "answer.headers.a b"}},
		{"no listen", func(s *SourceSettings) { s.Listen = "" }, []string{"listen"}},
		{"named port", func(s *SourceSettings) { s.Listen = "a:http" }, []string{"listen"}},
		{"methods", func(s *SourceSettings) { s.Methods = []string{"POST", "post", "TRACE", "POST"} }, []string{"methods.1", "methods.2", "methods.3"}},
		{"no methods", func(s *SourceSettings) { s.Methods = []string{"*", "P!ST", "", "M-SEARCH", "P0ST", "PO ST"} }, []string{"methods.0", "methods.1", "methods.2", "methods.4", "methods.5"}},
		{"port beyond", func(s *SourceSettings) { s.Listen = "127.0.0.1:65536" }, []string{"listen"}},
		{"negative port", func(s *SourceSettings) { s.Listen = "127.0.0.1:-1" }, []string{"listen"}},
		{"prefix", func(s *SourceSettings) { s.KeyPrefix = "\x00" }, []string{"key_prefix"}},
		{"answer", func(s *SourceSettings) { s.Answer = &Answer{Status: 204, Body: &body} }, []string{"answer.body"}},
		{"two ways", func(s *SourceSettings) {
			s.Auth = &Auth{Basic: &BasicAuth{User: "u", Password: secret}, Preset: "github", Secret: secret}
		}, []string{"auth"}},
		{"no secrets", func(s *SourceSettings) { s.Auth = &Auth{Bearer: &BearerAuth{}} }, []string{"auth.bearer.token"}},
		{"empty secret", func(s *SourceSettings) {
			s.Auth = &Auth{Preset: "github", Secrets: []setting.Secret{secret, {}}}
		}, []string{"auth.secrets"}},
		{"stray secret", func(s *SourceSettings) { s.Auth = &Auth{Bearer: &BearerAuth{Token: secret}, Secret: secret} }, []string{"auth"}},
		{"preset", func(s *SourceSettings) { s.Auth = &Auth{Preset: "gitlab", Secret: secret} }, []string{"auth.preset"}},
		{"basic", func(s *SourceSettings) { s.Auth = &Auth{Basic: &BasicAuth{User: "a:b"}} }, []string{"auth.basic.user", "auth.basic.password"}},
		{"standard", func(s *SourceSettings) {
			s.Auth = &Auth{StandardWebhooks: &Secrets{Secret: setting.NewSecret("no base64!")}}
		}, []string{"auth.standard_webhooks.secret"}},
		{"hmac", func(s *SourceSettings) {
			s.Auth = &Auth{HMAC: &HMACAuth{HMACForm: HMACForm{Secret: secret, Header: "a b", Algorithm: "md5", Encoding: "hax", Payload: "{bdy}"}, Tolerance: 1}}
		}, []string{"auth.hmac.header", "auth.hmac.algorithm", "auth.hmac.encoding", "auth.hmac.payload", "auth.hmac.tolerance"}},
		{"unsigned time", func(s *SourceSettings) {
			s.Auth = &Auth{HMAC: &HMACAuth{HMACForm: HMACForm{Secret: secret, TimestampHeader: "T", Payload: "{body}"}}}
		}, []string{"auth.hmac.payload"}},
		{"no body", func(s *SourceSettings) {
			s.Auth = &Auth{HMAC: &HMACAuth{HMACForm: HMACForm{Secret: secret, Payload: "x"}}}
		}, []string{"auth.hmac.payload"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSourceSettings().(*SourceSettings)
			s.Listen = address
			c.change(s)
			var got []string
			for _, p := range s.Check() {
				got = append(got, p.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}
