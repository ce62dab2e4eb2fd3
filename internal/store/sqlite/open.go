package sqlite

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/lockfile"
)

// Store is a store in one SQLite file. It is safe for concurrent use.
type Store struct {
	options Options
	path    string // absolute, without links
	log     *slog.Logger
	lock    *lockfile.Lock

	ids       job.IDs
	tokens    job.Tokens
	cursors   cursors
	readers   *readers
	watch     *watchers
	events    *eventWatch
	space     *space
	place     *site
	wal       *walKeeper
	keys      keyCache
	snapshots snapshots
	retain    walk
	disused   disused
	schemas   atomic.Int64 // when no schema was unused; see forgetSchemas
	writer    *writer
	closed    atomic.Bool
	copies    copies
}

// NetworkError says that a store would stand on a network file system, where
// neither its lock nor its shared memory are kept as they must be.
type NetworkError struct{ Folder, Kind string }

// Error says what to do.
func (e *NetworkError) Error() string {
	return fmt.Sprintf("store folder %s is on a network file system (%s), where SQLite can lose data: "+
		"put it on a disk of this machine, or set jobs.allow_network_filesystem: true if you know that it is safe", e.Folder, e.Kind)
}

// ErrNotStore: the file is something else than a store of pawl.
var ErrNotStore = errors.New("not a pawl store")

// ErrDamaged: the file can't be read as it was written.
var ErrDamaged = errors.New("the file is damaged")

// Open opens the store, made new where the file is missing, and takes its lock.
// Errors to ask for: *LockedError, *SchemaError, *NetworkError, ErrNotStore,
// ErrDamaged, ErrParted.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	s := &Store{options: o, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("store folder: %w", err)
	}
	if s.path, err = resolve(path); err != nil {
		return nil, err
	}
	folder := filepath.Dir(s.path)
	if !o.AllowNetwork {
		kind, err := networkFS(folder)
		if err != nil {
			return nil, fmt.Errorf("store folder: %w", err)
		}
		if kind != "" {
			return nil, &NetworkError{folder, kind}
		}
	}
	if s.lock, err = lockStore(s.path); err != nil {
		if locked, ok := errors.AsType[*LockedError](err); ok {
			return nil, locked
		}
		return nil, fmt.Errorf("store %s: %w", s.path, explainPermission(folder, err))
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("store %s: %w", s.path, err), s.lock.Release())
	}
	return s, nil
}

// open opens what is below the lock.
func (s *Store) open(ctx context.Context) (err error) {
	if err := prepareFile(s.path); err != nil {
		return explainPermission(filepath.Dir(s.path), err)
	}
	if s.place, err = newSite(s.path, s.log); err != nil {
		return err
	}
	if err := s.prepareDatabase(ctx); err != nil {
		return err
	}
	if s.readers, err = openReaders(s.path, s.options.VFS, s.place); err != nil {
		return explain(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.readers.close())
		}
	}()
	if err := s.readKeys(ctx); err != nil {
		return err
	}
	s.watch, s.events = newWatchers(), newEventWatch(0)
	s.space = newSpace(s.path, s.options, s.has)
	if s.wal, err = startWAL(s); err != nil {
		return explain(err)
	}
	if s.writer, err = startWriter(ctx, s); err != nil {
		return errors.Join(err, s.wal.close())
	}
	return nil
}

// readKeys makes what the store signs with. A copy has its own salt for lease
// tokens, and the same key for all else: its ids are the original's.
func (s *Store) readKeys(ctx context.Context) error {
	key, err := s.meta(ctx, "key")
	if err != nil {
		return err
	}
	salt, err := s.meta(ctx, metaLeaseSalt)
	if err != nil {
		return err
	}
	secret, ok := key.([]byte)
	if !ok || len(secret) != 32 {
		return fmt.Errorf("%w: its key is missing; open a backup", ErrDamaged)
	}
	leases := secret
	if salt != nil { // nil: no copy, nor made of one
		salt, ok := salt.([]byte)
		if !ok || len(salt) == 0 {
			return fmt.Errorf("%w: its salt is not one; open a backup", ErrDamaged)
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("pawl lease salt 1"))
		mac.Write(salt)
		leases = mac.Sum(nil)
	}
	s.ids, s.tokens, s.cursors = job.NewIDs(secret), job.NewTokens(leases), newCursors(secret)
	return nil
}

// Close ends what waits, commits what was begun and gives the file back.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.watch.close()
	s.events.close()
	s.copies.close()
	// The writer's is the last commit; the last connection to close empties the
	// WAL into the file.
	return errors.Join(s.writer.close(), s.wal.close(), s.readers.close(), s.lock.Release())
}

// prepareFile makes the file, or looks whether what is there can be a database.
// It is done before SQLite opens it: to close a file gives up the locks that
// SQLite holds on it in the same process.
func prepareFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := checkAlone(path); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), syncFolder(filepath.Dir(path)))
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: there is a %s of that name; name a file", ErrNotStore, kindOf(info.Mode()))
	}
	if err := checkLinks(info); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	head := make([]byte, 100)
	n, err := io.ReadFull(f, head)
	err = errors.Join(f.Close(), err)
	const magic = "SQLite format 3\x00"
	switch {
	case n == 0: // made by a start that was interrupted
		return checkAlone(path)
	case n >= len(magic) && string(head[:len(magic)]) != magic, n < len(magic):
		return fmt.Errorf("%w: it is no SQLite database; move it away, or name another file", ErrNotStore)
	case err != nil:
		return fmt.Errorf("%w: its first page is cut off (%w); put a backup in its place", ErrDamaged, err)
	}
	return nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	default:
		return "device"
	}
}

// syncFolder makes the names in a folder durable.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// applicationID marks a database as pawl's: "pawl" in ASCII.
const applicationID = 0x7061776c

const sqlWhatIs = "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)"

// prepareDatabase sets what a file keeps (page size, WAL, mark) and brings it to
// this binary's schema.
func (s *Store) prepareDatabase(ctx context.Context) (err error) {
	c, err := openConn(s.path, s.options.VFS, writing)
	if err != nil {
		return explain(err)
	}
	defer func() {
		if closed := c.close(); err == nil {
			err = closed
		}
	}()
	var id, tables int64
	if _, err := c.one(sqlWhatIs, func(r *row) error {
		id, tables = r.int(0), r.int(1)
		return nil
	}); err != nil {
		return explain(err)
	}
	switch {
	case id == applicationID:
	case tables > 0 || id != 0:
		return fmt.Errorf("%w: it is a SQLite database of something else; name another file", ErrNotStore)
	default: // the page size holds from the first page on, which the mark writes
		for _, pragma := range []string{fmt.Sprintf("page_size=%d", pageSize), fmt.Sprintf("application_id=%d", applicationID)} {
			if _, err := c.exec("PRAGMA " + pragma); err != nil {
				return explain(err)
			}
		}
	}
	var mode string
	if _, err := c.one("PRAGMA journal_mode=WAL", func(r *row) error { mode = r.text(0); return nil }); err != nil {
		return explain(err)
	}
	if mode != "wal" {
		return fmt.Errorf("it can't be kept in WAL mode (it stays in %s): the file system has no shared memory", mode)
	}
	before, after, err := migrate(ctx, s.path, dsn(s.path, s.options.VFS, writing))
	if err != nil {
		return explain(err)
	}
	if before != after && before != 0 {
		s.log.Info("the store was brought to a newer schema", "store", s.path, "from", before, "to", after)
	}
	return nil
}

// minLibrary is the oldest SQLite without a known defect in what a store uses:
// before it, two connections that write and checkpoint at one moment could, very
// rarely, damage a database in WAL mode.
const minLibrary = 3_051_003

// With an older one this does not compile.
const _ uint = sqlite3.SQLITE_VERSION_NUMBER - minLibrary
