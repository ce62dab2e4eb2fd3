package http

import (
	"slices"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

// maxSecrets bounds the secrets of one source: each is tried on every request,
// and a rotation needs two.
const maxSecrets = 16

// defaultTolerance is how far a signed time may be from the clock here: the
// five minutes that Standard Webhooks, Stripe and Slack name.
const defaultTolerance = 5 * time.Minute

// Auth says how callers prove who they are: exactly one of its ways.
type Auth struct {
	Bearer           *BearerAuth      `yaml:"bearer" doc:"a bearer token"`
	Basic            *BasicAuth       `yaml:"basic" doc:"user and password"`
	HMAC             *HMACAuth        `yaml:"hmac" doc:"a signature over the body made with a shared secret"`
	StandardWebhooks *Secrets         `yaml:"standard_webhooks" doc:"Standard Webhooks signatures (webhook-id, webhook-timestamp, webhook-signature)"`
	Preset           string           `yaml:"preset" enum:"github,shopify,slack,stripe" doc:"the signatures of a well-known sender"`
	Secret           setting.Secret   `yaml:"secret" doc:"the preset's secret"`
	Secrets          []setting.Secret `yaml:"secrets" doc:"several secrets of the preset, each good, while one is replaced by another"`
}

// Secrets are one or several shared secrets, each good.
type Secrets struct {
	Secret  setting.Secret   `yaml:"secret" doc:"the secret"`
	Secrets []setting.Secret `yaml:"secrets" doc:"several secrets, each good, while one is replaced by another"`
}

// BearerAuth takes requests with one of its tokens.
type BearerAuth struct {
	Token  setting.Secret   `yaml:"token" doc:"the token"`
	Tokens []setting.Secret `yaml:"tokens" doc:"several tokens, each good; each is a caller of its own"`
}

// BasicAuth takes requests with its user and password.
type BasicAuth struct {
	User     string         `yaml:"user" secret:"never" doc:"user name"`
	Password setting.Secret `yaml:"password" doc:"password"`
}

// HMACForm says how a signature over a body is made and sent.
type HMACForm struct {
	Secret          setting.Secret   `yaml:"secret" doc:"the shared secret"`
	Secrets         []setting.Secret `yaml:"secrets" doc:"several secrets while one is replaced by another: each is good coming in, each signs going out"`
	Header          string           `yaml:"header" default:"X-Signature" secret:"never" doc:"header with the signature"`
	Algorithm       string           `yaml:"algorithm" enum:"sha256,sha512,sha1" default:"sha256" doc:"hash under the HMAC"`
	Encoding        string           `yaml:"encoding" enum:"hex,base64" default:"hex" doc:"how the signature is written"`
	Prefix          string           `yaml:"prefix" secret:"never" doc:"text before the signature, such as sha256="`
	TimestampHeader string           `yaml:"timestamp_header" secret:"never" doc:"header with the time of signing in seconds since 1970"`
	Payload         string           `yaml:"payload" secret:"never" doc:"what is signed, with {body} and {timestamp} in it; {body}, or {timestamp}.{body} where there is a timestamp_header"`
}

// HMACAuth takes requests whose body is signed with one of its secrets.
type HMACAuth struct {
	HMACForm  `yaml:",inline"`
	Tolerance setting.Duration `yaml:"tolerance" default:"5m" doc:"how far the time of signing may be from now"`
}

// presets are the senders that auth.preset may name.
var presets = []string{"github", "shopify", "slack", "stripe"}

func (a *Auth) check(p *problems) {
	ways := 0
	for _, set := range []bool{a.Bearer != nil, a.Basic != nil, a.HMAC != nil, a.StandardWebhooks != nil, a.Preset != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		p.add("auth", "needs exactly one of bearer, basic, hmac, standard_webhooks and preset")
	}
	if a.Preset == "" && (!a.Secret.Empty() || len(a.Secrets) > 0) {
		p.add("auth", "secret and secrets here go with preset; other ways have their own")
	}
	if a.Bearer != nil {
		checkSecrets(p, "auth.bearer", "token", a.Bearer.Token, a.Bearer.Tokens)
	}
	if a.Basic != nil {
		if a.Basic.User == "" || strings.ContainsRune(a.Basic.User, ':') {
			p.add("auth.basic.user", "must be set, without a colon, which basic authentication can't carry")
		}
		if a.Basic.Password.Empty() {
			p.add("auth.basic.password", "must be set, best with {{secrets.NAME}}")
		}
	}
	if a.HMAC != nil {
		a.HMAC.check(p)
	}
	if s := a.StandardWebhooks; s != nil {
		checkSecrets(p, "auth.standard_webhooks", "secret", s.Secret, s.Secrets)
		checkWebhookSecrets(p, "auth.standard_webhooks", joined(s.Secret, s.Secrets))
	}
	if a.Preset != "" {
		if !slices.Contains(presets, a.Preset) {
			p.add("auth.preset", "unknown preset %q; there are %s", a.Preset, strings.Join(presets, ", "))
		}
		checkSecrets(p, "auth", "secret", a.Secret, a.Secrets)
	}
}

func (h *HMACAuth) check(p *problems) {
	h.HMACForm.check(p, "auth.hmac")
	if h.TimestampHeader == "" && h.Tolerance != 0 {
		p.add("auth.hmac.tolerance", "needs a timestamp_header")
	}
}

func (h *HMACForm) check(p *problems, at string) {
	checkSecrets(p, at, "secret", h.Secret, h.Secrets)
	for _, f := range []struct{ field, name string }{{"header", h.Header}, {"timestamp_header", h.TimestampHeader}} {
		if f.name != "" && (!connector.IsToken(f.name) || connector.IsConnectionField(f.name)) {
			p.add(at+"."+f.field, "%q can't be the header", f.name)
		}
	}
	if strings.EqualFold(h.header(), h.TimestampHeader) {
		p.add(at+".timestamp_header", "%s carries the signature; name another", h.TimestampHeader)
	}
	if _, ok := algorithms[h.Algorithm]; !ok {
		p.add(at+".algorithm", "unknown algorithm %q; there are sha256, sha512 and sha1", h.Algorithm)
	}
	if _, ok := encodings[h.Encoding]; !ok {
		p.add(at+".encoding", "unknown encoding %q; there are hex and base64", h.Encoding)
	}
	if !connector.IsFieldValue(h.Prefix) {
		p.add(at+".prefix", "holds a control character")
	}
	form, err := parsePayload(h.payload())
	switch {
	case err != nil:
		p.add(at+".payload", "%v", err)
	case form.timed() != (h.TimestampHeader != ""):
		p.add(at+".payload", "a timestamp_header and {timestamp} in the payload go together: a time that is not signed proves nothing")
	}
}

// header returns the header with the signature, the default filled in.
func (h *HMACForm) header() string {
	if h.Header == "" {
		return "X-Signature"
	}
	return h.Header
}

// payload returns what is signed, the default filled in.
func (h *HMACForm) payload() string {
	switch {
	case h.Payload != "":
		return h.Payload
	case h.TimestampHeader != "":
		return "{timestamp}.{body}"
	}
	return "{body}"
}

// checkSecrets wants at least one secret and no empty one: anybody can sign
// with an empty key.
func checkSecrets(p *problems, field, word string, one setting.Secret, more []setting.Secret) {
	all := joined(one, more)
	switch {
	case len(all) == 0:
		p.add(field+"."+word, "must be set, best with {{secrets.NAME}}")
	case len(all) > maxSecrets:
		p.add(field+"."+word+"s", "%d are too many; at most %d are tried", len(all), maxSecrets)
	}
	for _, s := range more {
		if s.Empty() {
			p.add(field+"."+word+"s", "one of them is empty")
		}
	}
}

// checkWebhookSecrets wants secrets that Standard Webhooks can use.
func checkWebhookSecrets(p *problems, field string, secrets []setting.Secret) {
	for _, s := range secrets {
		if _, err := standardwebhooks.NewWebhook(s.Reveal()); err != nil && !s.Empty() {
			p.add(field+".secret", "a Standard Webhooks secret is base64, with whsec_ before it or not; this one is not")
		}
	}
}

// joined puts the two ways of giving secrets together.
func joined(one setting.Secret, more []setting.Secret) []setting.Secret {
	if one.Empty() {
		return more
	}
	return append([]setting.Secret{one}, more...)
}
