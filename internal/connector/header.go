package connector

import (
	"net/textproto"
	"strings"
)

// IsToken reports whether s may name a header or a method (RFC 9110 §5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// IsFieldValue reports whether s may be the value of a header: no control
// character but a tab, since one could end the line and begin another header.
func IsFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// connectionFields speak of one connection or frame one message (RFC 9110
// §7.6.1, RFC 9112), by canonical name.
var connectionFields = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true,
	"Upgrade": true, "Content-Length": true, "Expect": true, "Host": true, "Http2-Settings": true,
}

// IsConnectionField reports whether a header belongs to the connection, or to
// a proxy on the way. No message keeps such a header and no configuration sets
// one: whoever makes the request does.
func IsConnectionField(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name) // allocates nothing for one that is
	return connectionFields[name] || strings.HasPrefix(name, "Proxy-")
}
