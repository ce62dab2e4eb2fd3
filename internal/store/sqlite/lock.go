package sqlite

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// LockedError says that another process owns the store.
type LockedError struct {
	Path string
	PID  int // 0 where it is not known
}

// Error says who has it.
func (e *LockedError) Error() string {
	who := "another pawl"
	if e.PID > 0 {
		who = fmt.Sprintf("pawl (pid %d)", e.PID)
	}
	return fmt.Sprintf("store %s is locked by %s", e.Path, who)
}

// lockSuffix makes the name of the file that the store's one owner has locked.
// SQLite's own locks would let two processes write in turn, each with its own
// memory of what stands in the file.
const lockSuffix = ".lock"

// lockStore takes the lock of the database file. Another owner is a
// *LockedError. The lock file holds the owner's pid, for the message to the
// second one. It stays after the unlock: removing it would let two later owners
// lock different files of one name.
func lockStore(path string) (*flock.Flock, error) {
	name := path + lockSuffix
	lock := flock.New(name, flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if !got {
		return nil, &LockedError{path, readPID(name)}
	}
	// The lock holds without the pid, on a full disk too.
	_ = os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return lock, nil
}

func readPID(name string) int {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
