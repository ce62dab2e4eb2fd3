package cli

import (
	"encoding/json/jsontext"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/connector"
	connecthttp "github.com/pawlhq/pawl/internal/connector/http"
	"github.com/pawlhq/pawl/internal/core/message"
)

// sample is a message as a command line describes it.
type sample struct {
	data, id    string
	headers     []string // "Name: value"
	contentType string
	method      string
	target      string // path and query
}

// flags adds what both try and send take.
func (s *sample) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.data, "data", "", "the body: `DATA` itself, @file, or - for standard input")
	f.StringVar(&s.id, "id", "", "the message's `ID`, its idempotency key (default: a new one)")
	f.StringArrayVar(&s.headers, "header", nil, "a header of the message, `'NAME: VALUE'`; may be repeated")
	f.StringVar(&s.contentType, "content-type", "", "`TYPE` of the body (default: application/json where it is JSON, else text/plain)")
	_ = c.MarkFlagRequired("data") // fails only for a flag that is not there
}

// message makes the message that a source of type http would make of it. Its
// Source is left to the caller.
func (s *sample) message(sh *shell) (*message.Message, error) {
	body, err := sh.data(s.data)
	if err != nil {
		return nil, err
	}
	r, err := s.request()
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "text/plain; charset=utf-8")
		if jsontext.Value(body).IsValid() {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	m, err := connecthttp.FromRequest(r, body, maxData)
	if err != nil {
		return nil, usagef("a source would refuse this: %w", err)
	}
	if s.id != "" {
		m.ID = s.id
	}
	if err := message.CheckID(m.ID); err != nil {
		return nil, usagef("--id: %w", err)
	}
	return m, nil
}

// request is the request that the message comes in by, without its body.
func (s *sample) request() (*http.Request, error) {
	u, err := url.ParseRequestURI(s.target)
	if err != nil || !strings.HasPrefix(s.target, "/") {
		return nil, usagef("--path %q: write it like /events?x=1, other characters escaped with %%", s.target)
	}
	if !connector.IsToken(s.method) {
		return nil, usagef("--method %q: this is no method; write one like POST", s.method)
	}
	h := http.Header{}
	for i, text := range s.headers {
		name, value, ok := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		if !ok || !connector.IsToken(name) || !connector.IsFieldValue(value) {
			return nil, usagef("--header, number %d: write it like 'X-Kind: order'", i+1) // its text may be a secret
		}
		h.Add(name, value)
	}
	if s.contentType != "" {
		if !connector.IsFieldValue(s.contentType) {
			return nil, usagef("--content-type %q: it holds a control character", s.contentType)
		}
		h.Set("Content-Type", s.contentType)
	}
	return &http.Request{Method: s.method, URL: u, Header: h, RemoteAddr: sampleRemote}, nil
}

// sampleRemote stands where a request has its sender's address.
const sampleRemote = "127.0.0.1:0"
