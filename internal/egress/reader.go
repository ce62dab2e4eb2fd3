package egress

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	// startSize of the read buffer holds the head of nearly every answer.
	startSize = 4 << 10
	// maxInformational bounds the 1xx answers before the real one. Servers send
	// one or two (102, 103); net/http stops at five.
	maxInformational = 5
)

// reader reads answers from a connection.
type reader struct {
	src io.Reader
	// buf[r:w] has been read from src and not used yet.
	buf  []byte
	r, w int
	// seen is set by the first byte of an answer.
	seen bool
	// err is what src said last. It outlives the answer: a connection whose
	// end was seen together with the last bytes is not used again.
	err error
}

// fill reads more, growing the buffer up to limit unused bytes. At the limit
// it reads nothing and returns io.ErrShortBuffer.
func (r *reader) fill(limit int) error {
	if r.err != nil {
		return r.err
	}
	if r.r == r.w {
		r.r, r.w = 0, 0
	}
	if r.w == len(r.buf) {
		switch {
		case r.r > 0:
			r.w = copy(r.buf, r.buf[r.r:r.w])
			r.r = 0
		case len(r.buf) >= limit:
			return io.ErrShortBuffer
		default:
			grown := make([]byte, min(max(2*len(r.buf), startSize), max(limit, startSize)))
			r.w = copy(grown, r.buf[:r.w])
			r.buf = grown
		}
	}
	for range 100 { // as many empty reads as bufio allows a broken Reader
		n, err := r.src.Read(r.buf[r.w:])
		r.w += n
		r.err = err
		if n > 0 {
			r.seen = true
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// ended turns an end of the stream inside an answer into what it means there.
func (r *reader) ended(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if !r.seen {
		return errNoAnswer
	}
	return errCutShort
}

// head is the status line and the fields of an answer.
type head struct {
	status int
	fields string // header lines, checked
	size   int    // bytes on the wire
	// length is that of Content-Length, -1 without one.
	length  int64
	chunked bool
	// persist says that the server keeps the connection open.
	persist bool
}

// readHead reads one head of at most limit bytes, its end included.
func (r *reader) readHead(limit int) (head, error) {
	end, from := 0, 0
	for {
		unread := r.buf[r.r:r.w]
		if !likelyHTTP(unread) {
			return head{}, malformed("it does not begin with an HTTP status line")
		}
		if end, from = headEnd(unread, from); end > 0 {
			break
		}
		if len(unread) >= limit {
			return head{}, tooLarge(limit)
		}
		if err := r.fill(limit); err != nil {
			if errors.Is(err, io.ErrShortBuffer) {
				return head{}, tooLarge(limit)
			}
			return head{}, r.ended(err)
		}
	}
	if end > limit {
		return head{}, tooLarge(limit)
	}
	text := string(r.buf[r.r : r.r+end])
	r.r += end
	return parseHead(text)
}

func tooLarge(limit int) error {
	return malformed("its header is larger than " + strconv.Itoa(limit) + " bytes")
}

// likelyHTTP looks at the first bytes, so that a server of another protocol is
// found out before it has sent a whole head.
func likelyHTTP(b []byte) bool {
	const start = "HTTP/1."
	n := min(len(b), len(start))
	return string(b[:n]) == start[:n]
}

// headEnd returns the length of the head in b up to and including its empty
// line, or 0 and where to go on searching when more has been read.
func headEnd(b []byte, from int) (end, next int) {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return 0, from
		}
		line := from + i + 1
		switch rest := b[line:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return line + 1, 0
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return line + 2, 0
		case len(rest) == 0, len(rest) == 1 && rest[0] == '\r':
			return 0, from
		}
		from = line
	}
}

// parseHead reads a head that ends with an empty line. A line may end with LF
// alone (RFC 9112 §2.2).
func parseHead(text string) (head, error) {
	h := head{length: -1, size: len(text)}
	line, rest, _ := strings.Cut(text, "\n")
	minor, err := h.parseStatusLine(strings.TrimSuffix(line, "\r"))
	if err != nil {
		return head{}, err
	}
	h.fields = strings.TrimSuffix(strings.TrimSuffix(rest, "\n"), "\r")
	var conn connection
	for rest = h.fields; rest != ""; {
		line, rest, _ = strings.Cut(rest, "\n")
		name, value, err := parseField(line)
		if err != nil {
			return head{}, err
		}
		switch len(name) {
		case len("Connection"):
			if strings.EqualFold(name, "Connection") {
				conn.read(value)
			}
		case len("Content-Length"):
			if strings.EqualFold(name, "Content-Length") {
				if h.length, err = parseLength(value, h.length); err != nil {
					return head{}, err
				}
			}
		case len("Transfer-Encoding"):
			if strings.EqualFold(name, "Transfer-Encoding") {
				if minor == 0 || h.chunked || !strings.EqualFold(value, "chunked") {
					return head{}, malformed("its Transfer-Encoding is not just chunked")
				}
				h.chunked = true
			}
		}
	}
	h.persist = !conn.close && (minor == 1 || conn.keepAlive)
	if h.chunked && h.length >= 0 {
		// RFC 9112 §6.3: the chunks win, and nothing after them is believed.
		h.length, h.persist = -1, false
	}
	return h, nil
}

func (h *head) parseStatusLine(line string) (minor int, err error) {
	const bad = malformed("its status line is not HTTP/1.0 or HTTP/1.1 with three digits")
	rest, ok := strings.CutPrefix(line, "HTTP/1.")
	// "1 200" and then nothing, or a space and the reason phrase.
	if !ok || len(rest) < 5 || rest[0] > '1' || rest[0] < '0' || rest[1] != ' ' {
		return 0, bad
	}
	code, reason, spaced := strings.Cut(rest[2:], " ")
	if len(code) != 3 || (spaced && !httpguts.ValidHeaderFieldValue(reason)) {
		return 0, bad
	}
	for i := range len(code) {
		if code[i] < '0' || code[i] > '9' {
			return 0, bad
		}
		h.status = 10*h.status + int(code[i]-'0')
	}
	if h.status < 100 {
		return 0, bad
	}
	return int(rest[0] - '0'), nil
}

// parseField reads one header or trailer line without its LF.
func parseField(line string) (name, value string, err error) {
	line = strings.TrimSuffix(line, "\r")
	name, value, ok := strings.Cut(line, ":")
	// A line that begins with a space, or has one before the colon, is refused
	// here too: neither is a token (RFC 9112 §5.1, §5.2).
	if !ok || !httpguts.ValidHeaderFieldName(name) {
		return "", "", malformed("it has a header line that is not a name, a colon and a value")
	}
	value = strings.Trim(value, " \t")
	if !httpguts.ValidHeaderFieldValue(value) {
		return "", "", malformed("a header value holds a control character")
	}
	return name, value, nil
}

// connection is what the Connection fields of one head say together.
type connection struct{ close, keepAlive bool }

func (c *connection) read(value string) {
	for value != "" {
		var token string
		token, value, _ = strings.Cut(value, ",")
		switch token = strings.Trim(token, " \t"); {
		case strings.EqualFold(token, "close"):
			c.close = true
		case strings.EqualFold(token, "keep-alive"):
			c.keepAlive = true
		}
	}
}

// parseLength reads a Content-Length; one that came before must agree.
func parseLength(value string, before int64) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		return 0, malformed("its Content-Length is not a number")
	}
	if before >= 0 && before != int64(n) {
		return 0, malformed("it has two Content-Lengths that contradict each other")
	}
	return int64(n), nil
}
