// These tests catch an in-memory network that differs from TCP where pawl's
// tests lean on it: bytes lost or changed, a deadline that does not fire in
// virtual time, a close or reset that the peer does not feel, a write that
// never waits for a slow reader.
package testbed

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestBytesArriveUnchangedAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Network
		l, err := n.Listen("tcp", "example:80")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		want := bytes.Repeat([]byte("0123456789abcdef"), 3*window/16) // more than one window
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(want)
			_ = c.Close()
		}()
		c, err := n.Dial(t.Context(), "tcp", "example:80")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("read %d bytes, err %v; want %d bytes and no error", len(got), err, len(want))
		}
	})
}

func TestDeadlinesFireInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe()
		begin := time.Now()
		_ = a.SetReadDeadline(begin.Add(time.Minute))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Read: %v, want a passed deadline", err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Fatalf("Read took %v, want 1m", took)
		}
		_ = a.SetReadDeadline(time.Time{}) // works again
		_, _ = b.Write([]byte("x"))
		if n, err := a.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatalf("Read after the deadline was lifted: %d, %v", n, err)
		}
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := a.Write(make([]byte, window+1)); n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Write to a peer that does not read: %d, %v; want %d and a passed deadline", n, err, window)
		}
	})
}

func TestEndsAreFelt(t *testing.T) {
	a, b := Pipe()
	_, _ = b.Write([]byte("last"))
	_ = b.Close()
	if got, err := io.ReadAll(a); string(got) != "last" || err != nil {
		t.Errorf("after the peer closed: %q, %v", got, err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write to a closed peer: %v, want EPIPE", err)
	}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read of a closed end: %v, want net.ErrClosed", err)
	}
	a, b = Pipe()
	b.Reset()
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read after a reset: %v, want ECONNRESET", err)
	}
}

func TestAddresses(t *testing.T) {
	var n Network
	if _, err := n.Dial(t.Context(), "tcp", "nobody:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial of nobody: %v, want ECONNREFUSED", err)
	}
	l, err := n.Listen("tcp", "a:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if _, err := n.Listen("tcp", addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second Listen: %v, want EADDRINUSE", err)
	}
	waiting, err := n.Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection nobody accepted: %v, want ECONNRESET", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v, want net.ErrClosed", err)
	}
	if l, err = n.Listen("tcp", addr); err != nil {
		t.Errorf("the address was not freed: %v", err)
	} else {
		_ = l.Close()
	}
}
