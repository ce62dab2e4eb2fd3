package sqlite

import (
	"database/sql/driver"
	"net/url"
	"path/filepath"
	"strconv"

	"modernc.org/sqlite"
)

// driverOf opens every connection. It is not the registered one, so nothing that
// other code registers reaches the store.
var driverOf = &sqlite.Driver{}

// pageSize is what a new file is made with. With 8192 a create, claim and
// complete in groups of 64, behind 200,000 waiting jobs, wrote 3,132 bytes a job
// to the WAL instead of 2,240.
const pageSize = 4096

// role is what a connection is for.
type role string

const (
	writing       role = "writing"       // the one that writes
	reading       role = "reading"       // any number; they can't write
	checkpointing role = "checkpointing" // moves the WAL into the file
	copying       role = "copying"       // a backup's file
)

// The page caches, in KiB. The writer's holds the right edges of every table and
// the heads of many lanes; a reader fetches rows by their number.
var cacheKiB = map[role]int{writing: 32 << 10, reading: 4 << 10, checkpointing: 256, copying: 256}

// busyMillis is how long a connection waits for a lock. Locks are held by this
// process alone (see lock.go), and for microseconds: a wait that long is a
// defect, or somebody's sqlite3 shell.
const busyMillis = 5000

// dsn is the name by which a connection of a role is opened.
func dsn(path, vfs string, r role) string {
	q := url.Values{
		"mode":       {"rw"}, // never makes a file: open.go does, with its mode
		"_defensive": {"1"},
		"_dqs":       {"0"},
		"_error_rc":  {"1"},
		"_pragma": {
			"busy_timeout=" + strconv.Itoa(busyMillis),
			"trusted_schema=off",
			"foreign_keys=off",
			"mmap_size=0", // a failing disk is then an error, not a signal
			"temp_store=memory",
			"cache_size=-" + strconv.Itoa(cacheKiB[r]),
			"synchronous=full",
			"wal_autocheckpoint=0", // checkpoint.go does it, off the writer's path
		},
	}
	if vfs != "" {
		q.Set("vfs", vfs)
	}
	if r == writing { // a WAL that a long reader let grow is cut when it begins anew
		q.Add("_pragma", "journal_size_limit="+strconv.Itoa(MaxWAL))
	}
	if r == reading {
		q.Add("_pragma", "query_only=on")
	}
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + q.Encode()
}

// connect opens a connection of a role. It is used by one goroutine at a time.
func connect(path, vfs string, r role) (driver.Conn, error) {
	return driverOf.Open(dsn(path, vfs, r))
}

// openConn is connect with statements that are kept.
func openConn(path, vfs string, r role) (*conn, error) {
	raw, err := connect(path, vfs, r)
	if err != nil {
		return nil, err
	}
	return newConn(raw), nil
}
