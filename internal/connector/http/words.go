package http

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	nethttp "net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/internal/connector"
)

// problems gathers what is wrong with settings.
type problems []connector.Problem

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, connector.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// check adds err as a problem of field where there is one.
func (p *problems) check(field string, err error) {
	if err != nil {
		p.add(field, "%v", err)
	}
}

// sorted walks a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// isToken reports whether s may name a header or a method (RFC 9110 §5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// isFieldValue reports whether s may be the value of a header: no control
// character but a tab.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// connectionFields speak of one connection or frame one message (RFC 9110
// §7.6.1, RFC 9112), so that neither direction passes them on.
var connectionFields = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Content-Length": true, "Expect": true, "Host": true,
	"Http2-Settings": true,
}

func isConnectionField(name string) bool {
	return connectionFields[nethttp.CanonicalHeaderKey(name)]
}

// checkID says what is wrong with an id that a caller gave. limit is how many
// bytes it may have.
func checkID(id string, limit int) error {
	switch {
	case len(id) > limit:
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(id), limit)
	case !utf8.ValidString(id):
		return errors.New("it is not UTF-8")
	case strings.IndexFunc(id, unicode.IsControl) >= 0:
		return errors.New("it holds a control character")
	}
	return nil
}
