package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// ErrParted: a part of the store is not where the rest is.
var ErrParted = errors.New("a part of the store is missing")

// resolve returns the one name of a store's file, which its lock and its WAL are
// named after: two names of one file must not be two locks. The folder is there.
func resolve(path string) (string, error) {
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("store folder: %w", err)
	}
	path = filepath.Join(folder, filepath.Base(path))
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil // it will be made
	case err != nil:
		return "", fmt.Errorf("store: %w", err)
	}
	to, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("store %s: %w: it is a symbolic link to nothing; is a disk not mounted? To begin a new store there, name the file itself", path, ErrParted)
	}
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return to, nil
}

// checkLinks refuses a file with a second name: under each name it would have
// another WAL, and another owner.
func checkLinks(info fs.FileInfo) error {
	if n := links(info); n > 1 {
		return fmt.Errorf("the file has %d names (hard links), and under another one a second pawl could open it: leave it one, "+
			"as by moving a copy to its place; find DISK -samefile FILE shows them", n)
	}
	return nil
}

// checkAlone refuses to begin a new store beside the WAL of another: SQLite would
// throw it away, and the jobs in it.
func checkAlone(path string) error {
	wal := path + "-wal"
	if n := fileSize(wal); n > 0 {
		return fmt.Errorf("%w: the database is not there, or empty, but %s (%d bytes) is, which holds the newest jobs: put the database "+
			"back beside it; or, to begin with a backup or anew, move that file away", ErrParted, wal, n)
	}
	return nil
}

// site is where the store's files are. A file that was removed or replaced is
// written to all the same, by who has it open, and gone with him: so it is looked
// for by its name before a group and after each commit. It is safe for concurrent
// use.
type site struct {
	path string
	log  *slog.Logger
	file fs.FileInfo // as it was opened
	// wal is nil until a connection has made it.
	wal atomic.Pointer[fs.FileInfo]
	// looked is when the files were looked at last, since began.
	looked atomic.Int64
	began  time.Time
	// lost is since when they are not there, in Unix milliseconds, told when that
	// was logged last; 0 for never.
	lost, told atomic.Int64
}

const (
	// placeEvery is how old an answer may be that nothing was written after.
	placeEvery = time.Second
	// placeTellEvery is how often it is logged that a file is not there.
	placeTellEvery = time.Minute
)

func newSite(path string, log *slog.Logger) (*site, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &site{path: path, log: log, file: info, began: time.Now()}, nil
}

// learnWAL takes the WAL as it is for the store's: who calls has a connection
// open that has it.
func (p *site) learnWAL() error {
	info, err := os.Stat(p.path + "-wal")
	if err != nil {
		return err
	}
	p.wal.Store(&info)
	return nil
}

// err is look, with an answer that may be a second old where it was a good one.
func (p *site) err() error {
	if p.lost.Load() == 0 && int64(time.Since(p.began))-p.looked.Load() < int64(placeEvery) {
		return nil
	}
	return p.look()
}

// look returns nil where both files are in their place.
func (p *site) look() error {
	p.looked.Store(int64(time.Since(p.began)))
	missing := p.missing()
	now := time.Now().UnixMilli()
	if missing == "" {
		if since := p.lost.Swap(0); since != 0 {
			p.told.Store(0)
			p.log.Info("the store's files are in their place again", "store", p.path, "after", (time.Duration(now-since) * time.Millisecond).String())
		}
		return nil
	}
	p.lost.CompareAndSwap(0, now)
	err := fmt.Errorf("%w: the file %s was removed or replaced while pawl has it open: move the same file back, no copy of it, and it goes on; "+
		"or stop pawl and put a backup there", store.ErrUnavailable, missing)
	if told := p.told.Load(); now-told >= placeTellEvery.Milliseconds() && p.told.CompareAndSwap(told, now) {
		p.log.Error("nothing is written to the store", "store", p.path, "error", err)
	}
	return err
}

// missing names the file that is not in its place; "" for none.
func (p *site) missing() string {
	// A name that can't be looked at for another reason is no proof, and a disk
	// that fails is found out by the write.
	gone := func(name string, as fs.FileInfo) bool {
		info, err := os.Stat(name)
		return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, as)
	}
	if gone(p.path, p.file) {
		return p.path
	}
	if wal := p.wal.Load(); wal != nil && gone(p.path+"-wal", *wal) {
		return p.path + "-wal"
	}
	return ""
}
