//go:build !linux

package control

import "net"

// allowed trusts the socket's mode, which lets in this user and root.
func allowed(*net.UnixConn) error { return nil }
