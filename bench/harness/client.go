package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Client is one caller on a connection that it keeps. What it reads of an answer
// is its status and its body, so that it weighs little. Not for use by several
// goroutines at once.
type Client struct {
	address, key string
	conn         net.Conn
	r            *bufio.Reader
	out, body    []byte
}

// NewClient makes a caller; the key is what Post shows as API key.
func NewClient(address, key string) *Client { return &Client{address: address, key: key} }

// Close gives the connection back.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// errStatus is an answer that is not 2xx.
var errStatus = errors.New("not a 2xx answer")

// Post sends the JSON and returns the body of a 2xx answer, which is good until
// the next call. It dials anew after an error.
func (c *Client) Post(path string, body []byte, timeout time.Duration) ([]byte, error) {
	return c.call("POST", path, body, timeout)
}

func (c *Client) call(method, path string, body []byte, timeout time.Duration) ([]byte, error) {
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", method, path, c.key, len(body))
	c.out = append(c.out, body...)
	status, answer, err := c.Send(context.Background(), c.out, timeout)
	switch {
	case err != nil:
		return nil, err
	case status/100 != 2:
		return nil, fmt.Errorf("%s %s: %w: %d %s", method, path, errStatus, status, answer)
	}
	return answer, nil
}

// Send sends a whole request, whose memory it keeps for the next one, and returns
// the status and body of its answer, the body good until the next call. It dials
// where it has no connection, and gives the answer up when ctx ends.
func (c *Client) Send(ctx context.Context, request []byte, timeout time.Duration) (status int, body []byte, err error) {
	c.out = request
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.address, timeout)
		if err != nil {
			return 0, nil, err
		}
		c.conn, c.r = conn, bufio.NewReaderSize(conn, 16<<10)
	}
	if err := c.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, nil, err
	}
	if ctx.Done() != nil {
		conn := c.conn
		defer context.AfterFunc(ctx, func() { conn.Close() })()
	}
	status, closes, err := c.exchange()
	if err != nil || closes {
		c.Close()
	}
	return status, c.body, err
}

func (c *Client) exchange() (status int, closes bool, err error) {
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, false, err
	}
	h, err := readHead(c.r)
	if err != nil {
		return 0, false, err
	}
	c.body = c.body[:0]
	if h.chunked {
		return h.status, h.closes, c.readChunks()
	}
	return h.status, h.closes, c.take(h.length)
}

// take appends n bytes to the body.
func (c *Client) take(n int) error {
	old := len(c.body)
	if cap(c.body) < old+n {
		c.body = append(make([]byte, 0, 2*(old+n)), c.body...)
	}
	c.body = c.body[:old+n]
	_, err := io.ReadFull(c.r, c.body[old:])
	return err
}

func (c *Client) readChunks() error {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return fmt.Errorf("chunk size: %w", err)
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if _, err := c.r.Discard(2); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}
