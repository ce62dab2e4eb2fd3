package http

import (
	"fmt"
	"net"
	nethttp "net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/setting"
)

// The bounds of a source's settings.
const (
	// maxBodyLimit is the largest max_body: as many bytes, each written as a
	// six-byte escape, still fit into one 64 MiB line of the dead letters.
	maxBodyLimit = 10 << 20
	// maxKeyPrefix leaves most of an id's 256 bytes to the caller.
	maxKeyPrefix = 64
	// maxAnswerBody is far more than a sender of webhooks reads.
	maxAnswerBody = 64 << 10
	// minAckTimeout and maxAckTimeout: a shorter one would answer 504 to what
	// is merely on its way, a longer one outlives every client and proxy.
	minAckTimeout = 100 * time.Millisecond
	maxAckTimeout = time.Hour
)

// SourceSettings are the settings of a source of type http.
type SourceSettings struct {
	Listen     string             `yaml:"listen" secret:"never" doc:"host:port to listen at; sources may share one with different paths"`
	Path       string             `yaml:"path" default:"/" secret:"never" doc:"path to serve; one that ends in a slash takes everything below it too"`
	Methods    []string           `yaml:"methods" default:"[POST]" secret:"never" doc:"methods to take; others are answered 405"`
	TLS        *setting.ServerTLS `yaml:"tls" doc:"speak TLS with this certificate"`
	Auth       *Auth              `yaml:"auth" doc:"who may send; without it anybody who reaches the port"`
	AckTimeout setting.Duration   `yaml:"ack_timeout" default:"25s" doc:"answer 504 after this long; the message goes on"`
	MaxBody    setting.Size       `yaml:"max_body" default:"1MiB" doc:"largest body, unpacked; a larger one is answered 413"`
	KeyPrefix  string             `yaml:"key_prefix" secret:"never" doc:"put before the caller's own keys, to keep two callers' keys apart"`
	IDHeader   string             `yaml:"id_header" secret:"never" doc:"header that gives the message's id; without it Idempotency-Key, then webhook-id, or what the preset names"`
	Answer     *Answer            `yaml:"answer" doc:"what an acknowledged request is answered, in place of 200 and the message's id"`
}

// Answer is a fixed reply to a request whose message is acknowledged.
type Answer struct {
	Status  int               `yaml:"status" default:"200" doc:"a 2xx status"`
	Body    *string           `yaml:"body" doc:"body; without it the JSON object with id and status"`
	Headers map[string]string `yaml:"headers" doc:"header fields"`
}

func newSourceSettings() connector.Settings {
	return &SourceSettings{
		Path:    "/",
		Methods: []string{nethttp.MethodPost},
		// Most senders of webhooks give up after 30 s; five are left for the way.
		AckTimeout: setting.Duration(25 * time.Second),
		MaxBody:    1 << 20,
	}
}

// Check implements connector.Settings.
func (s *SourceSettings) Check() []connector.Problem {
	var p problems
	p.check("listen", checkListen(s.Listen))
	switch {
	case !strings.HasPrefix(s.Path, "/"):
		p.add("path", "%q must begin with a slash", s.Path)
	case strings.ContainsAny(s.Path, "?#"):
		p.add("path", "%q can't hold ? or #; a query is in $msg.query", s.Path)
	}
	s.checkMethods(&p)
	if s.TLS != nil && (s.TLS.Cert == "" || s.TLS.Key == "") {
		p.add("tls", "needs both cert and key, the names of PEM files")
	}
	if d := s.AckTimeout.D(); d < minAckTimeout || d > maxAckTimeout {
		p.add("ack_timeout", "must be from %v to %v", minAckTimeout, maxAckTimeout)
	}
	if s.MaxBody < 1 || s.MaxBody > maxBodyLimit {
		p.add("max_body", "must be from 1 byte to %v", setting.Size(maxBodyLimit))
	}
	if len(s.KeyPrefix) > maxKeyPrefix {
		p.add("key_prefix", "has %d bytes; at most %d leave room for the callers' keys", len(s.KeyPrefix), maxKeyPrefix)
	} else if s.KeyPrefix != "" {
		p.check("key_prefix", checkID(s.KeyPrefix, message.MaxID))
	}
	if s.IDHeader != "" && !connector.IsToken(s.IDHeader) {
		p.add("id_header", "%q is not a header name", s.IDHeader)
	} else if isCredentialName(s.IDHeader) {
		p.add("id_header", "%s carries a credential, which an id would show in logs and dead letters; name a header that carries an id", s.IDHeader)
	}
	if s.Auth != nil {
		s.Auth.check(&p)
	}
	if s.Answer != nil {
		s.Answer.check(&p)
	}
	return p
}

func (s *SourceSettings) checkMethods(p *problems) {
	if len(s.Methods) == 0 {
		p.add("methods", "is empty; leave it out for POST")
	}
	for i, m := range s.Methods {
		switch {
		case !isMethod(m):
			p.add(fmt.Sprintf("methods.%d", i), "%q is not a method; write it like POST", m)
		case m == nethttp.MethodConnect || m == nethttp.MethodTrace:
			p.add(fmt.Sprintf("methods.%d", i), "%s can't bring a message", m)
		case slices.Contains(s.Methods[:i], m):
			p.add(fmt.Sprintf("methods.%d", i), "%s stands twice", m)
		}
	}
}

// maxMethod is longer than any registered method.
const maxMethod = 32

// isMethod says whether a text is a method as the registered ones are: HTTP
// allows any token, but what is no word in capitals is a mistake.
func isMethod(m string) bool {
	return m != "" && len(m) <= maxMethod && strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}

func checkListen(address string) error {
	if address == "" {
		return fmt.Errorf("must be set, such as 127.0.0.1:8080")
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port; write it like 127.0.0.1:8080", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: the port must be a number up to 65535, not %q", address, port)
	} else if strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q: write the port as %d", address, n)
	}
	return nil
}

func (a *Answer) check(p *problems) {
	if a.Status != 0 && (a.Status < 200 || a.Status > 299) {
		p.add("answer.status", "%d would tell the sender that the message was not taken; use 200 to 299", a.Status)
	}
	if bodyless(a.Status) && a.Body != nil && *a.Body != "" {
		p.add("answer.body", "an answer with status %d has no body", a.Status)
	}
	if a.Body != nil && len(*a.Body) > maxAnswerBody {
		p.add("answer.body", "has %d bytes, at most %d are allowed", len(*a.Body), maxAnswerBody)
	}
	for name, value := range sorted(a.Headers) {
		field := "answer.headers." + name
		switch {
		case !connector.IsToken(name):
			p.add(field, "%q is not a header name", name)
		case !connector.IsFieldValue(value):
			p.add(field, "the value of %s holds a control character", name)
		case connector.IsConnectionField(name):
			p.add(field, "%s belongs to the connection and can't be set", name)
		}
	}
}

func bodyless(status int) bool {
	return status == nethttp.StatusNoContent || status == nethttp.StatusResetContent
}
