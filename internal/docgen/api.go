package main

import (
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/internal/httpapi"
)

// apiVersion is the version that the committed document names: that of the
// sources, which have none.
const apiVersion = "dev"

// apiPage returns the reference of the job API as Markdown: each call and who
// may make it.
func apiPage() []byte {
	var b strings.Builder
	b.WriteString("# The job API\n\nJSON over HTTP, at `jobs.listen` (`http.listen` unless set). " +
		"[openapi.json](openapi.json) describes every request and answer;\na running pawl serves it at `/v3/openapi.json`. " +
		"A key goes along as `Authorization: Bearer pawl_…`; `pawl keys create`\nmakes one. A call with several scopes needs a key with " +
		"one of them; `admin` includes every scope. A key that is limited to\nqueues sees and touches only what is in these.\n\n" +
		"| call | scope | what it does |\n|---|---|---|\n")
	for _, c := range httpapi.Calls() {
		scopes := make([]string, len(c.Scopes))
		for i, s := range c.Scopes {
			scopes[i] = "`" + string(s) + "`"
		}
		who := strings.Join(scopes, " or ")
		if who == "" {
			who = "none needed"
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s |\n", c.Method, c.Path, who, strings.ReplaceAll(c.Summary, "|", "\\|"))
	}
	b.WriteString("\nErrors are problem documents (RFC 9457) whose `type` stays the same. `/healthz`, `/readyz` and `/metrics` need no key.\n" +
		"Where the API shares `http.listen`, the relay's own calls there (`/v3/status`, `/v3/dead-letters`, …) take one of `http.keys`,\nor a key with the scope " +
		"`operate` or `admin` that is not limited to queues.\n")
	return []byte(b.String())
}
