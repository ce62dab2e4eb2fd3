package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/internal/lockfile"
)

// LockedError says that another pawl owns a folder, or the store.
type LockedError = lockfile.LockedError

const (
	// stateLock is the file in the state folder that its one owner has locked.
	stateLock = "pawl.lock"
	// lettersLock is the same for the dead letters: two state folders may name
	// one folder of dead letters, whose files have one writer.
	lettersLock = ".lock"
)

// lockFolder makes the folder (mode 0700) where it is missing and locks the file
// name in it. Another owner is a *LockedError.
func lockFolder(kind, folder, name string) (*lockfile.Lock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	lock, err := lockfile.Take(filepath.Join(folder, name), kind, folder)
	if _, locked := errors.AsType[*LockedError](err); err != nil && !locked {
		return nil, fmt.Errorf("%s %s: %w", kind, folder, err)
	}
	return lock, err
}

// State is the state folder, owned by this process until Close.
type State struct {
	folder string
	lock   *lockfile.Lock
}

// OpenState makes the folder (mode 0700) where it is missing and takes its lock.
// Another owner is a *LockedError.
func OpenState(folder string) (*State, error) {
	lock, err := lockFolder("state folder", folder, stateLock)
	if err != nil {
		return nil, err
	}
	return &State{folder, lock}, nil
}

// Path returns a path inside the folder.
func (s *State) Path(name string) string { return filepath.Join(s.folder, name) }

// Close gives the folder up.
func (s *State) Close() error { return s.lock.Release() }
