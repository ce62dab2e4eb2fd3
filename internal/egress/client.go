package egress

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// Client sends requests. Safe for concurrent use.
type Client struct {
	path path
}

// path is one way to send requests: direct or standard.
type path interface {
	// do sends a request that has been checked.
	do(ctx context.Context, req *Request) (*Response, error)
	close()
}

// errClosed is a client that was closed.
var errClosed = errors.New("the client is closed")

// New makes a client. It opens no connection yet.
func New(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Proxy != nil || o.Protocol == HTTP2 {
		return &Client{path: newStandard(o)}, nil
	}
	return &Client{path: newDirect(o)}, nil
}

// Do sends one request and reads its answer. An answer of any status is no
// error (see [Failure]); redirects are not followed. Every error is a
// *failure.Error. Where status and header of an answer did come and its body
// failed, the Response is returned beside the error.
//
// The end of ctx ends the call at once: with failure.Timeout if its deadline
// passed, else with failure.Cancelled. Nothing else bounds the time of a call,
// so ctx should have a deadline.
func (c *Client) Do(ctx context.Context, req *Request) (*Response, error) {
	if err := req.check(); err != nil {
		return nil, refusedRequest(err)
	}
	if ctx.Err() != nil {
		return nil, classify(ctx, req.Target.addr, connecting, ctx.Err())
	}
	return c.path.do(ctx, req)
}

// Close closes the idle connections, and each one in use after its request.
// Requests that come later fail. Calling it again does nothing.
func (c *Client) Close() { c.path.close() }

// closedFailure is the failure of a request to a closed client.
func closedFailure() *failure.Error {
	return &failure.Error{
		Tags: failure.Tags{failure.Cancelled}, Class: failure.Transient, Verdict: failure.Neutral,
		Message: "the request was not sent: " + errClosed.Error(), Err: errClosed,
	}
}
