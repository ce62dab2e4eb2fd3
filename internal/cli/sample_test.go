package cli

// Catches: a secret that try prints, of the configuration or of its own flags.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTryPrintsNoSecret(t *testing.T) {
	t.Setenv("TRY_HOST", "s3cr3t-host")
	t.Setenv("TRY_KEY", "s3cr3t-key")
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(file, []byte(`
secrets: { env: true }
sources: [ { name: web, type: http, listen: "127.0.0.1:0" } ]
routes: [ { name: all, from: [web], to: [ep, disk] } ]
destinations:
  - { name: ep, type: https, url: "https://{{secrets.TRY_HOST}}.example.com/hook?key={{secrets.TRY_KEY}}" }
  - { name: disk, type: file, path: "{{secrets.TRY_KEY}}/out.ndjson" }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--header", "Authorization: s3cr3t"}, exitDone},
		{[]string{"--header", "Authorization: s3cr3t", "--json"}, exitDone},
		{[]string{"--header", "Authorization s3cr3t"}, exitUsage},
	} {
		code, out, errOut := call(t, "", append([]string{"try", "-c", file, "--data", "{}"}, c.args...)...)
		if code != c.code || code == exitDone && !strings.Contains(out, "https://***.example.com") || strings.Contains(out+errOut, "s3cr3t") {
			t.Errorf("%v: exit %d\n%s%s", c.args, code, out, errOut)
		}
	}
}
