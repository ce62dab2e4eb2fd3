//go:build !linux && !darwin

package telemetry

import "errors"

// diskSpace is not known on this system.
func diskSpace(string) (free, size uint64, err error) {
	return 0, 0, errors.ErrUnsupported
}
