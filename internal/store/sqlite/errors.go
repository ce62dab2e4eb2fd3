package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/store"
)

// resultCode is SQLite's primary result code of an error; 0 for none.
func resultCode(err error) int {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return 0
	}
	return e.Code() & 0xff
}

// explain makes one of the store's errors of what SQLite says. Others stay.
func explain(err error) error {
	switch resultCode(err) {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%w: %w: put a backup in its place and keep the damaged file with its -wal", ErrDamaged, err)
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w: move it away, or name another file", ErrNotStore, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return fmt.Errorf("%w: another program has the file locked (a sqlite3 shell, a backup tool): %w", store.ErrUnavailable, err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// explainPermission adds what to do where the folder can't be written.
func explainPermission(folder string, err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: folder %s is on a read-only file system: mount it writable, or name another place", err, folder)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: the user that pawl runs as must own the folder %s and the file", err, folder)
	}
	return err
}
