//go:build !unix

package sqlite

import "io/fs"

// links is how many names a file has; it is not to be known here.
func links(fs.FileInfo) uint64 { return 1 }
