package http

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	nethttp "net/http"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawlhq/pawl/internal/setting"
)

// verifier finds out whether a request comes from who may send. It never says
// which part of the proof was wrong. Safe for concurrent use.
type verifier interface {
	// claim reads what the header says, before the body is read. false refuses
	// the request.
	claim(h nethttp.Header, now time.Time) (claim, bool)
	// challenge is the WWW-Authenticate of a refusal.
	challenge() string
	// headers are those that carry the proof, so that they are not kept.
	headers() []string
}

// claim is what a header says about its sender.
type claim struct {
	// caller is who it is, as an opaque word.
	caller string
	// holds checks the body against the claim; nil where the header alone was
	// the proof.
	holds func(body []byte) bool
}

// noAuth is the verifier of a source without auth.
type noAuth struct{}

func (noAuth) claim(nethttp.Header, time.Time) (claim, bool) { return claim{}, true }
func (noAuth) challenge() string                             { return "" }
func (noAuth) headers() []string                             { return nil }

// newVerifier makes the verifier of checked settings.
func newVerifier(a *Auth) (verifier, error) {
	switch {
	case a == nil:
		return noAuth{}, nil
	case a.Bearer != nil:
		return newBearer(joined(a.Bearer.Token, a.Bearer.Tokens)), nil
	case a.Basic != nil:
		return newBasic(a.Basic), nil
	case a.HMAC != nil:
		return newHMAC(a.HMAC)
	case a.StandardWebhooks != nil:
		return newStandard(joined(a.StandardWebhooks.Secret, a.StandardWebhooks.Secrets))
	default:
		return newPreset(a.Preset, joined(a.Secret, a.Secrets))
	}
}

// digest is what secrets are compared as: equal lengths whatever was sent, so
// that a compare in constant time tells nothing of the length either.
type digest [sha256.Size]byte

func digestOf(s string) digest { return sha256.Sum256([]byte(s)) }

func (d digest) equal(e digest) bool { return hmac.Equal(d[:], e[:]) }

// callerKey keys the opaque words for callers, so that a word that is seen
// somewhere can't be tried against a list of likely secrets. It lives as long
// as the process, as the memory of what callers sent does.
var callerKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails: see crypto/rand
	return key
})

// callerWord makes the opaque word for a credential. 64 bits tell a handful of
// callers apart.
func callerWord(way, secret string) string {
	mac := hmac.New(sha256.New, callerKey())
	mac.Write([]byte(secret))
	return way + ":" + hex.EncodeToString(mac.Sum(nil)[:8])
}

// bearer takes tokens. Each is a caller of its own, so that two senders with
// two tokens never get each other's answers; while one replaces another they
// count as two.
type bearer struct {
	tokens  []digest
	callers []string
}

func newBearer(tokens []setting.Secret) *bearer {
	b := &bearer{}
	for _, t := range tokens {
		b.tokens = append(b.tokens, digestOf(t.Reveal()))
		b.callers = append(b.callers, callerWord("bearer", t.Reveal()))
	}
	return b
}

func (b *bearer) claim(h nethttp.Header, _ time.Time) (claim, bool) {
	token, ok := credentials(h, "Bearer")
	if !ok {
		return claim{}, false
	}
	sent, found := digestOf(token), -1
	for i, want := range b.tokens { // all of them, whichever it is
		if sent.equal(want) {
			found = i
		}
	}
	if found < 0 {
		return claim{}, false
	}
	return claim{caller: b.callers[found]}, true
}

func (*bearer) challenge() string { return `Bearer realm="pawl"` }
func (*bearer) headers() []string { return nil } // Authorization is never kept

// credentials returns what stands behind the scheme in the one Authorization
// header.
func credentials(h nethttp.Header, scheme string) (string, bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	word, rest, ok := strings.Cut(values[0], " ")
	return strings.TrimLeft(rest, " "), ok && strings.EqualFold(word, scheme)
}

// basic takes one user and password.
type basic struct {
	user, password digest
	caller         string
}

func newBasic(a *BasicAuth) *basic {
	return &basic{digestOf(a.User), digestOf(a.Password.Reveal()), callerWord("basic", a.User)}
}

func (b *basic) claim(h nethttp.Header, _ time.Time) (claim, bool) {
	encoded, ok := credentials(h, "Basic")
	if !ok {
		return claim{}, false
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return claim{}, false
	}
	user, password, _ := strings.Cut(string(decoded), ":")
	userOK := digestOf(user).equal(b.user)
	passwordOK := digestOf(password).equal(b.password)
	if !userOK || !passwordOK {
		return claim{}, false
	}
	return claim{caller: b.caller}, true
}

func (*basic) challenge() string { return `Basic realm="pawl", charset="UTF-8"` }
func (*basic) headers() []string { return nil }

// standard takes Standard Webhooks signatures. The library checks them and the
// time, with the tolerance of the specification: five minutes.
type standard struct{ hooks []*standardwebhooks.Webhook }

func newStandard(secrets []setting.Secret) (*standard, error) {
	s := &standard{}
	for _, secret := range secrets {
		hook, err := standardwebhooks.NewWebhook(secret.Reveal())
		if err != nil {
			return nil, fmt.Errorf("a standard_webhooks secret is not base64")
		}
		s.hooks = append(s.hooks, hook)
	}
	return s, nil
}

func (s *standard) claim(h nethttp.Header, _ time.Time) (claim, bool) {
	for _, name := range s.headers() {
		if len(h[nethttp.CanonicalHeaderKey(name)]) != 1 {
			return claim{}, false
		}
	}
	if strings.Count(h.Get(standardwebhooks.HeaderWebhookSignature), " ") >= maxSignatures {
		return claim{}, false
	}
	return claim{caller: signedCaller, holds: func(body []byte) bool {
		for _, hook := range s.hooks {
			if hook.Verify(body, h) == nil {
				return true
			}
		}
		return false
	}}, true
}

func (*standard) challenge() string { return `Signature realm="pawl"` }

func (*standard) headers() []string {
	return []string{
		standardwebhooks.HeaderWebhookID, standardwebhooks.HeaderWebhookTimestamp,
		standardwebhooks.HeaderWebhookSignature,
	}
}
