package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// LockedError says that another pawl owns a folder, or the store.
type LockedError struct {
	Kind   string // what it is: "state folder"
	Folder string // or the store's file
	PID    int    // 0 where it is not known
}

// Error says who has it.
func (e *LockedError) Error() string {
	who := "another pawl"
	if e.PID > 0 {
		who = fmt.Sprintf("pawl (pid %d)", e.PID)
	}
	return fmt.Sprintf("%s %s is locked by %s", e.Kind, e.Folder, who)
}

const (
	// stateLock is the file in the state folder that its one owner has locked.
	stateLock = "pawl.lock"
	// lettersLock is the same for the dead letters: two state folders may name
	// one folder of dead letters, whose files have one writer.
	lettersLock = ".lock"
)

// lockFolder makes the folder (mode 0700) where it is missing and locks the file
// name in it. Another owner is a *LockedError. The file holds the owner's pid,
// for the message to the second one. It stays after the unlock: removing it
// would let two later owners lock different files of one name.
func lockFolder(kind, folder, name string) (*flock.Flock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	path := filepath.Join(folder, name)
	lock := flock.New(path, flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("%s %s: lock: %w", kind, folder, err)
	}
	if !got {
		return nil, &LockedError{kind, folder, readPID(path)}
	}
	// The lock holds without the pid, on a full disk too.
	_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return lock, nil
}

// State is the state folder, owned by this process until Close.
type State struct {
	folder string
	lock   *flock.Flock
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

// Close gives the folder up.
func (s *State) Close() error { return s.lock.Unlock() }
