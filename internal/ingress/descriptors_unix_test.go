//go:build unix

package ingress

import (
	"syscall"
	"testing"
)

// TestTheSystemsLimitCounts lowers the limit of this process for a moment.
func TestTheSystemsLimitCounts(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	got := cap(New(Options{}).slots)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if got != 100 {
		t.Errorf("%d connections with 200 descriptors, want half", got)
	}
}
