//go:build !linux

package control

import "fmt"

// maxAddress is the longest address that a Unix socket may have on the
// smallest of the other systems: 104 bytes with the ending zero.
const maxAddress = 103

// address returns a name by which path can be bound or dialled until release
// is called.
func address(path string) (name string, release func(), err error) {
	if len(path) > maxAddress {
		return "", nil, fmt.Errorf("the path is %d bytes long and this system takes %d for a socket; set `state` to a shorter path", len(path), maxAddress)
	}
	return path, func() {}, nil
}
