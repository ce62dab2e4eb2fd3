package control

import (
	"net"
	"path/filepath"
	"testing"
)

func TestAllowedUser(t *testing.T) {
	for _, tt := range []struct {
		user, owner int
		ok          bool
	}{
		{1000, 1000, true}, {0, 1000, true}, {0, 0, true}, {1000, 0, false}, {1001, 1000, false}, {-1, 1000, false},
	} {
		if err := allowedUser(tt.user, tt.owner); (err == nil) != tt.ok {
			t.Errorf("user %d at a pawl of %d: %v", tt.user, tt.owner, err)
		}
	}
}

func TestAllowedAsksTheKernel(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	if err := allowed(far); err != nil {
		t.Errorf("this user is not let in: %v", err)
	}
	far.Close()
	if err := allowed(far); err == nil {
		t.Error("a connection that can't be asked is let in")
	}
}
