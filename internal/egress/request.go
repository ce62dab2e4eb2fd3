package egress

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Field is one header field. The name is sent as it is written.
type Field struct{ Name, Value string }

// userAgent is sent unless a target has a User-Agent of its own.
const userAgent = "pawl"

// Target is where requests go and what they have in common: method, URL and
// fixed header fields, checked and rendered once. It does not change and is
// safe for concurrent use.
type Target struct {
	method string
	url    *url.URL // without user and fragment, the query escaped
	secure bool
	addr   string // host:port to dial
	host   string // the Host field
	fixed  []Field
	// head is the request line and the fixed fields, as they go on the wire.
	head []byte
}

// NewTarget checks a method, an http:// or https:// URL and the fields that
// every request to it carries. A user and password in the URL become an
// Authorization field unless there is one; a Host field replaces the URL's
// host; the fragment is not sent. Fields that frame the message or belong to
// one connection (Content-Length, Transfer-Encoding, Connection and the like)
// are refused. No error names the URL's path, query, credentials or a field's
// value.
func NewTarget(method string, u *url.URL, fixed ...Field) (*Target, error) {
	if !httpguts.ValidHeaderFieldName(method) || method == http.MethodConnect {
		return nil, fmt.Errorf("egress: %q is not a method that can be sent", method)
	}
	t := &Target{method: method, secure: u.Scheme == "https"}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("egress: scheme %q: use http or https", u.Scheme)
	}
	if err := t.setAddr(u); err != nil {
		return nil, err
	}
	for _, f := range fixed {
		if strings.EqualFold(f.Name, "Host") {
			if !httpguts.ValidHostHeader(f.Value) || f.Value == "" {
				return nil, errors.New("egress: the Host field is not a host name")
			}
			t.host = f.Value
			continue
		}
		if err := checkField(f); err != nil {
			return nil, err
		}
		t.fixed = append(t.fixed, f)
	}
	if u.User != nil && !hasField(t.fixed, "Authorization") {
		password, _ := u.User.Password()
		credentials := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		t.fixed = append(t.fixed, Field{"Authorization", "Basic " + credentials})
	}
	if !hasField(t.fixed, "User-Agent") {
		t.fixed = append(t.fixed, Field{"User-Agent", userAgent})
	}
	path, err := requestTarget(u)
	if err != nil {
		return nil, err
	}
	plain := *u
	plain.User, plain.Fragment, plain.RawFragment = nil, "", ""
	_, plain.RawQuery, _ = strings.Cut(path, "?")
	t.url = &plain
	t.head = append(t.head, method+" "+path+" HTTP/1.1\r\n"...)
	t.head = appendField(t.head, Field{"Host", t.host})
	for _, f := range t.fixed {
		t.head = appendField(t.head, f)
	}
	return t, nil
}

// Addr returns the host and port that are dialled.
func (t *Target) Addr() string { return t.addr }

func (t *Target) setAddr(u *url.URL) error {
	if u.Hostname() == "" || u.Opaque != "" {
		return errors.New("egress: the URL has no host")
	}
	host, err := httpguts.PunycodeHostPort(u.Host)
	if err != nil || !httpguts.ValidHostHeader(host) {
		return errors.New("egress: the URL's host is not a host name")
	}
	name, port := (&url.URL{Host: host}).Hostname(), u.Port()
	switch {
	case port != "":
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("egress: port %q is not a number from 1 to 65535", port)
		}
	case t.secure:
		port = "443"
	default:
		port = "80"
	}
	t.addr = net.JoinHostPort(name, port)
	// A zone of an IPv6 address means something on this machine only.
	bare, _, _ := strings.Cut(name, "%")
	t.host = bare
	if strings.Contains(bare, ":") {
		t.host = "[" + bare + "]"
	}
	if u.Port() != "" {
		t.host += ":" + port
	}
	return nil
}

// requestTarget returns the path and query as they go into the request line.
// What a URL may hold and a request line may not (spaces and bytes above ASCII
// in a query) is escaped.
func requestTarget(u *url.URL) (string, error) {
	raw := u.RequestURI()
	if !strings.HasPrefix(raw, "/") {
		return "", errors.New("egress: the URL's path does not begin with a slash")
	}
	clean := make([]byte, 0, len(raw))
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == ' ' || c >= 0x80:
			clean = fmt.Appendf(clean, "%%%02X", c)
		case c < ' ' || c == 0x7f:
			return "", errors.New("egress: the URL holds a control character")
		default:
			clean = append(clean, c)
		}
	}
	return string(clean), nil
}

// Request is one request to a Target.
type Request struct {
	Target *Target
	// Header is sent after the target's own fields and replaces none of them.
	Header []Field
	// Body is not changed, and not read any more once Do has returned.
	Body []byte
	// KeepBody asks for the answer's body; without it the body is read and
	// thrown away.
	KeepBody bool
}

// check refuses a request that cannot be sent as it is.
func (r *Request) check() error {
	if r.Target == nil {
		return errors.New("it has no target")
	}
	for _, f := range r.Header {
		if err := checkField(f); err != nil {
			return err
		}
	}
	return nil
}

// appendHead appends the request up to its body, as it goes on the wire.
func (r *Request) appendHead(b []byte) []byte {
	b = append(b, r.Target.head...)
	for _, f := range r.Header {
		b = appendField(b, f)
	}
	if len(r.Body) > 0 || r.Target.expectsBody() {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// expectsBody reports whether servers want a Content-Length even of an empty
// body (RFC 9110 §8.6).
func (t *Target) expectsBody() bool {
	switch t.method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	}
	return false
}

// checkField refuses what must never reach the wire. The value is not named:
// it may be a secret.
func checkField(f Field) error {
	if !httpguts.ValidHeaderFieldName(f.Name) {
		return fmt.Errorf("header name %q is not a token", f.Name)
	}
	if !httpguts.ValidHeaderFieldValue(f.Value) {
		return fmt.Errorf("the value of header %s holds a control character", f.Name)
	}
	if connectionField(f.Name) {
		return fmt.Errorf("header %s belongs to the connection and cannot be set", f.Name)
	}
	return nil
}

// connectionField reports whether a field frames the message or speaks of one
// connection, which is the client's own business.
func connectionField(name string) bool {
	switch len(name) {
	case 2, 4, 6, 7, 10, 14, 16, 17:
	default:
		return false
	}
	for _, own := range [...]string{
		"TE", "Host", "Expect", "Trailer", "Upgrade", "Connection", "Keep-Alive", "Content-Length",
		"Proxy-Connection", "Transfer-Encoding",
	} {
		if len(own) == len(name) && strings.EqualFold(own, name) {
			return true
		}
	}
	return false
}

func hasField(fields []Field, name string) bool {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

func appendField(b []byte, f Field) []byte {
	b = append(b, f.Name...)
	b = append(b, ": "...)
	b = append(b, f.Value...)
	return append(b, "\r\n"...)
}
