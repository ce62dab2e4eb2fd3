package egress

import (
	"context"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// Client sends requests. Safe for concurrent use.
type Client struct {
	opts Options
}

// New makes a client. It opens no connection yet.
func New(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Client{opts: o}, nil
}

// Do sends one request and reads its answer. An answer of any status is no
// error (see [Failure]); redirects are not followed. Every error is a
// *failure.Error. Where status and header of an answer did come and its body
// failed, the Response is returned beside the error.
//
// The end of ctx ends the call at once: with failure.Timeout if its deadline
// passed, else with failure.Cancelled.
func (c *Client) Do(ctx context.Context, req *Request) (*Response, error) {
	return nil, &failure.Error{Message: "not connected"}
}

// Close closes the idle connections, and each one in use after its request.
// Requests that come later fail. Calling it again does nothing.
func (c *Client) Close() {}
