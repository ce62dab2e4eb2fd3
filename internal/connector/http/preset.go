package http

import (
	"bytes"
	"crypto/sha256"
	"encoding/json/jsontext"
	"fmt"
	nethttp "net/http"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/setting"
)

// newPreset makes the verifier of a well-known sender, from what each of them
// documents about its signatures.
func newPreset(name string, secrets []setting.Secret) (verifier, error) {
	s := &signature{secrets: revealed(secrets), hash: sha256.New, decode: inHex.decode}
	form := "{body}"
	switch name {
	case "github":
		s.find, s.drop = findHeader("X-Hub-Signature-256", "sha256=", ""), []string{"X-Hub-Signature-256", "X-Hub-Signature"}
	case "shopify":
		s.find, s.drop = findHeader("X-Shopify-Hmac-Sha256", "", ""), []string{"X-Shopify-Hmac-Sha256"}
		s.decode = inBase64.decode
	case "slack":
		form, s.tolerance = "v0:{timestamp}:{body}", defaultTolerance
		s.find = findHeader("X-Slack-Signature", "v0=", "X-Slack-Request-Timestamp")
		s.drop = []string{"X-Slack-Signature", "X-Slack-Request-Timestamp"}
	case "stripe":
		form, s.tolerance = "{timestamp}.{body}", defaultTolerance
		s.find, s.drop = findStripe, []string{"Stripe-Signature"}
	default:
		return nil, fmt.Errorf("unknown preset %q", name)
	}
	var err error
	s.payload, err = parsePayload(form)
	return s, err
}

// findStripe reads Stripe-Signature: t=<time>,v1=<hex>, with a v1 for each of
// Stripe's secrets and other schemes that are not looked at.
func findStripe(h nethttp.Header) (timestamp string, encoded []string) {
	values := h["Stripe-Signature"]
	if len(values) != 1 {
		return "", nil
	}
	for field := range strings.SplitSeq(values[0], ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch key {
		case "t":
			timestamp = value
		case "v1":
			encoded = append(encoded, value)
		}
	}
	return timestamp, encoded
}

// handshake answers a request that a sender makes to see whether anybody is
// there, and that is no message: Slack's url_verification, GitHub's ping. ok is
// false for anything else.
func handshake(preset string, h nethttp.Header, body []byte) (contentType, answer string, ok bool) {
	switch preset {
	case "slack":
		f := topStrings(body, "type", "challenge")
		if f["type"] == "url_verification" {
			return "text/plain; charset=utf-8", f["challenge"], true
		}
	case "github":
		if h.Get("X-GitHub-Event") == "ping" {
			return "application/json", `{"status":"filtered"}`, true
		}
	}
	return "", "", false
}

// presetID says where a preset's sender puts the id that its repeats share: a
// header, or a field of the body.
func presetID(preset string) (header, field string) {
	switch preset {
	case "github":
		return "X-Github-Delivery", ""
	case "shopify":
		return "X-Shopify-Webhook-Id", ""
	case "slack":
		return "", "event_id"
	case "stripe":
		return "", "id"
	}
	return "", ""
}

// topStrings returns those of the named members of a JSON object that are
// strings. It reads no further than to the last of them; what is not JSON has
// none.
func topStrings(body []byte, names ...string) map[string]string {
	found := map[string]string{}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return found
	}
	for len(found) < len(names) {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return found
		}
		key := name.String() // before the next read takes the token's bytes
		if !slices.Contains(names, key) || d.PeekKind() != '"' {
			if d.SkipValue() != nil {
				return found
			}
			continue
		}
		value, err := d.ReadToken()
		if err != nil {
			return found
		}
		found[key] = value.String()
	}
	return found
}
