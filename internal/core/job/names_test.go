package job

// What these tests would catch: a name that is let through and breaks a URL or a
// label, one that is refused though it is fine, a text that gives another bound
// than the one that is held.

import (
	"strconv"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	const only = "may hold A-Z, a-z, 0-9 and . _ : - only"
	long := "is longer than " + strconv.Itoa(MaxName) + " characters"
	for name, want := range map[string]string{
		"": "is missing", "a": "", "send-welcome.email_v2:eu-9Z": "", strings.Repeat("x", MaxName): "", strings.Repeat("x", MaxName+1): long,
		"a b": only, "a/b": only, "a@1": only, "é": only, "a\x00": only, "a\xff": only, " a": only, "a\n": only, "[": only, "{": only, "`": only,
	} {
		if got := BadName(name); got != want {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{"relay:": true, "relay:in": true, "relay": false, "Relay:in": false, "a-relay:in": false, "": false} {
		if OfRelay(name) != want {
			t.Errorf("%q is the relay's own: %t", name, !want)
		}
	}
}
