//go:build !linux && !darwin

package sqlite

import "math"

// networkFS is not to be known here: the manual says what a store stands on.
func networkFS(string) (string, error) { return "", nil }

// freeBytes is not to be known here: a full disk shows at the write.
func freeBytes(string) (int64, error) { return math.MaxInt64, nil }
