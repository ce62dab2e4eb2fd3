package faultfs

import (
	"io"
	"io/fs"
	"slices"
	"syscall"
)

// file is an open file of a Disk.
type file struct {
	disk   *Disk
	inode  *inode
	name   string
	boot   int
	closed bool
}

// begin locks the disk and checks that the file can be used.
func (f *file) begin(op string) error {
	f.disk.mu.Lock()
	switch {
	case f.closed:
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	case f.boot != f.disk.boots:
		return &fs.PathError{Op: op, Path: f.name, Err: ErrStale}
	}
	return nil
}

func (f *file) Write(p []byte) (int, error) {
	err := f.begin("write")
	defer f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	flt := f.disk.fault(Write, f.name, len(p))
	n := len(p)
	if flt.Err != nil {
		n, err = min(max(flt.Written, 0), len(p)), flt.Err
	}
	if c := f.disk.capacity; c > 0 {
		if room := max(0, c-f.disk.used()); int64(n) > room {
			n, err = int(room), &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
		}
	}
	f.inode.data = append(f.inode.data, p[:n]...)
	return n, err
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	err := f.begin("read")
	defer f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if flt := f.disk.fault(Read, f.name, len(p)); flt.Err != nil {
		return 0, flt.Err
	}
	if off >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.inode.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Truncate(size int64) error {
	err := f.begin("truncate")
	defer f.disk.mu.Unlock()
	if err != nil {
		return err
	}
	if flt := f.disk.fault(Truncate, f.name, 0); flt.Err != nil {
		return flt.Err
	}
	if size < int64(len(f.inode.data)) {
		f.inode.data = slices.Clone(f.inode.data[:size])
	} else {
		f.inode.data = append(f.inode.data, make([]byte, size-int64(len(f.inode.data)))...)
	}
	return nil
}

func (f *file) Sync() error {
	err := f.begin("sync")
	defer f.disk.mu.Unlock()
	if err != nil {
		return err
	}
	if flt := f.disk.fault(Sync, f.name, 0); flt.Err != nil {
		f.inode.lost = true
		return flt.Err
	}
	if !f.inode.lost {
		// Shared memory: data only grows past its end, or is replaced.
		f.inode.synced = slices.Clip(f.inode.data)
	}
	return nil
}

func (f *file) Stat() (fs.FileInfo, error) {
	err := f.begin("stat")
	defer f.disk.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.inode.info(f.name), nil
}

func (f *file) Close() error {
	err := f.begin("close")
	defer f.disk.mu.Unlock()
	f.closed = true
	return err
}
