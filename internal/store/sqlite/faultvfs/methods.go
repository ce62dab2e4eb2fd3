package faultvfs

import (
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite calls the functions of this file with addresses alone, so what they
// belong to is found by address.
var (
	layers  sync.Map // of a VFS: *Faults
	files   sync.Map // of an open file: *file
	tables  sync.Map // of a methods table: the address of its copy
	tableMu sync.Mutex
)

// file is an open file.
type file struct {
	faults *Faults
	kind   File
	base   *sqlite3.Tsqlite3_io_methods // what the layer below does
}

// layer and methods are what stands at an address of C's memory, which Go's
// collector does not move.
func layer(p uintptr) *sqlite3.Tsqlite3_vfs {
	return *(**sqlite3.Tsqlite3_vfs)(unsafe.Pointer(&p))
}

func methods(p uintptr) *sqlite3.Tsqlite3_io_methods {
	return *(**sqlite3.Tsqlite3_io_methods)(unsafe.Pointer(&p))
}

func header(p uintptr) *sqlite3.Tsqlite3_file {
	return *(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&p))
}

// address is what SQLite calls a function by. Only functions that are declared
// have one that holds: a closure may be collected.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function is the inverse of address.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

type (
	openFunc    = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	closeFunc   = func(tls *libc.TLS, file uintptr) int32
	moveFunc    = func(tls *libc.TLS, file, buffer uintptr, n int32, at sqlite3.Tsqlite3_int64) int32
	lengthFunc  = func(tls *libc.TLS, file uintptr, size sqlite3.Tsqlite3_int64) int32
	flagFunc    = func(tls *libc.TLS, file uintptr, flag int32) int32
	shmLockFunc = func(tls *libc.TLS, file uintptr, from, n, flags int32) int32
)

// run does an operation, or not, as the armed faults say.
func (f *Faults) run(op Op, on File, ioError int32, do func() int32) int32 {
	fault := f.fault(op, on)
	if fault == nil {
		return do()
	}
	if fault.When == Afterwards {
		if rc := do(); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	if fault.Code == IOError {
		return ioError
	}
	return int32(fault.Code)
}

func open(tls *libc.TLS, vfs, name, p uintptr, flags int32, outFlags uintptr) int32 {
	found, _ := layers.Load(vfs)
	f := found.(*Faults)
	kind := Journal
	switch {
	case flags&sqlite3.SQLITE_OPEN_MAIN_DB != 0:
		kind = Database
	case flags&sqlite3.SQLITE_OPEN_WAL != 0:
		kind = WAL
	}
	header(p).FpMethods = 0 // SQLite closes no file without methods
	return f.run(Open, kind, sqlite3.SQLITE_CANTOPEN, func() int32 {
		rc := function[openFunc](layer(f.base).FxOpen)(tls, vfs, name, p, flags, outFlags)
		if base := header(p).FpMethods; base != 0 {
			files.Store(p, &file{f, kind, methods(base)})
			header(p).FpMethods = table(tls, base)
		}
		return rc
	})
}

// table is the copy of a methods table with the functions of this file in it.
// There is a handful of them; they stay.
func table(tls *libc.TLS, base uintptr) uintptr {
	tableMu.Lock()
	defer tableMu.Unlock()
	if t, ok := tables.Load(base); ok {
		return t.(uintptr)
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))
	*methods(p) = *methods(base)
	m := methods(p)
	m.FxClose, m.FxRead, m.FxWrite = address(closeFile), address(read), address(write)
	m.FxTruncate, m.FxSync = address(truncate), address(syncFile)
	m.FxLock = address(lock)
	if m.FiVersion >= 2 && m.FxShmLock != 0 {
		m.FxShmLock = address(shmLock)
	}
	tables.Store(base, p)
	return p
}

func of(p uintptr) *file {
	f, _ := files.Load(p)
	return f.(*file)
}

func closeFile(tls *libc.TLS, p uintptr) int32 {
	f := of(p)
	files.Delete(p)
	return function[closeFunc](f.base.FxClose)(tls, p)
}

func read(tls *libc.TLS, p, buffer uintptr, n int32, at sqlite3.Tsqlite3_int64) int32 {
	f := of(p)
	return f.faults.run(Read, f.kind, sqlite3.SQLITE_IOERR_READ, func() int32 {
		return function[moveFunc](f.base.FxRead)(tls, p, buffer, n, at)
	})
}

func write(tls *libc.TLS, p, buffer uintptr, n int32, at sqlite3.Tsqlite3_int64) int32 {
	f := of(p)
	return f.faults.run(Write, f.kind, sqlite3.SQLITE_IOERR_WRITE, func() int32 {
		return function[moveFunc](f.base.FxWrite)(tls, p, buffer, n, at)
	})
}

func truncate(tls *libc.TLS, p uintptr, size sqlite3.Tsqlite3_int64) int32 {
	f := of(p)
	return f.faults.run(Truncate, f.kind, sqlite3.SQLITE_IOERR_TRUNCATE, func() int32 {
		return function[lengthFunc](f.base.FxTruncate)(tls, p, size)
	})
}

func syncFile(tls *libc.TLS, p uintptr, flags int32) int32 {
	f := of(p)
	return f.faults.run(Sync, f.kind, sqlite3.SQLITE_IOERR_FSYNC, func() int32 {
		return function[flagFunc](f.base.FxSync)(tls, p, flags)
	})
}

func lock(tls *libc.TLS, p uintptr, level int32) int32 {
	f := of(p)
	if level < sqlite3.SQLITE_LOCK_RESERVED {
		return function[flagFunc](f.base.FxLock)(tls, p, level)
	}
	return f.faults.run(Lock, f.kind, sqlite3.SQLITE_IOERR_LOCK, func() int32 {
		return function[flagFunc](f.base.FxLock)(tls, p, level)
	})
}

// writeLock is the place in the shared memory of the lock that a writer takes.
const writeLock = 0

// shmLock lets every other lock pass, and every unlock: SQLite has no answer to
// one of those that fails.
func shmLock(tls *libc.TLS, p uintptr, from, n, flags int32) int32 {
	f := of(p)
	do := func() int32 { return function[shmLockFunc](f.base.FxShmLock)(tls, p, from, n, flags) }
	if from != writeLock || flags&sqlite3.SQLITE_SHM_UNLOCK != 0 {
		return do()
	}
	return f.faults.run(Lock, WAL, sqlite3.SQLITE_IOERR_SHMLOCK, do)
}
