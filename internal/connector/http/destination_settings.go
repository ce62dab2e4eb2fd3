package http

import (
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

// DestinationSettings are the settings of a destination of type http or https.
type DestinationSettings struct {
	URL            string                    `yaml:"url" jq:"template" doc:"where to; may hold {{ jq }} in its path and query"`
	Method         string                    `yaml:"method" default:"POST" secret:"never" doc:"method of the request"`
	Headers        map[string]setting.Secret `yaml:"headers" jq:"template" doc:"header fields to send; values may hold {{ jq }}"`
	Auth           *Login                    `yaml:"auth" doc:"how to log in"`
	Sign           *Sign                     `yaml:"sign" doc:"sign each request"`
	TLS            *setting.ClientTLS        `yaml:"tls" doc:"whom to trust, and the certificate to show"`
	Proxy          setting.Secret            `yaml:"proxy" doc:"URL of a proxy: http, https, socks5 or socks5h"`
	HTTP2          bool                      `yaml:"http2" default:"false" doc:"offer HTTP/2; HTTP/1.1 stays where the endpoint has nothing better"`
	ConnectTimeout setting.Duration          `yaml:"connect_timeout" default:"5s" doc:"longest time for opening a connection, inside the attempt's timeout"`
	DenyPrivate    bool                      `yaml:"deny_private" default:"false" doc:"refuse addresses that are not on the public internet, checked after DNS"`
	BatchFormat    BatchFormat               `yaml:"batch_format" enum:"ndjson,json_array" default:"ndjson" doc:"form of a batch: ndjson (an item a line) or json_array"`
	BatchItems     BatchItems                `yaml:"batch_items" enum:"plain,envelope" default:"plain" doc:"items of a batch: plain (the bodies, which must be JSON; the ids go in the header Pawl-Batch-Ids, in the order of the items, percent-encoded, a list with commas) or envelope (each message as one JSON object, its id in it)"`

	// secure marks the type https: a URL without TLS is a mistake.
	secure bool
}

// Login says how a request logs in: exactly one of its ways.
type Login struct {
	Bearer *BearerLogin `yaml:"bearer" doc:"a bearer token"`
	Basic  *BasicAuth   `yaml:"basic" doc:"user and password"`
}

// BearerLogin sends a token.
type BearerLogin struct {
	Token setting.Secret `yaml:"token" doc:"the token"`
}

// Sign says how requests are signed: exactly one of its ways.
type Sign struct {
	HMAC             *HMACForm `yaml:"hmac" doc:"a signature over the body made with a shared secret; several secrets sign in their order, a header field each"`
	StandardWebhooks *Secrets  `yaml:"standard_webhooks" doc:"Standard Webhooks signatures (webhook-id, webhook-timestamp, webhook-signature)"`
}

func newDestinationSettings(secure bool) *DestinationSettings {
	return &DestinationSettings{
		Method: nethttp.MethodPost,
		// As long as an attempt has by default: a connection that takes longer
		// is not coming.
		ConnectTimeout: setting.Duration(5 * time.Second),
		BatchFormat:    BatchNDJSON,
		BatchItems:     ItemsPlain,
		secure:         secure,
	}
}

// Where implements connector.Located: the scheme and the host.
func (s *DestinationSettings) Where() string {
	u, err := parseURL(s.URL)
	if err != nil {
		return ""
	}
	return u.origin.Scheme + "://" + u.origin.Host
}

// maxConnectTimeout: what is not there within a minute has no listener.
const maxConnectTimeout = time.Minute

// Check implements connector.Settings. No problem quotes the URL, the proxy or
// a header's value, which may hold secrets.
func (s *DestinationSettings) Check() []connector.Problem {
	var p problems
	base, err := parseURL(s.URL)
	p.check("url", err)
	if err == nil && s.secure && base.origin.Scheme != "https" {
		p.add("url", "must begin with https:// for the type https; the type http sends without TLS too")
	}
	if !isMethod(s.Method) || s.Method == nethttp.MethodConnect || s.Method == nethttp.MethodTrace {
		p.add("method", "%q can't carry a message; write it like POST", s.Method)
	}
	s.checkHeaders(&p)
	if s.Auth != nil {
		s.Auth.check(&p)
		if err == nil && base.origin.User != nil {
			p.add("auth", "the URL has a user of its own; use one or the other")
		}
	}
	if s.Sign != nil {
		s.Sign.check(&p)
		s.checkSigned(&p)
	}
	if t := s.TLS; t != nil {
		if (t.Cert == "") != (t.Key == "") {
			p.add("tls", "cert and key go together")
		}
		if err == nil && base.origin.Scheme == "http" {
			p.add("tls", "needs an https:// URL")
		}
	}
	if _, err := s.proxy(); err != nil {
		p.add("proxy", "%v", err)
	}
	if s.HTTP2 && err == nil && base.origin.Scheme == "http" {
		p.add("http2", "needs an https:// URL")
	}
	if d := s.ConnectTimeout.D(); d <= 0 || d > maxConnectTimeout {
		p.add("connect_timeout", "must be more than 0 and at most %v", maxConnectTimeout)
	}
	if s.BatchFormat != BatchNDJSON && s.BatchFormat != BatchArray {
		p.add("batch_format", "unknown format %q; it is ndjson or json_array", string(s.BatchFormat))
	}
	if s.BatchItems != ItemsPlain && s.BatchItems != ItemsEnvelope {
		p.add("batch_items", "unknown items %q; they are plain or envelope", string(s.BatchItems))
	}
	if s.DenyPrivate && !s.Proxy.Empty() {
		p.add("deny_private", "a proxy would reach private addresses past the guard; use one or the other")
	}
	return p
}

func (s *DestinationSettings) checkHeaders(p *problems) {
	seen := map[string]string{}
	for name, value := range sorted(s.Headers) {
		field, canonical := "headers."+name, nethttp.CanonicalHeaderKey(name)
		switch {
		case !connector.IsToken(name):
			p.add(field, "%q is not a header name", name)
			continue
		case connector.IsConnectionField(name) && canonical != "Host":
			p.add(field, "%s belongs to the connection and can't be set", name)
		case seen[canonical] != "":
			p.add(field, "stands twice, as %s too", seen[canonical])
		case canonical == "Authorization" && s.Auth != nil:
			p.add(field, "auth sets it already")
		case canonical == batchIDs:
			p.add(field, "pawl sets it with batches; leave it out")
		}
		seen[canonical] = name
		text, err := connector.ParseTemplate(value.Reveal())
		if err != nil {
			p.add(field, "%v", err)
			continue
		}
		fixed, constant := text.Constant()
		switch {
		case !constant && canonical == "Host":
			p.add(field, "a message must not choose the host; write it without {{ }}")
		case constant && !connector.IsFieldValue(fixed):
			p.add(field, "holds a control character, a line end perhaps")
		}
	}
}

// checkSigned keeps a signature's headers apart from all others.
func (s *DestinationSettings) checkSigned(p *problems) {
	own := map[string]bool{}
	for name, field := range sorted(s.Sign.headers()) {
		canonical := nethttp.CanonicalHeaderKey(name)
		own[canonical] = true
		switch {
		case canonical == "Authorization" && s.Auth != nil:
			p.add(field, "auth sets %s already", name)
		case fixedHeaders[canonical]:
			p.add(field, "%s has a meaning of its own and can't carry a signature", name)
		}
	}
	for name := range sorted(s.Headers) {
		if own[nethttp.CanonicalHeaderKey(name)] {
			p.add("headers."+name, "sign sets it already; leave it out")
		}
	}
}

// fixedHeaders are those of a request that say something else.
var fixedHeaders = map[string]bool{
	"Content-Type": true, "Content-Encoding": true, "Cookie": true, "User-Agent": true, "Traceparent": true, "Tracestate": true,
}

// headers returns the field that names each header of the signature.
func (s *Sign) headers() map[string]string {
	switch {
	case s.HMAC != nil && s.HMAC.TimestampHeader != "":
		return map[string]string{s.HMAC.header(): "sign.hmac.header", s.HMAC.TimestampHeader: "sign.hmac.timestamp_header"}
	case s.HMAC != nil:
		return map[string]string{s.HMAC.header(): "sign.hmac.header"}
	case s.StandardWebhooks != nil:
		const field = "sign.standard_webhooks"
		return map[string]string{
			standardwebhooks.HeaderWebhookID: field, standardwebhooks.HeaderWebhookTimestamp: field, standardwebhooks.HeaderWebhookSignature: field,
		}
	}
	return nil
}

// Headings implements connector.Heading. The webhook-id of Standard Webhooks is
// the message's id itself, so that it may be the key's header.
func (s *DestinationSettings) Headings() map[string]string {
	if s.Sign == nil {
		return nil
	}
	named := s.Sign.headers()
	if s.Sign.StandardWebhooks != nil {
		delete(named, standardwebhooks.HeaderWebhookID)
	}
	return named
}

func (l *Login) check(p *problems) {
	if (l.Bearer == nil) == (l.Basic == nil) {
		p.add("auth", "needs exactly one of bearer and basic")
	}
	if l.Bearer != nil {
		switch token := l.Bearer.Token; {
		case token.Empty():
			p.add("auth.bearer.token", "must be set, best with {{secrets.NAME}}")
		case !connector.IsFieldValue(token.Reveal()):
			p.add("auth.bearer.token", "holds a control character, a line end perhaps")
		}
	}
	if l.Basic != nil && (l.Basic.User == "" || strings.ContainsRune(l.Basic.User, ':')) {
		p.add("auth.basic.user", "must be set, without a colon, which basic authentication can't carry")
	}
}

func (s *Sign) check(p *problems) {
	if (s.HMAC == nil) == (s.StandardWebhooks == nil) {
		p.add("sign", "needs exactly one of hmac and standard_webhooks")
	}
	if s.HMAC != nil {
		s.HMAC.check(p, "sign.hmac")
	}
	if w := s.StandardWebhooks; w != nil {
		checkSecrets(p, "sign.standard_webhooks", "secret", w.Secret, w.Secrets)
		checkWebhookSecrets(p, "sign.standard_webhooks", joined(w.Secret, w.Secrets))
	}
}

// proxy returns the proxy, nil for none. Its error quotes nothing of it.
func (s *DestinationSettings) proxy() (*url.URL, error) {
	if s.Proxy.Empty() {
		return nil, nil
	}
	u, err := url.Parse(s.Proxy.Reveal())
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("must be a URL, such as http://proxy.internal:3128")
	}
	if !dialable(u) {
		return nil, errBadPort
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return u, nil
	}
	return nil, fmt.Errorf("scheme %q can't be used; there are http, https, socks5 and socks5h", u.Scheme)
}
