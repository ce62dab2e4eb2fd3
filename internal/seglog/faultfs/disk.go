// Package faultfs is a file system in memory for tests: it fails on demand, and
// it crashes, leaving what a machine that lost its power could leave. What was
// not synced may be lost, torn, or be zeros; names that no SyncDir made durable
// may be missing, the later before the earlier; and after a failed Sync the next
// one claims success for bytes that never arrive, as Linux does.
//
// Simplifications: every write appends, folders are durable when made, and
// names are slash-separated paths.
package faultfs

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/internal/seglog"
)

// Kind is what is done to a file.
type Kind string

// The kinds of operation that can be made to fail.
const (
	Open     Kind = "open"
	Create   Kind = "create" // an Open that makes the file
	Read     Kind = "read"
	Write    Kind = "write"
	Sync     Kind = "sync"
	Truncate Kind = "truncate"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	ReadDir  Kind = "readdir"
	Stat     Kind = "stat"
	SyncDir  Kind = "syncdir"
)

// Op is an operation about to happen. Bytes is the length of a write or read.
type Op struct {
	Kind  Kind
	Name  string
	Bytes int
}

// Fault is what becomes of an operation. The zero Fault lets it pass.
type Fault struct {
	// Err makes the operation fail with it.
	Err error
	// Written is how many bytes a failing write still writes.
	Written int
}

// ErrStale is what a file opened before a crash answers.
var ErrStale = errors.New("faultfs: the machine crashed since this file was opened")

// Disk is the file system. Safe for concurrent use.
type Disk struct {
	mu       sync.Mutex
	names    map[string]*inode
	durable  map[string]*inode
	journal  []func(map[string]*inode) // changes of names since the last SyncDir
	dirs     map[string]bool
	hook     func(Op) Fault
	capacity int64
	boots    int
}

type inode struct {
	data   []byte
	synced []byte
	// lost says that a sync failed: what was dirty then is never written, and
	// later syncs do not say so.
	lost bool
	mode fs.FileMode
}

// New returns an empty disk without faults.
func New() *Disk {
	return &Disk{names: map[string]*inode{}, durable: map[string]*inode{}, dirs: map[string]bool{"/": true, ".": true}}
}

// Inject makes hook decide each operation from now on; nil lets all pass. It is
// called under the disk's lock and must not use the disk.
func (d *Disk) Inject(hook func(Op) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = hook
}

// SetCapacity makes writes past that many bytes in all files short, with
// ENOSPC; 0 is no bound.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// Used returns the bytes in all files.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used()
}

func (d *Disk) used() (n int64) {
	for _, f := range d.names {
		n += int64(len(f.data))
	}
	return n
}

// Files returns the names of all files, sorted.
func (d *Disk) Files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Put makes a durable file, as if it had always been there.
func (d *Disk) Put(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &inode{data: slices.Clone(data), synced: slices.Clone(data), mode: 0o600}
	d.names[name], d.durable[name] = f, f
	for dir := path.Dir(name); !d.dirs[dir]; dir = path.Dir(dir) {
		d.dirs[dir] = true
	}
}

// Get returns what a reader sees of a file, nil where there is none.
func (d *Disk) Get(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return slices.Clone(f.data)
	}
	return nil
}

// Crash loses the power and comes back: r chooses among what could be left.
// Files opened before answer ErrStale. Faults and capacity are lifted.
func (d *Disk) Crash(r *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, change := range d.journal[:r.IntN(len(d.journal)+1)] {
		change(d.durable)
	}
	d.journal, d.hook, d.capacity = nil, nil, 0
	d.boots++
	names := map[string]*inode{}
	for _, name := range slices.Sorted(maps.Keys(d.durable)) {
		left := d.durable[name].survive(r)
		names[name] = &inode{data: left, synced: slices.Clone(left), mode: d.durable[name].mode}
	}
	d.names = names
	d.durable = map[string]*inode{}
	for name, f := range names {
		d.durable[name] = f
	}
}

// survive returns what a crash may leave of the file: what both the synced and
// the seen content share is there; behind it stands the old end, or part of the
// new one, the last bytes of it perhaps as zeros.
func (f *inode) survive(r *rand.Rand) []byte {
	shared := 0
	for shared < len(f.data) && shared < len(f.synced) && f.data[shared] == f.synced[shared] {
		shared++
	}
	if r.IntN(3) == 0 {
		return slices.Clone(f.synced)
	}
	left := slices.Clone(f.data[:shared+r.IntN(len(f.data)-shared+1)])
	if fresh := len(left) - shared; fresh > 0 && r.IntN(3) == 0 {
		clear(left[len(left)-r.IntN(fresh+1):])
	}
	return left
}

// fault asks the hook. The caller holds mu.
func (d *Disk) fault(kind Kind, name string, bytes int) Fault {
	if d.hook == nil {
		return Fault{}
	}
	f := d.hook(Op{kind, name, bytes})
	if f.Err != nil {
		f.Err = &fs.PathError{Op: string(kind), Path: name, Err: f.Err}
	}
	return f
}

// change alters the names now and, at the next SyncDir, for good.
func (d *Disk) change(do func(map[string]*inode)) {
	do(d.names)
	d.journal = append(d.journal, do)
}

// OpenFile opens or makes a file. O_TRUNC is not understood.
func (d *Disk) OpenFile(name string, flag int, mode fs.FileMode) (seglog.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	kind := Open
	if f == nil && flag&os.O_CREATE != 0 {
		kind = Create
	}
	if flt := d.fault(kind, name, 0); flt.Err != nil {
		return nil, flt.Err
	}
	switch {
	case f != nil && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EEXIST}
	case f == nil && flag&os.O_CREATE == 0, f == nil && !d.dirs[path.Dir(name)]:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	case f == nil:
		f = &inode{mode: mode}
		d.change(func(names map[string]*inode) { names[name] = f })
	}
	return &file{disk: d, inode: f, name: name, boot: d.boots}, nil
}

// MkdirAll makes folders.
func (d *Disk) MkdirAll(dir string, _ fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ; !d.dirs[dir]; dir = path.Dir(dir) {
		d.dirs[dir] = true
	}
	return nil
}

// Rename renames a file.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if flt := d.fault(Rename, from, 0); flt.Err != nil {
		return flt.Err
	}
	f := d.names[from]
	if f == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: syscall.ENOENT}
	}
	d.change(func(names map[string]*inode) {
		delete(names, from)
		names[to] = f
	})
	return nil
}

// Remove removes a file.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if flt := d.fault(Remove, name, 0); flt.Err != nil {
		return flt.Err
	}
	if d.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
	}
	d.change(func(names map[string]*inode) { delete(names, name) })
	return nil
}

// ReadDir lists the files and folders right in dir, sorted.
func (d *Disk) ReadDir(dir string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if flt := d.fault(ReadDir, dir, 0); flt.Err != nil {
		return nil, flt.Err
	}
	if !d.dirs[dir] {
		return nil, &fs.PathError{Op: "readdir", Path: dir, Err: syscall.ENOENT}
	}
	var entries []fs.DirEntry
	for name, f := range d.names {
		if path.Dir(name) == dir {
			entries = append(entries, fs.FileInfoToDirEntry(f.info(name)))
		}
	}
	for name := range d.dirs {
		if path.Dir(name) == dir && name != dir {
			entries = append(entries, fs.FileInfoToDirEntry(info{name: path.Base(name), mode: fs.ModeDir | 0o700}))
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Stat describes the file that the name leads to.
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if flt := d.fault(Stat, name, 0); flt.Err != nil {
		return nil, flt.Err
	}
	f := d.names[name]
	if f == nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: syscall.ENOENT}
	}
	return f.info(name), nil
}

// SameFile reports whether a and b are of one file.
func (d *Disk) SameFile(a, b fs.FileInfo) bool {
	x, ok1 := a.(info)
	y, ok2 := b.(info)
	return ok1 && ok2 && x.inode != nil && x.inode == y.inode
}

// SyncDir makes every change of names durable, in all folders: a journal has
// one order.
func (d *Disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if flt := d.fault(SyncDir, dir, 0); flt.Err != nil {
		return flt.Err
	}
	for _, change := range d.journal {
		change(d.durable)
	}
	d.journal = nil
	return nil
}

func (f *inode) info(name string) info {
	return info{name: path.Base(name), size: int64(len(f.data)), mode: f.mode, inode: f}
}

// info is a fs.FileInfo; times are not kept.
type info struct {
	name  string
	size  int64
	mode  fs.FileMode
	inode *inode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
