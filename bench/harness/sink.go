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
	"strings"
	"sync/atomic"
)

// Sink is an HTTP/1.1 server that takes anything and answers 200 without a
// body. It parses just enough to find the end of a request, so that the
// generator's side weighs little.
type Sink struct {
	listener net.Listener
	// Hang makes requests whose path has this prefix wait for ever.
	hang string

	requests, connections, hung atomic.Int64
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

// Requests returns how many requests were answered.
func (s *Sink) Requests() int64 { return s.requests.Load() }

// Connections returns how many connections were accepted.
func (s *Sink) Connections() int64 { return s.connections.Load() }

// Hung returns how many requests were left without an answer.
func (s *Sink) Hung() int64 { return s.hung.Load() }

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
		q, err := readRequest(r, 0)
		if err != nil {
			return
		}
		if s.hang != "" && strings.HasPrefix(q.path, s.hang) {
			s.hung.Add(1)
			_, _ = io.Copy(io.Discard, c) // until the other side gives up
			return
		}
		s.requests.Add(1)
		if _, err := c.Write(ok); err != nil {
			return
		}
	}
}

// request is what a sink needs to know of one.
type request struct {
	method, path string
	id           string // what its body begins with, where that was asked for
}

// readRequest reads one request with a Content-Length or chunks. id is how many
// bytes of the body to keep, at most.
func readRequest(r *bufio.Reader, id int) (q request, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return q, err
	}
	if parts := bytes.SplitN(line, []byte(" "), 3); len(parts) == 3 {
		q.method, q.path = string(parts[0]), string(parts[1])
	}
	length, chunked := 0, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return q, err
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
				return q, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
	if chunked {
		q.id, err = readChunks(r, id)
		return q, err
	}
	q.id, err = readPart(r, length, id)
	return q, err
}

// readPart reads length bytes and returns the first id of them as text.
func readPart(r *bufio.Reader, length, id int) (string, error) {
	head, err := r.Peek(min(length, id))
	if err != nil {
		return "", err
	}
	text := string(bytes.TrimRight(head, " "))
	_, err = r.Discard(length)
	return text, err
}

// readChunks reads a body in chunks and returns the begin of the first.
func readChunks(r *bufio.Reader, id int) (string, error) {
	text := ""
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return "", fmt.Errorf("chunk size: %w", err)
		}
		part, err := readPart(r, int(n), id)
		if err != nil {
			return "", err
		}
		if first {
			text = part
		}
		if _, err := r.Discard(2); err != nil {
			return "", err
		}
		if n == 0 {
			return text, nil
		}
	}
}

func skipChunks(r *bufio.Reader) error {
	_, err := readChunks(r, 0)
	return err
}
