//go:build unix

package ingress

import "syscall"

// descriptors returns how many files the process may have open, 0 where the
// system does not say. Go raises the soft limit to the hard one as it starts.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}
