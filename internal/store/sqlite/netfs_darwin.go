package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// networkFS names the network file system that a folder is on; "" for a local
// one. The system itself tells them apart.
func networkFS(folder string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return "", fmt.Errorf("statfs %s: %w", folder, err)
	}
	if uint64(fs.Flags)&unix.MNT_LOCAL == 0 { //nolint:gosec // flags
		return unix.ByteSliceToString(fs.Fstypename[:]), nil
	}
	return "", nil
}

// freeBytes is how many bytes a user without privileges can still write on the
// disk of a folder.
func freeBytes(folder string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", folder, err)
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:gosec // no disk passes 63 bits
}
