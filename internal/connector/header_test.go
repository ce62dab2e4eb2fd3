package connector

import (
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
	"pgregory.net/rapid"
)

// Would catch: a name or a value that an HTTP library refuses to send, and a
// header of the connection that a configuration could set.
func TestHeaderWordsAreThoseOfHTTP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching("[ -~]{0,8}"), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "bytes"))
		})).Draw(t, "s")
		if got, want := IsToken(s), httpguts.ValidHeaderFieldName(s); got != want {
			t.Errorf("IsToken(%q) = %v", s, got)
		}
		if got, want := IsFieldValue(s), httpguts.ValidHeaderFieldValue(s); got != want {
			t.Errorf("IsFieldValue(%q) = %v", s, got)
		}
	})
}

func TestConnectionFields(t *testing.T) {
	for _, name := range []string{
		"Connection", "keep-alive", "TE", "trailer", "Transfer-Encoding", "UPGRADE", "content-length", "Expect",
		"host", "HTTP2-Settings", "proxy-authorization", "Proxy-Connection", "Proxy-Authenticate",
	} {
		for _, form := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if !IsConnectionField(form) {
				t.Errorf("%s is taken for the message's own", form)
			}
		}
	}
	for _, name := range []string{"", "Content-Type", "X-Host", "Hosts", "Authorization", "Cookie", "Proxy"} {
		if IsConnectionField(name) {
			t.Errorf("%q is taken for the connection's", name)
		}
	}
}
