package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/pawlhq/pawl/internal/problem"
)

const (
	// maxAnswer bounds an answer of Do in bytes. The largest is one dead
	// letter: a body of a few MiB in base64 with its story.
	maxAnswer = 64 << 20
	// maxLine bounds a line of Stream, for the same reason.
	maxLine = 64 << 20
	// maxProblem bounds what is read of an answer that is an error.
	maxProblem = 64 << 10
)

// ErrNotRunning says that nobody listens on the socket.
var ErrNotRunning = errors.New("pawl is not running")

// Client talks to the pawl behind a socket. Safe for concurrent use.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns a client for the socket at path. It connects when it is
// used.
func NewClient(path string) *Client {
	return &Client{path: path, http: &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
			// A command asks a few things one after the other.
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// dialError is an error from before there was a connection.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

func dial(ctx context.Context, path string) (net.Conn, error) {
	addr, release, err := address(path)
	if err != nil {
		return nil, dialError{err}
	}
	defer release()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", addr)
	if err != nil {
		return nil, dialError{withoutPath(err)}
	}
	return conn, nil
}

// Do sends in as JSON (nil sends no body) and decodes the answer into out (nil
// drops it). path starts with a slash and may have a query.
//
// The error is ErrNotRunning when nobody listens, a *Problem when pawl says
// no, and ctx's when that ended.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	answer, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := readBounded(answer.Body, maxAnswer)
	if err != nil {
		return fmt.Errorf("control socket: %s %s: %w", method, path, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("control socket: %s %s: the answer can't be read: %w", method, path, err)
	}
	return nil
}

// Stream sends in as Do does and calls line with each line of the answer, without
// its end, as it comes; empty lines are passed over. The bytes are valid until
// line returns. It ends with the answer, with ctx, or with the first error of
// line, which it returns as it is. Errors are those of Do.
func (c *Client) Stream(ctx context.Context, method, path string, in any, line func([]byte) error) error {
	answer, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := line(lines.Bytes()); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("control socket: %s %s: a line is longer than %d bytes", method, path, maxLine)
	default:
		return fmt.Errorf("control socket: %s %s: the answer broke off, pawl may have stopped: %w", method, path, err)
	}
}

// send makes the request and returns an answer that is a success and of this
// version. The caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("control socket: %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://pawl"+path, body)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	r.Header.Set(versionHeader, Version)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if err := refused(answer); err != nil {
		answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// explain says in words why no answer came.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the made-up URL
	}
	if _, ok := errors.AsType[dialError](err); !ok {
		// Also what a listener does with a caller whom it does not let in.
		return fmt.Errorf("control socket %s: pawl broke off the connection; it is stopping, or another user runs it: %w", c.path, err)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nobody answers on %s", ErrNotRunning, c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("control socket %s: permission denied; run the command as the user who runs pawl", c.path)
	}
	return fmt.Errorf("control socket %s: %w", c.path, err)
}

// refused returns the error that an answer stands for, or nil.
func refused(answer *http.Response) error {
	if v := answer.Header.Get(versionHeader); v != Version {
		if v == "" {
			return errors.New("control socket: what answers is not pawl")
		}
		return &Problem{
			Type: problem.ControlVersion.URI(), Status: http.StatusBadRequest,
			Detail: mismatch(printable(answer.Header.Get(serverHeader)), printable(v), Version),
		}
	}
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return nil
	}
	p := &Problem{}
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err == nil && kind == problem.MediaType {
		if body, err := readBounded(answer.Body, maxProblem); err != nil || json.Unmarshal(body, p) != nil {
			p = &Problem{}
		}
	}
	p.Status = answer.StatusCode
	if p.Detail == "" && p.Title == "" {
		p.Title = fmt.Sprintf("pawl answered HTTP %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return p
}

// readBounded reads r to its end and fails when that is past limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the answer is longer than %d bytes", limit)
	}
	return body, nil
}

// printable keeps the visible ASCII of a header's value, and 32 bytes of it.
func printable(v string) string {
	var kept []byte
	for i := 0; i < len(v) && len(kept) < 32; i++ {
		if v[i] > ' ' && v[i] < 0x7f {
			kept = append(kept, v[i])
		}
	}
	return string(kept)
}
