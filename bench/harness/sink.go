// Package harness measures relays: callers that cost little, a sink that costs
// little, and what each process used meanwhile.
package harness

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
)

// Sink is an HTTP/1.1 server that takes anything and answers 200 without a
// body. It parses just enough to find the end of a request, so that the
// generator's side weighs little.
type Sink struct {
	listener net.Listener
	// Hang makes requests whose path has this prefix wait for ever.
	hang string

	requests, connections atomic.Int64
}

// StartSink listens on a free port of the loopback.
func StartSink(hang string) (*Sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Sink{listener: l, hang: hang}
	go s.accept()
	return s, nil
}

// Address is host:port.
func (s *Sink) Address() string { return s.listener.Addr().String() }

// Requests returns how many requests were answered, Connections how many
// connections they came on.
func (s *Sink) Requests() int64 { return s.requests.Load() }

// Connections returns how many connections were accepted.
func (s *Sink) Connections() int64 { return s.connections.Load() }

// Close stops listening.
func (s *Sink) Close() error { return s.listener.Close() }

func (s *Sink) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.connections.Add(1)
		go s.serve(c)
	}
}

var ok = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

func (s *Sink) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 16<<10)
	for {
		path, err := readRequest(r)
		if err != nil {
			return
		}
		if s.hang != "" && bytes.HasPrefix(path, []byte(s.hang)) {
			_, _ = io.Copy(io.Discard, c) // until the other side gives up
			return
		}
		s.requests.Add(1)
		if _, err := c.Write(ok); err != nil {
			return
		}
	}
}

// readRequest reads one request with a Content-Length or chunks and returns its
// path.
func readRequest(r *bufio.Reader) (path []byte, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if parts := bytes.SplitN(line, []byte(" "), 3); len(parts) == 3 {
		path = append(path, parts[1]...)
	}
	length, chunked := 0, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return nil, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
	if chunked {
		return path, skipChunks(r)
	}
	_, err = r.Discard(length)
	return path, err
}

func skipChunks(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return fmt.Errorf("chunk size: %w", err)
		}
		if _, err := r.Discard(int(n) + 2); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}
