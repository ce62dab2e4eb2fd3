package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// pingAfter is how long an HTTP/2 connection with requests on it may be
	// silent before it is asked whether it lives, and pingTimeout how long it
	// may take to say so: all requests of a host hang on one connection.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
)

// standard is the path through net/http's Transport.
type standard struct {
	opts   Options
	dialer dialer

	mu      sync.Mutex
	current *http.Transport
	born    time.Time
	closed  bool
}

func newStandard(o Options) *standard {
	return &standard{opts: o, dialer: newDialer(o)}
}

func (s *standard) make() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(s.opts.Protocol == HTTP2)
	t := &http.Transport{
		DialContext:            s.dialer.dial,
		TLSClientConfig:        s.dialer.config.Clone(),
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    s.opts.MaxIdle,
		IdleConnTimeout:        s.opts.IdleTimeout,
		MaxResponseHeaderBytes: int64(s.opts.MaxHeaderBytes),
	}
	if s.opts.Proxy != nil {
		t.Proxy = http.ProxyURL(s.opts.Proxy)
	}
	return t
}

// transport returns the Transport in use. It is replaced at MaxAge, since a
// Transport keeps a busy connection for ever: what is idle on the old one is
// closed, what is in use there ends with its request and IdleTimeout.
func (s *standard) transport(now time.Time) (*http.Transport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.current == nil || now.Sub(s.born) >= s.opts.MaxAge {
		s.renew(now)
	}
	return s.current, nil
}

// without returns a Transport that has no connection of old.
func (s *standard) without(old *http.Transport, now time.Time) (*http.Transport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.current == old {
		s.renew(now)
	}
	return s.current, nil
}

// renew replaces the Transport. s.mu is held.
func (s *standard) renew(now time.Time) {
	if s.current != nil {
		s.current.CloseIdleConnections()
	}
	s.current, s.born = s.make(), now
}

func (s *standard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.current != nil {
		s.current.CloseIdleConnections()
	}
}

func (s *standard) do(ctx context.Context, req *Request) (*Response, error) {
	t, err := s.transport(time.Now())
	if err != nil {
		return nil, closedFailure()
	}
	resp, got, err := s.send(ctx, t, req)
	resent := false
	if err != nil && got.reused.Load() && got.at() < receiving && ctx.Err() == nil {
		s.opts.OnResend()
		resent = true
		if t, err = s.without(t, time.Now()); err != nil {
			return nil, closedFailure()
		}
		resp, got, err = s.send(ctx, t, req)
	}
	if resp != nil {
		resp.Reused, resp.Resent = got.reused.Load(), resent || got.connections.Load() > 1
	}
	if err != nil {
		return resp, classify(ctx, req.Target.addr, got.at(), got.plain(err))
	}
	return resp, nil
}

// progress is how far a request has come. The Transport reports it from
// goroutines of its own.
type progress struct {
	step        atomic.Uint32
	reused      atomic.Bool
	connections atomic.Int32
}

func (p *progress) at() step { return step(p.step.Load()) }

// reach never goes back: an early answer comes before the request is sent.
func (p *progress) reach(s step) {
	for {
		old := p.step.Load()
		if old >= uint32(s) || p.step.CompareAndSwap(old, uint32(s)) {
			return
		}
	}
}

// trace makes the hooks that keep p. The Transport sends a request without a
// body again by itself when its connection was dead; onResend hears of that.
func (p *progress) trace(onResend func()) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			p.reused.Store(info.Reused)
			p.reach(sending)
			if p.connections.Add(1) > 1 {
				onResend()
			}
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { p.reach(waiting) },
		GotFirstResponseByte: func() { p.reach(receiving) },
	}
}

// plain returns the cause of an error of the Transport, whose own texts may
// quote the answer.
func (p *progress) plain(err error) error {
	if p.at() == connecting {
		return err // it speaks of addresses and certificates only
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	if p.at() < receiving {
		return errNoAnswer
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutShort
	}
	return malformed("it is not the HTTP that was agreed on")
}

func (s *standard) send(ctx context.Context, t *http.Transport, req *Request) (*Response, *progress, error) {
	got := new(progress)
	body := &detachable{rest: req.Body}
	defer body.detach()
	out := httpRequest(req, body).WithContext(httptrace.WithClientTrace(ctx, got.trace(s.opts.OnResend)))
	in, err := t.RoundTrip(out)
	if err != nil {
		return nil, got, err
	}
	defer func() { _ = in.Body.Close() }()
	got.reach(receiving)
	if in.StatusCode == http.StatusSwitchingProtocols {
		return nil, got, errSwitches
	}
	resp := &Response{Status: in.StatusCode, header: in.Header}
	sk := sink{keep: req.KeepBody, left: s.opts.MaxBodyBytes}
	err = sk.readFrom(in.Body)
	resp.Body, resp.Truncated = sk.body, sk.cut
	return resp, got, err
}

// readFrom reads r until its end or until s is full.
func (s *sink) readFrom(r io.Reader) error {
	buf := make([]byte, startSize)
	for {
		n, err := r.Read(buf)
		if !s.write(buf[:n]) || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// httpRequest renders req for a Transport. There is no GetBody, so that it
// never sends a body twice.
func httpRequest(req *Request, body io.ReadCloser) *http.Request {
	t := req.Target
	h := make(http.Header, len(t.fixed)+len(req.Header))
	for _, fields := range [][]Field{t.fixed, req.Header} {
		for _, f := range fields {
			name := textproto.CanonicalMIMEHeaderKey(f.Name)
			h[name] = append(h[name], f.Value)
		}
	}
	out := &http.Request{
		Method: t.method, URL: t.url, Host: t.host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(req.Body)),
	}
	if len(req.Body) > 0 {
		out.Body = body
	}
	return out
}

// detachable is a body that a Transport may go on reading after its answer
// came, and the caller of Do may change then.
type detachable struct {
	mu   sync.Mutex
	rest []byte
	gone bool
}

func (d *detachable) Read(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.gone:
		return 0, io.ErrClosedPipe
	case len(d.rest) == 0:
		return 0, io.EOF
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *detachable) Close() error { return nil }

func (d *detachable) detach() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rest, d.gone = nil, true
}
