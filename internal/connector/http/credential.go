package http

import (
	nethttp "net/http"
	"strings"
)

// credentialHeaders are those that prove who sends, by canonical name: no
// message keeps one, whether this source checks it or not, since dead letters
// are read by people and forwarded headers go to third parties. Signatures are
// told by their name's end, see isCredential.
var credentialHeaders = map[string]bool{
	"Authorization": true, "Cookie": true,
	"X-Api-Key": true, "Api-Key": true, "X-Auth-Token": true, "X-Access-Token": true,
	"X-Csrf-Token": true, "X-Xsrf-Token": true,
	"X-Gitlab-Token": true, "X-Amz-Security-Token": true, "X-Goog-Iap-Jwt-Assertion": true,
	"X-Shopify-Hmac-Sha256": true, "Signature": true, // RFC 9421
}

// signatureEnds are how the names of headers with a signature end: those of
// GitHub, Stripe, Slack, Discord, standard webhooks and most others.
var signatureEnds = []string{
	"-Signature", "-Signature-256", "-Signature-Sha1", "-Signature-Sha256", "-Signature-Sha512", "-Signature-Ed25519",
}

// isCredential reports whether a header proves who sends. The name is
// canonical.
func isCredential(name string) bool {
	if credentialHeaders[name] {
		return true
	}
	if !strings.Contains(name, "-Signature") { // by far the most
		return false
	}
	for _, end := range signatureEnds {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// isCredentialName is isCredential for a name as somebody wrote it.
func isCredentialName(name string) bool { return isCredential(nethttp.CanonicalHeaderKey(name)) }
