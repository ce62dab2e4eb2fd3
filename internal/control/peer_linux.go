package control

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// allowed returns nil if conn's other end is run by this user or by root.
func allowed(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) {
		peer, asked = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil {
		return err
	}
	if asked != nil {
		return asked
	}
	return allowedUser(int(peer.Uid), os.Geteuid())
}

// allowedUser returns nil if user may talk to a pawl of owner.
func allowedUser(user, owner int) error {
	if user == owner || user == 0 {
		return nil
	}
	return fmt.Errorf("user %d is not the owner %d", user, owner)
}
