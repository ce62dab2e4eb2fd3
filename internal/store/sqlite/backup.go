package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"modernc.org/sqlite"

	"github.com/pawlhq/pawl/internal/store"
)

// backupStep is how many pages are copied between two looks at ctx: 1 MiB.
const backupStep = 256

// Backup copies the store as of now to a new file that a store can be opened on.
// An existing file is fs.ErrExist; a copy that is not whole leaves no file. The
// file holds the keys' hashes and every payload: its mode is 0600. Lease tokens of
// this store are no leases in the copy; ids and keys are good in both.
//
// It copies pages inside one read transaction, at the speed of the disk. While
// it runs the WAL grows by what is written, and can't begin anew.
func (s *Store) Backup(ctx context.Context, file string) (err error) {
	file, err = filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	ctx, done, err := s.copies.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("backup to %s: %w: name a new file", file, fs.ErrExist)
	}
	part := file + "." + rand.Text()[:8] + ".part"
	defer func() {
		for _, name := range []string{part, part + "-wal", part + "-shm"} {
			if removed := os.Remove(name); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
				err = errors.Join(err, removed)
			}
		}
	}()
	if err := makeFile(part); err != nil {
		return fmt.Errorf("backup to %s: %w", file, err)
	}
	if err := s.copyTo(ctx, part); err != nil {
		return fmt.Errorf("backup to %s: %w", file, err)
	}
	if err := saltCopy(part); err != nil {
		return fmt.Errorf("backup to %s: %w", file, err)
	}
	if err := place(part, file); err != nil {
		return fmt.Errorf("backup to %s: %w", file, err)
	}
	return nil
}

// copies are the backups that run. Close ends them and waits: none of them goes
// on, or leaves a half file, when the store is gone. They are safe for
// concurrent use.
type copies struct {
	mu     sync.Mutex
	closed bool
	cancel map[int]context.CancelCauseFunc
	last   int
	run    sync.WaitGroup
}

// begin returns a context that Close ends, and what to call at the end.
func (c *copies) begin(ctx context.Context) (context.Context, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, store.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if c.cancel == nil {
		c.cancel = make(map[int]context.CancelCauseFunc)
	}
	c.last++
	n := c.last
	c.cancel[n] = cancel
	c.run.Add(1)
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.cancel, n)
		c.run.Done()
	}, nil
}

func (c *copies) close() {
	c.mu.Lock()
	c.closed = true
	for _, cancel := range c.cancel {
		cancel(store.ErrClosed)
	}
	c.mu.Unlock()
	c.run.Wait()
}

func makeFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// copyTo copies the pages of one moment to a file that is there and empty.
func (s *Store) copyTo(ctx context.Context, part string) (err error) {
	if err := s.place.look(); err != nil { // it would copy another file
		return err
	}
	c, err := openConn(s.path, s.options.VFS, reading)
	if err != nil {
		return explain(err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	// The transaction holds the moment while the steps go on.
	if _, err := c.exec("BEGIN"); err != nil {
		return explain(err)
	}
	if _, err := c.one(sqlMeta, func(*row) error { return nil }, "key"); err != nil {
		return explain(err)
	}
	source, ok := c.raw.(interface {
		NewBackup(dst string) (*sqlite.Backup, error)
	})
	if !ok {
		return fmt.Errorf("internal: a connection of %T makes no backup", c.raw)
	}
	b, err := source.NewBackup(dsn(part, "", copying))
	if err != nil {
		return explain(err)
	}
	for more := true; more; {
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), b.Finish())
		}
		if more, err = b.Step(backupStep); err != nil {
			return errors.Join(explain(err), b.Finish())
		}
	}
	return b.Finish()
}

// metaLeaseSalt names what a copy mixes into the key of its lease tokens. A store
// that was never copied back has none.
const metaLeaseSalt = "lease_salt"

const sqlSalt = `INSERT INTO meta(name, value) VALUES (?, randomblob(32)) ON CONFLICT(name) DO UPDATE SET value=excluded.value`

// saltCopy makes the lease tokens that the original gave out worth nothing in a
// copy. One that it gave out after the copy was made names a job and an attempt
// that the copy will give to somebody else.
func saltCopy(part string) (err error) {
	c, err := openConn(part, "", copying)
	if err != nil {
		return explain(err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if _, err := c.exec(sqlSalt, metaLeaseSalt); err != nil {
		return explain(err)
	}
	// The copy is the one file: what stands in its WAL would stay behind.
	var left int64
	if _, err := c.one("PRAGMA wal_checkpoint(truncate)", func(r *row) error { left = r.int(0); return nil }); err != nil {
		return explain(err)
	}
	if left != 0 {
		return errors.New("its WAL could not be emptied")
	}
	return nil
}

// place makes a copy durable and gives it its name, which nothing may have by
// now.
func place(part, file string) error {
	f, err := os.OpenFile(part, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(part, file); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: name a new file", err)
		}
		// A file system without links: between the look and the rename somebody
		// could still make a file of the name.
		if _, err := os.Lstat(file); err == nil {
			return fmt.Errorf("%w: name a new file", fs.ErrExist)
		}
		if err := os.Rename(part, file); err != nil {
			return err
		}
	}
	return syncFolder(filepath.Dir(file))
}
