package seglog

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// FS is what a Log needs of a file system. OS is the real one; faultfs has one
// in memory that fails and crashes on demand.
type FS interface {
	// OpenFile opens name with the flags and mode of os.OpenFile.
	OpenFile(name string, flag int, mode fs.FileMode) (File, error)
	// MkdirAll makes a folder and its parents.
	MkdirAll(dir string, mode fs.FileMode) error
	Rename(from, to string) error
	Remove(name string) error
	ReadDir(dir string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// SameFile reports whether two results of Stat are of one file.
	SameFile(a, b fs.FileInfo) bool
	// SyncDir makes the entries of a folder durable.
	SyncDir(dir string) error
}

// File is an open file.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync makes what was written durable.
	Sync() error
}

// OS is the file system of the machine.
type OS struct{}

// OpenFile is os.OpenFile for regular files. Anything else is an error at once:
// a named pipe would wait for whoever reads it.
func (OS) OpenFile(name string, flag int, mode fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, err // not a nil *os.File in a File
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is no regular file")}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// MkdirAll is os.MkdirAll.
func (OS) MkdirAll(dir string, mode fs.FileMode) error { return os.MkdirAll(dir, mode) }

// Rename is os.Rename.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is os.Remove.
func (OS) Remove(name string) error { return os.Remove(name) }

// ReadDir is os.ReadDir.
func (OS) ReadDir(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }

// Stat is os.Stat.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// SameFile is os.SameFile.
func (OS) SameFile(a, b fs.FileInfo) bool { return os.SameFile(a, b) }

// SyncDir opens the folder and syncs it.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
