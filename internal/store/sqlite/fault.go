package sqlite

import (
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/store"
)

// fault says whose a failure is.
type fault int

const (
	// faultOfOperation: a constraint, a size, a defect. Others of its group can
	// be done, so each runs alone.
	faultOfOperation fault = iota
	// faultOfSpace: the disk is full. What needs less may still be done.
	faultOfSpace
	// faultOfDatabase: the file can't be written, or not read. None can be done.
	faultOfDatabase
)

func faultOf(err error) fault {
	switch resultCode(err) {
	case sqlite3.SQLITE_FULL:
		return faultOfSpace
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return faultOfDatabase
	default:
		return faultOfOperation
	}
}

// lacksCommitFrame reports whether a commit that failed can't come back after a
// crash: there was no room for its frames, of which the last makes it a commit.
func lacksCommitFrame(err error) bool { return resultCode(err) == sqlite3.SQLITE_FULL }

// storeError makes one of the store's errors of a statement's.
func storeError(err error) error {
	explained := explain(err)
	if faultOf(err) == faultOfDatabase && !errors.Is(explained, store.ErrUnavailable) {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, explained)
	}
	return explained
}
