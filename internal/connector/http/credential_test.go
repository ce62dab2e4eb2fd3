package http

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secretHeaders are credentials as their senders write them.
var secretHeaders = []string{
	"authorization", "Cookie", "X-API-Key", "api-key", "X-Auth-Token", "x-access-token", "X-Gitlab-Token",
	"X-Amz-Security-Token", "X-CSRF-Token", "X-XSRF-Token", "x-goog-iap-jwt-assertion",
	"X-Hub-Signature", "X-Hub-Signature-256", "Stripe-Signature", "X-Shopify-Hmac-SHA256", "X-Slack-Signature",
	"webhook-signature", "X-Signature", "Signature", "X-Signature-Ed25519", "X-Acme-Signature-Sha256",
}

// Catches a sender's credential in a message, and so in dead letters and at
// third parties, although no auth is configured that knows it.
func TestNoMessageKeepsACredential(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		var header []string
		for _, name := range secretHeaders {
			header = append(header, name, "s3cr3t")
		}
		header = append(header, "X-Signature-Timestamp", "1", "X-Signatures", "2", "X-Api-Key-Id", "3", "X-Token", "4")
		if a := r.post("{}", header...); a.status != 200 {
			t.Fatalf("%+v", a)
		}
		got := r.relay.last(t).Message.Headers
		delete(got, "user-agent")
		if diff := cmp.Diff(map[string][]string{
			"x-signature-timestamp": {"1"}, "x-signatures": {"2"}, "x-api-key-id": {"3"}, "x-token": {"4"},
		}, got); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	})
}

// A message's id is in every log line and letter.
func TestACredentialIsNoID(t *testing.T) {
	for _, name := range secretHeaders {
		s := newSourceSettings().(*SourceSettings)
		s.Listen, s.IDHeader = address, name
		p := s.Check()
		if len(p) != 1 || p[0].Field != "id_header" || !strings.Contains(p[0].Message, "credential") {
			t.Errorf("id_header %s: %+v", name, p)
		}
	}
}
