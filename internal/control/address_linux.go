package control

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// maxAddress is the longest address that a Unix socket may have: sun_path is
// 108 bytes with its ending zero.
const maxAddress = 107

// oPath is O_PATH, which package syscall does not name: open for naming only.
const oPath = 0x200000

// address returns a name by which path can be bound or dialled until release
// is called. A path that is too long is reached through its open folder.
func address(path string) (name string, release func(), err error) {
	if len(path) <= maxAddress {
		return path, func() {}, nil
	}
	folder, file := filepath.Split(path)
	fd, err := syscall.Open(filepath.Clean(folder), oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	name = fmt.Sprintf("/proc/self/fd/%d/%s", fd, file)
	if len(name) > maxAddress {
		syscall.Close(fd)
		return "", nil, fmt.Errorf("the file name %q is too long for a socket", file)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		syscall.Close(fd)
		return "", nil, fmt.Errorf("the path is %d bytes long, a socket takes %d where /proc is not mounted; set `state` to a shorter path", len(path), maxAddress)
	}
	return name, func() { syscall.Close(fd) }, nil
}
