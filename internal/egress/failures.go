package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// malformed says how an answer is not HTTP. It never quotes the answer, which
// may hold secrets.
type malformed string

func (m malformed) Error() string { return string(m) }

// errNoAnswer is a connection that ended before the first byte of an answer.
var errNoAnswer = errors.New("the connection was closed without an answer")

const (
	// errCutShort is an answer that ended before its end.
	errCutShort = malformed("it was cut short")
	// errSwitches is a 101.
	errSwitches = malformed("it changes to another protocol, which nobody asked for")
)

// step is how far a request has come.
type step uint8

// The steps, in their order.
const (
	connecting step = iota
	sending
	waiting
	receiving
)

// String returns the step as it reads behind "while".
func (s step) String() string {
	switch s {
	case connecting:
		return "connecting"
	case sending:
		return "sending the request"
	case waiting:
		return "waiting for the answer"
	case receiving:
		return "reading the answer"
	}
	return fmt.Sprintf("step(%d)", uint8(s))
}

// classify makes the failure of a request to addr that came as far as s. Its
// text names addr, which the operator wrote as the host of a URL, and nothing
// else of the request.
func classify(ctx context.Context, addr string, s step, err error) *failure.Error {
	if bad, ok := errors.AsType[malformed](err); ok {
		return &failure.Error{
			Tags: failure.Tags{failure.Broken}, Class: failure.Transient, Verdict: failure.Sick,
			Message: fmt.Sprintf("%s gave a broken answer: %s", addr, bad), Err: err,
		}
	}
	// The end of ctx comes before what the socket says: it is the reason why
	// the socket says anything. A socket's own deadline may fire a moment
	// before that of ctx, from which it was made.
	switch ended := ctx.Err(); {
	case errors.Is(ended, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, context.DeadlineExceeded):
		return &failure.Error{
			Tags: failure.Tags{failure.Timeout}, Class: failure.Transient, Verdict: failure.Sick,
			Message: fmt.Sprintf("%s took too long: the time was up while %s", addr, s),
			Err:     context.DeadlineExceeded,
		}
	case ended != nil, errors.Is(err, context.Canceled):
		return &failure.Error{
			Tags: failure.Tags{failure.Cancelled}, Class: failure.Transient, Verdict: failure.Neutral,
			Message: fmt.Sprintf("the request to %s was given up while %s", addr, s), Err: context.Canceled,
		}
	}
	if prohibited(err) {
		return &failure.Error{
			Class: failure.Permanent, Verdict: failure.Neutral,
			Message: fmt.Sprintf("%s is not on the public internet, and only such addresses are allowed here", addr),
			Err:     err,
		}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &failure.Error{
			Tags: failure.Tags{failure.TLS}, Class: failure.Permanent, Verdict: failure.Suspect,
			Message: fmt.Sprintf("the certificate of %s does not verify: %s", addr, reason(err)), Err: err,
		}
	}
	e := &failure.Error{
		Tags: failure.Tags{failure.Connect}, Class: failure.Transient, Verdict: failure.Sick,
		Message: fmt.Sprintf("%s failed while %s: %s", addr, s, reason(err)), Err: err,
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		e.Tags = append(e.Tags, failure.DNS)
	}
	return e
}

// refusedRequest is the failure of a request that is never sent.
func refusedRequest(err error) *failure.Error {
	return &failure.Error{
		Class: failure.Permanent, Verdict: failure.Neutral,
		Message: "the request cannot be sent: " + err.Error(), Err: err,
	}
}

// prohibited reports whether the guard of DenyPrivate refused an address.
func prohibited(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedNetwork) ||
		errors.Is(err, ssrf.ErrInvalidHostPort)
}

// reason is the shortest text that says what went wrong with a connection.
func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "the name does not resolve: " + dns.Err
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "it does not speak TLS"
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return strings.TrimPrefix(cert.Err.Error(), "x509: ")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}
