package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
)

// Would catch: a signature that takes the header of the key, so that endpoints
// see every retry as a new message, and a file that is made in whichever mode
// comes first.
func TestClashes(t *testing.T) {
	const sign = `sign: { hmac: { secret: "{{secrets.CLASH_KEY}}", `
	for name, c := range map[string]struct {
		destinations string
		want         []string // of the report's lines, what each holds; none is a clean report
	}{
		"a signature of its own": {`{ name: a, type: https, url: "https://x", ` + sign + `header: X-Sig } } }`, nil},
		"a signature in the default header of the key": {
			`{ name: a, type: https, url: "https://x", ` + sign + `header: idempotency-key } } }`,
			[]string{"6:", "error: sign.hmac.header: idempotency-key carries the message's id (idempotency_header); name another"},
		},
		"a time in it": {
			`{ name: a, type: https, url: "https://x", idempotency_header: X-Id, ` + sign + `timestamp_header: x-id } } }`,
			[]string{"error: sign.hmac.timestamp_header: x-id carries the message's id"},
		},
		"webhooks, whose id is the key": {
			`{ name: a, type: https, url: "https://x", idempotency_header: Webhook-Id, sign: { standard_webhooks: { secret: "{{secrets.CLASH_KEY}}" } } }`, nil,
		},
		"webhooks, whose time is not": {
			`{ name: a, type: https, url: "https://x", idempotency_header: Webhook-Timestamp, sign: { standard_webhooks: { secret: "{{secrets.CLASH_KEY}}" } } }`,
			[]string{"error: sign.standard_webhooks: webhook-timestamp carries the message's id"},
		},
		"one mode written twice": {"{ name: a, type: file, path: out, fallback: [b] }\n  - { name: b, type: file, path: ./out, mode: 0o600 }", nil},
		"two modes": {
			"{ name: a, type: file, path: out, fallback: [b] }\n  - { name: b, type: file, path: ./out, mode: \"0640\" }",
			[]string{"7:", `warning: mode: 0640 here and 0600 at the destination "a" (`, "has its way"},
		},
		"a member's signature in the group's header of the key": {
			`{ name: a, type: group, idempotency_header: X-Id, members: [ { type: https, url: "https://x", ` + sign + `header: x-id } } } ] }`,
			[]string{"6:", "error: sign.hmac.header: x-id carries the message's id (idempotency_header); name another"},
		},
		"two modes of members": {
			`{ name: a, type: group, members: [ { type: file, path: out }, { type: file, path: ./out, mode: "0640" } ] }`,
			[]string{"6:", `warning: mode: 0640 here and 0600 at the destination "a/1" (`},
		},
		"two files": {"{ name: a, type: file, path: out, fallback: [b] }\n  - { name: b, type: file, path: out2, mode: \"0640\" }", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CLASH_KEY", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
			path := filepath.Join(t.TempDir(), "pawl.yaml")
			text := "sources:\n  - { name: web, type: http, listen: \"127.0.0.1:8080\" }\nroutes:\n  - { name: all, from: [web], to: [a] }\ndestinations:\n  - " + c.destinations + "\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, report := config.Load([]string{path}, config.Options{Registry: builtin.Connectors()})
			var said strings.Builder
			if err := report.Write(&said, config.Plain); err != nil {
				t.Fatal(err)
			}
			if len(c.want) == 0 && len(report.Problems) > 0 {
				t.Errorf("wrong is: %s", said.String())
			}
			for _, want := range c.want {
				if !strings.Contains(said.String(), want) {
					t.Errorf("no %q in: %s", want, said.String())
				}
			}
		})
	}
}
