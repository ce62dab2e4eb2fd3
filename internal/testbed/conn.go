package testbed

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how much one direction holds before a write waits for the reader:
// the order of a small TCP buffer, so that a peer that does not read is felt.
const window = 64 << 10

// Conn is one end of an in-memory connection. Reads and writes block, obey
// deadlines, and fail with the errors of TCP. Safe for concurrent use.
type Conn struct {
	in, out       *stream
	local, remote net.Addr
}

// Pipe returns the two ends of a connection.
func Pipe() (*Conn, *Conn) { return pipe(textAddr("192.0.2.1:10000"), textAddr("192.0.2.2:80")) }

func pipe(near, far net.Addr) (*Conn, *Conn) {
	there, back := newStream(), newStream()
	return &Conn{in: back, out: there, local: near, remote: far},
		&Conn{in: there, out: back, local: far, remote: near}
}

// Read returns what the peer wrote, io.EOF after its close, ECONNRESET after
// its reset.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.wrap("read", err)
}

// Write hands b to the peer, waiting while its window is full. A peer that
// closed makes it EPIPE.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return n, c.wrap("write", err)
}

func (c *Conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions. The peer still reads what was written.
func (c *Conn) Close() error {
	c.in.closeReader()
	c.out.closeWriter()
	return nil
}

// CloseWrite ends the outgoing direction only.
func (c *Conn) CloseWrite() error {
	c.out.closeWriter()
	return nil
}

// Reset breaks the connection: both sides get ECONNRESET and what was on its
// way is gone.
func (c *Conn) Reset() {
	c.in.reset()
	c.out.reset()
}

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline makes reads fail from t on; zero is never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

// SetWriteDeadline makes writes fail from t on; zero is never.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// stream is one direction. cond wakes whoever waits for data, room, a close
// or a deadline.
type stream struct {
	mu           sync.Mutex
	cond         *sync.Cond
	buf          []byte
	readerClosed bool
	writerClosed bool
	broken       bool
	readBy       deadline
	writeBy      deadline
}

// deadline is a moment from which an operation fails. set counts the calls
// that set it, so that a timer that lost the race to be stopped does nothing.
type deadline struct {
	timer  *time.Timer
	set    int
	passed bool
}

func newStream() *stream {
	s := &stream{}
	s.cond = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.readerClosed:
			return 0, net.ErrClosed
		case s.broken:
			return 0, syscall.ECONNRESET
		case s.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(s.buf) > 0:
			n := copy(b, s.buf)
			s.buf = append(s.buf[:0], s.buf[n:]...)
			s.cond.Broadcast()
			return n, nil
		case s.writerClosed:
			return 0, io.EOF
		}
		s.cond.Wait()
	}
}

func (s *stream) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := 0
	for {
		switch {
		case s.writerClosed:
			return written, net.ErrClosed
		case s.broken:
			return written, syscall.ECONNRESET
		case s.readerClosed:
			return written, syscall.EPIPE
		case s.writeBy.passed:
			return written, os.ErrDeadlineExceeded
		}
		if room := min(window-len(s.buf), len(b)-written); room > 0 {
			s.buf = append(s.buf, b[written:written+room]...)
			written += room
			s.cond.Broadcast()
		}
		if written == len(b) {
			return written, nil
		}
		s.cond.Wait()
	}
}

func (s *stream) closeReader() {
	s.mu.Lock()
	s.readerClosed = true
	s.buf = nil
	s.readBy.stop()
	s.mu.Unlock()
	s.cond.Broadcast()
}

func (s *stream) closeWriter() {
	s.mu.Lock()
	s.writerClosed = true
	s.writeBy.stop()
	s.mu.Unlock()
	s.cond.Broadcast()
}

func (s *stream) reset() {
	s.mu.Lock()
	s.broken = true
	s.buf = nil
	s.readBy.stop()
	s.writeBy.stop()
	s.mu.Unlock()
	s.cond.Broadcast()
}

func (s *stream) setDeadline(d *deadline, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	d.passed = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.passed = true
		s.cond.Broadcast()
		return
	}
	set := d.set
	d.timer = time.AfterFunc(left, func() {
		s.mu.Lock()
		if d.set == set {
			d.passed = true
		}
		s.mu.Unlock()
		s.cond.Broadcast()
	})
}

// stop makes a pending timer harmless. The caller holds the stream's lock.
func (d *deadline) stop() {
	d.set++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
