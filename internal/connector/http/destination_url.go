package http

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
)

// maxURL bounds a URL with a message's fields in it: what common servers take
// for a request line.
const maxURL = 8 << 10

// urlTemplate is a URL whose path and query may hold expressions. Its scheme
// and host never do.
type urlTemplate struct {
	origin *url.URL // scheme, user and host
	// text is the rest as it was written, from the path on.
	text connector.Template
}

// parseURL reads a destination's URL. Its errors quote nothing of it.
func parseURL(raw string) (urlTemplate, error) {
	if raw == "" {
		return urlTemplate{}, errors.New("must be set, such as https://api.example.com/hook")
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return urlTemplate{}, errors.New("must begin with https:// or http://")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if strings.Contains(rest[:end], "{{") {
		return urlTemplate{}, errors.New("a message must not choose the host; {{ }} may stand behind it only, in path and query")
	}
	origin, err := url.Parse(scheme + "://" + rest[:end])
	if err != nil || origin.Hostname() == "" {
		return urlTemplate{}, errors.New("has no host that can be used")
	}
	if !dialable(origin) {
		return urlTemplate{}, errBadPort
	}
	text, err := connector.ParseTemplate(rest[end:])
	if err != nil {
		return urlTemplate{}, err
	}
	u := urlTemplate{origin: origin, text: text}
	for _, part := range text.Parts {
		if strings.Contains(part.Literal, "#") {
			return urlTemplate{}, errors.New("holds a #; what is behind it is never sent")
		}
	}
	// Any value will do to see whether what stands around them is a URL.
	_, err = u.with(func(int, place) (string, error) { return "x", nil })
	return u, err
}

// errBadPort quotes nothing: a password with a slash in it may look like a port.
var errBadPort = errors.New("the port must be a number from 1 to 65535")

// dialable says whether the port of a URL, if it has one, is one to connect to.
func dialable(u *url.URL) bool {
	if u.Port() == "" {
		return true
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// place is where in a URL a value stands.
type place uint8

const (
	inPath place = iota
	inQuery
)

// with returns the URL with a value in place of each expression. value gets
// the number of the part.
func (u urlTemplate) with(value func(part int, at place) (string, error)) (*url.URL, error) {
	var b strings.Builder
	b.WriteString(u.origin.Scheme)
	b.WriteString("://x") // stands for the host while the rest is read
	at := inPath
	for i, part := range u.text.Parts {
		if part.Expr == "" {
			b.WriteString(part.Literal)
			if strings.Contains(part.Literal, "?") {
				at = inQuery
			}
			continue
		}
		v, err := value(i, at)
		if err != nil {
			return nil, err
		}
		switch {
		case at == inQuery:
			v = url.QueryEscape(v)
		case v == "":
			return nil, fmt.Errorf("the value of {{ %s }} is empty, which would change the path", part.Expr)
		default:
			v = url.PathEscape(v)
		}
		b.WriteString(v)
	}
	if b.Len() > maxURL {
		return nil, fmt.Errorf("the URL is longer than %d bytes", maxURL)
	}
	full, err := url.Parse(b.String())
	if err != nil || full.Host != "x" {
		return nil, errors.New("can't be read as a URL; escape what is odd in it, a space as %20")
	}
	for segment := range strings.SplitSeq(full.EscapedPath(), "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return nil, errors.New("the path holds . or .. as a part, which servers take for another path")
		}
	}
	full.User, full.Host = u.origin.User, u.origin.Host
	return full, nil
}

// urlOf makes the URL of a message.
type urlOf struct {
	template urlTemplate
	exprs    []connector.Expr // as the parts; nil where a part is literal
}

// newURLOf compiles a URL. fixed is the URL where no message changes it, else
// nil.
func newURLOf(raw string, compile func(string) (connector.Expr, error)) (of urlOf, fixed *url.URL, err error) {
	of.template, err = parseURL(raw)
	if err != nil {
		return urlOf{}, nil, err
	}
	if _, constant := of.template.text.Constant(); constant {
		fixed, err = of.template.with(nil)
		return urlOf{}, fixed, err
	}
	of.exprs, err = compileParts(of.template.text, compile)
	return of, nil, err
}

func (of urlOf) message(ctx context.Context, m *message.Message) (*url.URL, error) {
	return of.template.with(func(part int, _ place) (string, error) {
		v, err := of.exprs[part].String(ctx, m)
		if err != nil {
			return "", fmt.Errorf("{{ %s }}: %w", of.template.text.Parts[part].Expr, err)
		}
		return v, nil
	})
}

// errNoExpressions is a destination that was given no compiler.
var errNoExpressions = errors.New("expressions can't be used here")

// compileParts compiles the expressions of a template, in the place of their
// parts.
func compileParts(t connector.Template, compile func(string) (connector.Expr, error)) ([]connector.Expr, error) {
	exprs := make([]connector.Expr, len(t.Parts))
	for i, part := range t.Parts {
		if part.Expr == "" {
			continue
		}
		if compile == nil {
			return nil, errNoExpressions
		}
		expr, err := compile(part.Expr)
		if err != nil {
			return nil, fmt.Errorf("{{ %s }}: %w", part.Expr, err)
		}
		exprs[i] = expr
	}
	return exprs, nil
}
