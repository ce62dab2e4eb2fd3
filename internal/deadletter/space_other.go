//go:build !linux && !darwin

package deadletter

import "math"

// freeBytes knows nothing here: the result of the last write must do.
func freeBytes(string) (uint64, error) { return math.MaxUint64, nil }
