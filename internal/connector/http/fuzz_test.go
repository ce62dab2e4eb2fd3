package http

import (
	"encoding/json/v2"
	nethttp "net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://a.test/x", "http://u:p@[::1]:80/{{ .a }}?b={{ .c }}", "https://a.test?x", "http://a/%2e", "https://a/#x", "{{ .x }}"} {
		f.Add(s, "v")
		f.Add(s, "../@b/?#")
	}
	f.Fuzz(func(t *testing.T, raw, value string) {
		u, err := parseURL(raw)
		if err != nil {
			return
		}
		got, err := u.with(func(int, place) (string, error) { return value, nil })
		if err != nil {
			return
		}
		if got.Host != u.origin.Host || got.Scheme != u.origin.Scheme {
			t.Fatalf("%q with %q goes to %s://%s", raw, value, got.Scheme, got.Host)
		}
	})
}

// FuzzTopStrings: what it finds is what a JSON decoder finds, and nothing makes
// it fail.
func FuzzTopStrings(f *testing.F) {
	for _, s := range []string{`{"id":"a"}`, `{"x":[{"id":1}],"id":"\u00e9"}`, `{"id":1}`, `[]`, `{`, `{"id":"a","id":"b"}`, "{\"id\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, found := topStrings(body, "id")["id"]
		var object map[string]any
		if json.Unmarshal(body, &object) != nil {
			return // not an object: what stands before its mistake may count
		}
		if want, is := object["id"].(string); is != found || got != want {
			t.Fatalf("%q, %v; a decoder says %q, %v", got, found, want, is)
		}
	})
}

// FuzzForm: a form becomes a JSON object with the same fields, or is refused.
func FuzzForm(f *testing.F) {
	for _, s := range []string{"a=1&b=2", "a=1&a=2", "", "%zz", "a=%ff", "=", "&&", "a;b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := formToJSON(body, 1<<20)
		if err != nil {
			return
		}
		var object map[string]any
		if err := json.Unmarshal(out, &object); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		want, err := url.ParseQuery(string(body))
		if err != nil || len(want) != len(object) {
			t.Fatalf("%d fields became %d, %v", len(want), len(object), err)
		}
	})
}

// FuzzGunzip: nothing unpacks past its bound.
func FuzzGunzip(f *testing.F) {
	f.Add([]byte("\x1f\x8b"), 10)
	f.Add([]byte(packed(f, "hello")), 4)
	f.Add([]byte(packed(f, strings.Repeat("\x00", 1<<17))), 1<<20)
	f.Fuzz(func(t *testing.T, body []byte, limit int) {
		if limit < 1 || limit > maxBodyLimit {
			return
		}
		if out, err := gunzip(body, limit); err == nil && (len(out) > limit || len(out) > max(ratioFrom, maxRatio*len(body))) {
			t.Fatalf("%d bytes became %d, limit %d", len(body), len(out), limit)
		}
	})
}

// FuzzClaims: no header makes a verifier fail, and none that is not signed
// passes.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{"", githubOne, "t=1,v1=00", "t=,v1", "Basic YTpi", "Bearer ", "v1,AAAA v1,", "sha256="} {
		f.Add(s, signedAt)
	}
	f.Fuzz(func(t *testing.T, value, timestamp string) {
		for _, w := range ways() {
			v, err := newVerifier(w.auth)
			if err != nil {
				t.Fatal(err)
			}
			h := nethttp.Header{"Authorization": {value}, "Webhook-Id": {"msg_1"}}
			for _, name := range v.headers() {
				h[nethttp.CanonicalHeaderKey(name)] = []string{value}
			}
			for _, name := range []string{"X-Time", "X-Slack-Request-Timestamp", "Webhook-Timestamp"} {
				h[name] = []string{timestamp}
			}
			c, ok := v.claim(h, time.Unix(946684800, 0))
			if ok && c.holds != nil && c.holds([]byte("a body that nobody signed")) {
				t.Fatalf("%s: %q passes", w.name, value)
			}
		}
	})
}

// FuzzPayload: a payload that is taken signs the body, all of it.
func FuzzPayload(f *testing.F) {
	for _, s := range []string{"{body}", "{timestamp}.{body}", "{", "}", "{x}", "{body}{body}", "v0:{timestamp}:{body}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePayload(text)
		if err != nil {
			return
		}
		var b strings.Builder
		p.write(&b, "1", []byte("<all>"))
		if want := strings.NewReplacer("{body}", "<all>", "{timestamp}", "1").Replace(text); b.String() != want {
			t.Fatalf("%q signs %q, want %q", text, b.String(), want)
		}
	})
}
