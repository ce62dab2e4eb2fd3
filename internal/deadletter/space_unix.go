//go:build linux || darwin

package deadletter

import "syscall"

// freeBytes returns the bytes that an ordinary process can still write where
// the folder is.
func freeBytes(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}
