package egress

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

const (
	// maxChunkLine bounds a chunk's size line with its extensions, which no
	// server of note sends.
	maxChunkLine = 256
	// maxChunkNoise bounds all that a chunked body holds beside its data, over
	// what plain sizes take, so that a body of extensions ends.
	maxChunkNoise = 16 << 10
)

// sink takes a body.
type sink struct {
	body []byte
	keep bool
	left int64 // how much more is taken
	cut  bool  // there was more than that
}

// write takes b and reports whether all of it was taken.
func (s *sink) write(b []byte) bool {
	if int64(len(b)) > s.left {
		b, s.cut = b[:s.left], true
	}
	s.left -= int64(len(b))
	if s.keep {
		s.body = append(s.body, b...)
	}
	return !s.cut
}

// bodiless reports whether an answer has no body whatever its header says.
func bodiless(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
}

// readBody reads the body of h into s, until it ends or s is full.
func (r *reader) readBody(h *head, s *sink, maxTrailer int) error {
	switch {
	case h.chunked:
		return r.readChunked(s, maxTrailer)
	case h.length >= 0:
		if s.keep {
			s.body = make([]byte, 0, min(h.length, s.left, startSize))
		} else if h.length > s.left {
			// Nobody wants the body, and the connection is lost anyway.
			s.cut = true
			return nil
		}
		_, err := r.readN(h.length, s)
		return err
	}
	h.persist = false
	return r.readAll(s)
}

// readN reads n bytes into s and reports whether s took them all.
func (r *reader) readN(n int64, s *sink) (bool, error) {
	for n > 0 {
		if r.r == r.w {
			if err := r.fill(startSize); err != nil {
				return false, r.ended(err)
			}
		}
		b := r.buf[r.r:r.w]
		b = b[:min(int64(len(b)), n)]
		if !s.write(b) {
			return false, nil
		}
		r.r += len(b)
		n -= int64(len(b))
	}
	return true, nil
}

// readAll reads until the server closes the connection.
func (r *reader) readAll(s *sink) error {
	for {
		if !s.write(r.buf[r.r:r.w]) {
			return nil
		}
		r.r = r.w
		if err := r.fill(startSize); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return r.ended(err)
		}
	}
}

// readChunked reads a chunked body and its trailers, which are checked and
// dropped.
func (r *reader) readChunked(s *sink, maxTrailer int) error {
	const badLine = malformed("a chunk has a broken size")
	for noise := 0; ; {
		line, err := r.readLine(maxChunkLine, badLine)
		if err != nil {
			return err
		}
		size, extra, ok := parseChunkSize(line)
		if !ok {
			return badLine
		}
		if noise += extra; noise > maxChunkNoise {
			return malformed("its chunks hold too much beside data")
		}
		if size == 0 {
			return r.readTrailers(maxTrailer)
		}
		if took, err := r.readN(size, s); err != nil || !took {
			return err
		}
		line, err = r.readLine(maxChunkLine, malformed("a chunk is longer than its size"))
		if err != nil {
			return err
		}
		if len(line) > 0 {
			return malformed("a chunk is longer than its size")
		}
	}
}

// readTrailers reads the fields after the last chunk, at most limit bytes.
func (r *reader) readTrailers(limit int) error {
	for left := limit; ; {
		line, err := r.readLine(left, malformed("its trailers are too large or have a broken line end"))
		if err != nil || len(line) == 0 {
			return err
		}
		if _, _, err := parseField(string(line)); err != nil {
			return err
		}
		left -= len(line) + len("\r\n")
	}
}

// readLine reads a line that ends with CRLF and returns it without. It fails
// with bad when the line is longer than limit or ends otherwise. The line is
// valid until the next read.
func (r *reader) readLine(limit int, bad malformed) ([]byte, error) {
	for {
		unread := r.buf[r.r:r.w]
		if i := bytes.IndexByte(unread, '\n'); i >= 0 {
			if i+1 > limit || i == 0 || unread[i-1] != '\r' {
				return nil, bad
			}
			r.r += i + 1
			return unread[:i-1], nil
		}
		if len(unread) >= limit {
			return nil, bad
		}
		if err := r.fill(limit); err != nil {
			if errors.Is(err, io.ErrShortBuffer) {
				return nil, bad
			}
			return nil, r.ended(err)
		}
	}
}

// parseChunkSize reads the size of a chunk and returns how many bytes of the
// line were not needed to say it.
func parseChunkSize(line []byte) (size int64, extra int, ok bool) {
	digits, _, _ := bytes.Cut(bytes.TrimRight(line, " \t"), []byte(";"))
	if len(digits) == 0 || len(digits) > 15 { // 15 digits fit an int64
		return 0, 0, false
	}
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, 0, false
		}
		size = size<<4 | int64(c)
	}
	return size, len(line) - len(digits), true
}
