package ingress

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// limited is a listener that takes a connection only when there is a slot for
// it; further ones wait in the kernel's queue.
type limited struct {
	net.Listener
	slots  chan struct{}
	full   func() // told when a caller has to wait, at most once a minute
	told   atomic.Int64
	once   sync.Once
	closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	default:
		l.tell()
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotted{Conn: c, slots: l.slots}, nil
}

// tell keeps a listener that stays full from filling the log.
func (l *limited) tell() {
	now := time.Now().UnixNano()
	if last := l.told.Load(); now-last >= int64(time.Minute) && l.told.CompareAndSwap(last, now) {
		l.full()
	}
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// slotted gives its slot back when it is closed.
type slotted struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *slotted) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}
