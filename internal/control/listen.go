package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// SocketName is the socket's file name in the state folder.
const SocketName = "pawl.sock"

// roomName is the folder that the socket is made in, beside its place.
const roomName = ".pawl-sock"

// probeTimeout is how long a socket that is in the way has to answer. One
// that has a listener connects at once; a full backlog is an answer too.
const probeTimeout = time.Second

// ErrInUse says that another process listens on the socket.
var ErrInUse = errors.New("another process answers on it")

// Listen opens the socket at path for this user alone, mode 0600. The folder
// must exist. The caller must hold the state folder's lock: a socket that a
// dead process left behind is replaced, and only the lock says that nobody
// else is doing the same. It is replaced only after a connection to it was
// refused; a socket with a listener is ErrInUse, and anything else at path is
// an error. The path may be longer than the 107 bytes that the system gives a
// socket's address, on Linux.
//
// Connections of other users (but root) are closed at once. Closing the
// listener removes the socket.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	return l, nil
}

func listen(path string) (*listener, error) {
	if err := vacant(path); err != nil {
		return nil, err
	}
	// The socket is made in a folder that nobody else can enter and moved to
	// its place when it has its mode: bind alone would make it with whatever
	// the umask leaves. The move also replaces a stale one in one step.
	room := filepath.Join(filepath.Dir(path), roomName)
	if err := os.RemoveAll(room); err != nil { // a killed process may have left it
		return nil, err
	}
	if err := os.Mkdir(room, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(room)
	made := filepath.Join(room, "s")
	addr, release, err := address(made)
	if err != nil {
		return nil, err
	}
	defer release()
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Name: addr, Net: "unix"})
	if err != nil {
		return nil, withoutPath(err)
	}
	unix.SetUnlinkOnClose(false) // it would remove the name that it was made by
	l := &listener{UnixListener: unix, path: path, allow: allowed}
	if err := l.settle(made); err != nil {
		unix.Close()
		return nil, err
	}
	return l, nil
}

// vacant returns nil if path is free or holds a socket that nobody listens on.
func vacant(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("something that is not a socket is in its place; move it away")
	}
	addr, release, err := address(path)
	if err != nil {
		return err
	}
	defer release()
	conn, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(context.Background(), "unix", addr)
	switch {
	case err == nil:
		conn.Close()
		return ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EAGAIN):
		return ErrInUse // its backlog is full
	}
	return fmt.Errorf("a socket is in its place and does not say whether it is in use: %w", withoutPath(err))
}

// listener is a Unix listener that knows where its socket ended up.
type listener struct {
	*net.UnixListener
	path  string
	mine  os.FileInfo
	allow func(*net.UnixConn) error
	close sync.Once
	err   error
}

// settle gives the socket made its mode and its place.
func (l *listener) settle(made string) error {
	if err := os.Chmod(made, 0o600); err != nil {
		return err
	}
	info, err := os.Lstat(made)
	if err != nil {
		return err
	}
	l.mine = info
	return os.Rename(made, l.path)
}

// Accept waits for a connection of this user or of root.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if l.allow(conn) == nil {
			return conn, nil
		}
		_ = conn.Close() // of somebody who has no business here
	}
}

// Addr returns the path that Listen was given.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close stops listening and removes the socket, unless another one is in its
// place by now. Calling it again does nothing.
func (l *listener) Close() error {
	l.close.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.mine) {
			l.err = os.Remove(l.path)
		}
		l.err = errors.Join(l.err, l.UnixListener.Close())
	})
	return l.err
}

// withoutPath drops the address from a network error: it may be the detour by
// which a long path is reached, and callers name the path themselves.
func withoutPath(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
