package sqlite

import "github.com/pawlhq/pawl/internal/lockfile"

// LockedError says that another process owns the store.
type LockedError = lockfile.LockedError

// lockSuffix makes the name of the file that the store's one owner has locked.
// SQLite's own locks would let two processes write in turn, each with its own
// memory of what stands in the file.
const lockSuffix = ".lock"

// lockStore takes the lock of the database file. Another owner is a
// *LockedError.
func lockStore(path string) (*lockfile.Lock, error) {
	return lockfile.Take(path+lockSuffix, "store", path)
}
