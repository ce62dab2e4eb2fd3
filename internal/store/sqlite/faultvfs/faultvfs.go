// Package faultvfs is a file layer of SQLite for tests: the default one, with
// operations that fail on demand. What is above it is real: SQLite's pager, its
// WAL, its locks.
//
//	faults := faultvfs.New("full-disk")
//	defer faults.Close()
//	store, err := sqlite.Open(ctx, sqlite.Options{Path: path, VFS: faults.Name()})
//	faults.Arm(faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full})
//
// A fault that comes Afterwards happens although its answer is an error: a commit
// whose answer is lost.
package faultvfs

import (
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Op is what is done to a file.
type Op string

// The operations that can fail.
const (
	Open     Op = "open"
	Read     Op = "read"
	Write    Op = "write"
	Sync     Op = "sync"
	Truncate Op = "truncate"
	// Lock is the lock that a transaction takes to write; of the WAL in WAL
	// mode. SQLite waits out a Busy one as long as its busy timeout.
	Lock Op = "lock"
)

// File is a kind of file.
type File string

// The kinds of file.
const (
	AnyFile  File = ""
	Database File = "database"
	WAL      File = "wal"
	Journal  File = "journal" // and temporary files
)

// Code is SQLite's answer to an operation that failed.
type Code int32

// The answers. IOError is the one of the operation's kind.
const (
	IOError Code = 0
	Full    Code = sqlite3.SQLITE_FULL
	Busy    Code = sqlite3.SQLITE_BUSY
)

// When a fault comes.
type When int

// The times of a fault.
const (
	Instead    When = iota // nothing is done
	Afterwards             // it is done, and answered as if it were not
)

// Fault makes operations fail.
type Fault struct {
	Op   Op
	On   File
	Code Code
	When When
	// Skip is how many operations pass first, Times how many fail then; 0 is
	// every one until Clear.
	Skip, Times int
}

// Faults is a file layer. It is safe for concurrent use.
type Faults struct {
	name string
	vfs  uintptr // a copy of the default layer's
	base uintptr

	mu    sync.Mutex
	armed []*Fault
	seen  map[Op]map[File]int
	hits  int
}

// registering guards the library's list of file layers, which New reads.
var registering sync.Mutex

// New registers a file layer under a name that no other has.
func New(name string) *Faults {
	registering.Lock()
	defer registering.Unlock()
	tls := libc.NewTLS()
	defer tls.Close()
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if base == 0 {
		panic("faultvfs: SQLite has no default file layer")
	}
	zName, err := libc.CString(name)
	if err != nil {
		panic(fmt.Sprintf("faultvfs: %v", err))
	}
	if sqlite3.Xsqlite3_vfs_find(tls, zName) != 0 {
		panic("faultvfs: " + name + " is there already")
	}
	// SQLite keeps the address: it is C's memory, not Go's.
	vfs := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	f := &Faults{name: name, vfs: vfs, base: base, seen: make(map[Op]map[File]int)}
	*layer(vfs) = *layer(base)
	layer(vfs).FzName = zName
	layer(vfs).FpNext = 0
	layer(vfs).FxOpen = address(open)
	layers.Store(vfs, f)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, vfs, 0); rc != sqlite3.SQLITE_OK {
		panic(fmt.Sprintf("faultvfs: SQLite does not take a file layer: code %d", rc))
	}
	return f
}

// Name is what a connection is opened with.
func (f *Faults) Name() string { return f.name }

// Close unregisters the layer. Every connection on it is closed by now.
func (f *Faults) Close() {
	registering.Lock()
	defer registering.Unlock()
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_vfs_unregister(tls, f.vfs)
	layers.Delete(f.vfs)
	libc.Xfree(tls, layer(f.vfs).FzName)
	libc.Xfree(tls, f.vfs)
}

// Arm adds faults to those that are armed.
func (f *Faults) Arm(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range faults {
		f.armed = append(f.armed, &fault)
	}
}

// Clear takes every fault away.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = nil
}

// Seen is how many operations of a kind there were, failed ones too.
func (f *Faults) Seen(op Op, on File) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if on != AnyFile {
		return f.seen[op][on]
	}
	all := 0
	for _, n := range f.seen[op] {
		all += n
	}
	return all
}

// Hits is how many operations were made to fail.
func (f *Faults) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// fault returns what becomes of an operation; nil lets it pass.
func (f *Faults) fault(op Op, on File) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[op] == nil {
		f.seen[op] = make(map[File]int)
	}
	f.seen[op][on]++
	var found *Fault
	for i := 0; i < len(f.armed); i++ {
		a := f.armed[i]
		if a.Op != op || a.On != AnyFile && a.On != on {
			continue
		}
		if a.Skip > 0 {
			a.Skip--
			continue
		}
		if found != nil {
			continue
		}
		found = a
		f.hits++
		if a.Times > 0 {
			if a.Times--; a.Times == 0 {
				f.armed = append(f.armed[:i:i], f.armed[i+1:]...)
				i--
			}
		}
	}
	return found
}
