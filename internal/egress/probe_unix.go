//go:build unix

package egress

import (
	"errors"
	"net"
	"syscall"
)

// probe looks at an idle socket without taking anything from it.
type probe struct {
	raw syscall.RawConn // nil for a connection that is no socket
}

func newProbe(c net.Conn) probe {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return probe{}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return probe{}
	}
	return probe{raw: raw}
}

// quiet reports whether the connection is open and nothing has come: an end,
// an error and bytes that nobody asked for all speak against using it again.
// What is no socket is taken to be quiet.
func (p probe) quiet() bool {
	if p.raw == nil {
		return true
	}
	quiet := false
	err := p.raw.Control(func(fd uintptr) {
		var one [1]byte
		// Go's sockets do not block.
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		for errors.Is(err, syscall.EINTR) {
			_, _, err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		}
		quiet = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && quiet
}
