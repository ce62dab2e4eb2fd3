//go:build linux || darwin

package telemetry

import "syscall"

// diskSpace returns the bytes that an ordinary user may still write where
// folder is, and the size of that file system.
func diskSpace(folder string) (free, size uint64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, 0, err
	}
	block := uint64(fs.Bsize)
	return fs.Bavail * block, fs.Blocks * block, nil
}
