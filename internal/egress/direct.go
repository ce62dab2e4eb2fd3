package egress

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// copiedBody is the size up to which a body is copied behind the head and
	// written by the caller's goroutine: a kernel takes so much even for a
	// server that does not read. A longer one is written by a goroutine of its
	// own, so that an answer that comes before its end is seen.
	copiedBody = 16 << 10
	// keptBuffer is the size up to which buffers go back to their pool.
	keptBuffer = 32 << 10
	// writeGrace is how long the writer of a body may take to return after the
	// answer has come. The bytes are gone by then, or the server did not want
	// them.
	writeGrace = 50 * time.Millisecond
	// answerGrace is how long an answer is waited for that the server sent
	// before it stopped taking the request.
	answerGrace = time.Second
	// ageSteps spreads the ages at which connections opened together die over
	// the last tenth of MaxAge, so that they are not all opened anew at once.
	ageSteps = 16
)

// direct is our own HTTP/1.1 path.
type direct struct {
	opts   Options
	dialer dialer
	pool   *pool
	opened atomic.Uint64
}

func newDirect(o Options) *direct {
	return &direct{opts: o, dialer: newDialer(o), pool: newPool(o.MaxIdle, o.IdleTimeout)}
}

func (d *direct) close() { d.pool.close() }

func (d *direct) do(ctx context.Context, req *Request) (*Response, error) {
	to := endpoint{addr: req.Target.addr, secure: req.Target.secure}
	c, err := d.pool.take(to, time.Now())
	if err != nil {
		return nil, closedFailure()
	}
	reused := c != nil
	if !reused {
		if c, err = d.open(ctx, to); err != nil {
			return nil, classify(ctx, to.addr, connecting, err)
		}
	}
	resp, at, err := d.exchange(ctx, c, req)
	resent := false
	if err != nil && reused && at < receiving && ctx.Err() == nil {
		// The server closed it while it was idle; see the package comment.
		d.opts.OnResend()
		resent, reused = true, false
		if c, err = d.open(ctx, to); err != nil {
			return nil, classify(ctx, to.addr, connecting, err)
		}
		resp, at, err = d.exchange(ctx, c, req)
	}
	if resp != nil {
		resp.Reused, resp.Resent = reused, resent
	}
	if err != nil {
		return resp, classify(ctx, to.addr, at, err)
	}
	return resp, nil
}

func (d *direct) open(ctx context.Context, to endpoint) (*conn, error) {
	c, err := d.dialer.open(ctx, to)
	if err != nil {
		return nil, err
	}
	younger := d.opts.MaxAge / 10 / ageSteps * time.Duration(d.opened.Add(1)%ageSteps)
	c.dies = time.Now().Add(d.opts.MaxAge - younger)
	return c, nil
}

// exchange sends req over c and reads the answer. It gives c back to the pool
// or closes it, and says how far it came.
func (d *direct) exchange(ctx context.Context, c *conn, req *Request) (*Response, step, error) {
	x := exchanges.Get().(*exchange)
	x.in.src, x.opts = c, &d.opts
	// Closing ends every read and write at once, and costs nothing where ctx
	// does not end. ctx has its own timer, so the socket needs no deadline.
	stop := context.AfterFunc(ctx, c.abort)
	resp, at, err := x.run(c, req)
	if stop() && err == nil && x.reusable() {
		d.pool.put(c, time.Now())
	} else {
		c.abort()
	}
	x.release()
	return resp, at, err
}

// exchange is one request and its answer on one connection, with the buffers
// for both.
type exchange struct {
	in      reader
	out     []byte
	opts    *Options
	persist bool // the answer ended where it should, on a connection to be kept
}

var exchanges = sync.Pool{New: func() any { return &exchange{in: reader{buf: make([]byte, startSize)}} }}

func (x *exchange) release() {
	if len(x.in.buf) > keptBuffer || cap(x.out) > keptBuffer {
		return
	}
	*x = exchange{in: reader{buf: x.in.buf}, out: x.out[:0]}
	exchanges.Put(x)
}

// reusable reports whether the connection is as it was before the request.
func (x *exchange) reusable() bool { return x.persist && x.in.r == x.in.w && x.in.err == nil }

func (x *exchange) run(c *conn, req *Request) (*Response, step, error) {
	x.out = req.appendHead(x.out[:0])
	if len(req.Body) > copiedBody {
		return x.runLarge(c, req)
	}
	x.out = append(x.out, req.Body...)
	_, sent := c.Write(x.out)
	if sent != nil {
		_ = c.SetReadDeadline(time.Now().Add(answerGrace))
	}
	resp, err := x.answer(req)
	return x.outcome(resp, sent, err)
}

// runLarge reads the answer while the body is still being written.
func (x *exchange) runLarge(c *conn, req *Request) (*Response, step, error) {
	written := make(chan error, 1)
	go func() {
		parts := net.Buffers{x.out, req.Body}
		_, err := parts.WriteTo(c.Conn)
		if err != nil {
			_ = c.SetReadDeadline(time.Now().Add(answerGrace))
		}
		written <- err
	}()
	resp, err := x.answer(req)
	var sent error
	select {
	case sent = <-written:
	default:
		if err == nil && x.persist {
			sent = waitBriefly(written, c)
		} else {
			x.persist = false
			c.abort()
			<-written //nolint:errcheck // it failed with the connection
		}
	}
	return x.outcome(resp, sent, err)
}

// waitBriefly waits for the writer, and closes the connection under it when it
// takes too long.
func waitBriefly(written <-chan error, c *conn) error {
	timer := time.NewTimer(writeGrace)
	defer timer.Stop()
	select {
	case err := <-written:
		return err
	case <-timer.C:
		c.abort()
		<-written //nolint:errcheck // it failed with the connection
		return net.ErrClosed
	}
}

// outcome joins how writing and reading ended. An answer counts even where the
// server did not take the whole request; without one the first error does.
func (x *exchange) outcome(resp *Response, sent, err error) (*Response, step, error) {
	if sent != nil {
		x.persist = false
	}
	switch {
	case err == nil, x.in.seen:
		return resp, receiving, err
	case sent != nil:
		return nil, sending, sent
	}
	return nil, waiting, err
}

// answer reads the answer to req. The Response is not nil once its head came.
func (x *exchange) answer(req *Request) (*Response, error) {
	h, err := x.finalHead()
	if err != nil {
		return nil, err
	}
	resp := &Response{Status: h.status, fields: h.fields}
	if bodiless(req.Target.method, h.status) {
		x.persist = h.persist
		return resp, nil
	}
	s := sink{keep: req.KeepBody, left: x.opts.MaxBodyBytes}
	err = x.in.readBody(&h, &s, x.opts.MaxHeaderBytes)
	resp.Body, resp.Truncated = s.body, s.cut
	x.persist = h.persist && !s.cut
	return resp, err
}

// finalHead reads up to the head of the answer proper, past 1xx answers.
func (x *exchange) finalHead() (head, error) {
	left := x.opts.MaxHeaderBytes
	for range maxInformational + 1 {
		h, err := x.in.readHead(left)
		switch {
		case err != nil, h.status >= 200:
			return h, err
		case h.status == 101:
			return head{}, errSwitches
		}
		left -= h.size
	}
	return head{}, malformed("it has too many 1xx answers")
}
