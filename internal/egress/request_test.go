package egress

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestNewTarget(t *testing.T) {
	for _, test := range []struct{ url, addr, line string }{
		{"http://a.example", "a.example:80", "POST / HTTP/1.1\r\nHost: a.example\r\n"},
		{"https://a.example", "a.example:443", "POST / HTTP/1.1\r\nHost: a.example\r\n"},
		{"https://a.example:8443/x?y", "a.example:8443", "POST /x?y HTTP/1.1\r\nHost: a.example:8443\r\n"},
		{"http://[::1]:81/", "[::1]:81", "POST / HTTP/1.1\r\nHost: [::1]:81\r\n"},
		{"http://[fe80::1%25eth0]/", "[fe80::1%eth0]:80", "POST / HTTP/1.1\r\nHost: [fe80::1]\r\n"},
		{"http://bücher.example/ü?ü", "xn--bcher-kva.example:80", "POST /%C3%BC?%C3%BC HTTP/1.1\r\nHost: xn--bcher-kva.example\r\n"},
	} {
		target := newTarget(t, "POST", test.url)
		if target.Addr() != test.addr || !strings.HasPrefix(string(target.head), test.line) {
			t.Errorf("%s: %s %q, want %s %q", test.url, target.Addr(), target.head, test.addr, test.line)
		}
	}
}

func TestNewTargetRefuses(t *testing.T) {
	good := &url.URL{Scheme: "http", Host: "a.example", User: url.UserPassword("me", "secret"), Path: "/secret"}
	with := func(change func(u *url.URL)) *url.URL {
		u := *good
		change(&u)
		return &u
	}
	for _, test := range []struct {
		name, method string
		url          *url.URL
		field        Field
	}{
		{"no method", "", good, Field{"X", "y"}},
		{"method with a space", "GET /", good, Field{"X", "y"}},
		{"CONNECT", "CONNECT", good, Field{"X", "y"}},
		{"scheme", "GET", with(func(u *url.URL) { u.Scheme = "ftp" }), Field{"X", "y"}},
		{"no host", "GET", with(func(u *url.URL) { u.Host = "" }), Field{"X", "y"}},
		{"port only", "GET", with(func(u *url.URL) { u.Host = ":80" }), Field{"X", "y"}},
		{"port too high", "GET", with(func(u *url.URL) { u.Host = "a:65536" }), Field{"X", "y"}},
		{"port 0", "GET", with(func(u *url.URL) { u.Host = "a:0" }), Field{"X", "y"}},
		{"host with a line end", "GET", with(func(u *url.URL) { u.Host = "a\r\nsecret" }), Field{"X", "y"}},
		{"query with a line end", "GET", with(func(u *url.URL) { u.RawQuery = "a\r\nsecret" }), Field{"X", "y"}},
		{"opaque", "GET", with(func(u *url.URL) { u.Opaque = "secret" }), Field{"X", "y"}},
		{"relative path", "GET", with(func(u *url.URL) { u.Path = "secret" }), Field{"X", "y"}},
		{"field with a line end", "GET", good, Field{"X", "secret\r\nY: z"}},
		{"field without a name", "GET", good, Field{"", "secret"}},
		{"field of the connection", "GET", good, Field{"Transfer-Encoding", "secret"}},
		{"Host with a line end", "GET", good, Field{"Host", "secret\r\n"}},
		{"Host empty", "GET", good, Field{"Host", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewTarget(test.method, test.url, test.field)
			if err == nil {
				t.Fatal("taken")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q holds the secret", err)
			}
		})
	}
}

func TestConnectionFields(t *testing.T) {
	for _, name := range []string{
		"te", "HOST", "Expect", "trailer", "Upgrade", "Connection", "keep-alive", "Content-Length",
		"Proxy-Connection", "Transfer-Encoding",
	} {
		if !connectionField(name) {
			t.Errorf("%s can be set", name)
		}
	}
	for _, name := range []string{"Content-Type", "Idempotency-Key", "Authorization", "X-Connection", "Traceparent"} {
		if connectionField(name) {
			t.Errorf("%s cannot be set", name)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	proxy := &url.URL{Scheme: "http", Host: "p:1"}
	for name, o := range map[string]Options{
		"MaxIdle":        {MaxIdle: -1},
		"IdleTimeout":    {IdleTimeout: -time.Second},
		"MaxAge":         {MaxAge: -1},
		"MaxHeaderBytes": {MaxHeaderBytes: -1},
		"MaxBodyBytes":   {MaxBodyBytes: -1},
		"protocol":       {Protocol: HTTP2 + 1},
		"proxy scheme":   {Proxy: &url.URL{Scheme: "ftp", Host: "p:1"}},
		"guard":          {Proxy: proxy, DenyPrivate: true},
		"default dialer": {Dial: inMemory(nil), DenyPrivate: true},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever is in a URL or a field, the request line and each field stay one
// line each.
func FuzzTarget(f *testing.F) {
	f.Add("http://a.example/x?y=z", "X-Name", "value")
	f.Add("http://me:pw@[::1]:80/ü?a b#c", "Host", "b.example")
	f.Add("http://a\r\nb/", "X\r\nY", "v\r\n\r\nGET / HTTP/1.1")
	f.Fuzz(func(t *testing.T, rawURL, name, value string) {
		u, err := url.Parse(rawURL)
		if err != nil {
			return
		}
		target, err := NewTarget("POST", u, Field{name, value})
		if err != nil {
			return
		}
		head := string((&Request{Target: target}).appendHead(nil))
		lines := strings.Split(head, "\r\n")
		most := 7 // request line, Host, the field, Authorization, User-Agent, Content-Length, end
		if len(lines) > most+1 || strings.ContainsAny(strings.Join(lines, ""), "\r\n\x00") {
			t.Errorf("%q", head)
		}
		if strings.Count(lines[0], " ") != 2 {
			t.Errorf("request line %q", lines[0])
		}
	})
}
