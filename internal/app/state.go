package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// LockedError says that another pawl owns the state folder.
type LockedError struct {
	Folder string
	PID    int // 0 where it is not known
}

// Error says who has it.
func (e *LockedError) Error() string {
	who := "another pawl"
	if e.PID > 0 {
		who = fmt.Sprintf("pawl (pid %d)", e.PID)
	}
	return fmt.Sprintf("state folder %s is locked by %s", e.Folder, who)
}

// lockFile is the file in the state folder that its one owner has locked. It
// holds the owner's pid, for the message to the second one.
const lockFile = "pawl.lock"

// State is the state folder, owned by this process until Close.
type State struct {
	folder string
	lock   *flock.Flock
}

// OpenState makes the folder (mode 0700) where it is missing and takes its lock.
// Another owner is a *LockedError.
func OpenState(folder string) (*State, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	path := filepath.Join(folder, lockFile)
	lock := flock.New(path, flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("state folder %s: lock: %w", folder, err)
	}
	if !got {
		return nil, &LockedError{folder, readPID(path)}
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("state folder %s: %w", folder, err), lock.Unlock())
	}
	return &State{folder, lock}, nil
}

func readPID(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// Path returns a path inside the folder.
func (s *State) Path(name string) string { return filepath.Join(s.folder, name) }

// Close gives the folder up. The lock file stays: removing it would let two
// later owners lock different files of one name.
func (s *State) Close() error { return s.lock.Unlock() }
