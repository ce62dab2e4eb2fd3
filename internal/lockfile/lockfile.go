// Package lockfile gives a folder or a file one owner among processes.
package lockfile

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// LockedError says that another process owns a thing.
type LockedError struct {
	Kind string // what it is: "state folder"
	Path string // where it is
	PID  int    // the owner's; 0 where it is not known
}

// Error says who has it.
func (e *LockedError) Error() string {
	who := "another pawl"
	if e.PID > 0 {
		who = fmt.Sprintf("pawl (pid %d)", e.PID)
	}
	return fmt.Sprintf("%s %s is locked by %s", e.Kind, e.Path, who)
}

// Lock is held until Release, or until the process ends however it does.
type Lock struct{ file *flock.Flock }

// Take locks the file, which it makes (mode 0600) where it is missing, and so the
// thing at path of which kind tells. Another owner, this process too, is a
// *LockedError. The file holds the owner's pid, for the message to the second one.
func Take(file, kind, path string) (*Lock, error) {
	lock := flock.New(file, flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if !got {
		return nil, &LockedError{kind, path, readPID(file)}
	}
	// The lock holds without the pid, on a full disk too.
	_ = os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return &Lock{lock}, nil
}

// Release gives the thing up. The file stays: removing it would let two later
// owners lock different files of one name.
func (l *Lock) Release() error { return l.file.Unlock() }

func readPID(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
