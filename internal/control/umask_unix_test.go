//go:build unix

package control

import (
	"syscall"
	"testing"
)

// openUmask takes every restriction off files made during the test.
func openUmask(t *testing.T) {
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })
}
