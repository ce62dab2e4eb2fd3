package ingress

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// limited is a listener that hands a connection on only when there is a slot
// for it. One that has none is held, unread, and stands for its address;
// those behind it wait in the kernel's queue. The slot is taken after the
// connection came, never before: a listener that nobody calls keeps no slot
// from the others.
type limited struct {
	net.Listener
	slots  chan struct{}
	full   func() // told when a caller has to wait, at most once a minute
	told   atomic.Int64
	once   sync.Once
	closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
	default:
		l.tell()
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			_ = c.Close()
			return nil, net.ErrClosed
		}
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
