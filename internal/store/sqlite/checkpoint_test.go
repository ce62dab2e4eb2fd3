// These tests would catch a WAL that grows without bounds, one that a long reader
// keeps growing without a word, checkpoints that wait or fail for good, and a
// backup that is not whole, not of one moment, readable by others, or half there.
package sqlite

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite/faultvfs"
)

// lines is a log that tests read.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// fill writes some MiB.
func fill(t *testing.T, s *Store, mib int) {
	t.Helper()
	n := newJob("q")
	n.Content.Payload = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	for range mib {
		put(t, s, n)
	}
}

// another is a connection beside the store's own.
func another(t *testing.T, s *Store, r role) *conn {
	t.Helper()
	c, err := openConn(s.path, "", r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestWALStaysBounded(t *testing.T) {
	s := testStore(t, Options{})
	// Twice the bound: the keeper moves what is there, the writer lets the WAL
	// begin anew when it is over.
	most := int64(0)
	for range 2 * MaxWAL >> 20 {
		fill(t, s, 1)
		most = max(most, s.Vitals().WALBytes)
	}
	// Between two looks of the keeper more can come.
	if most > 2*MaxWAL {
		t.Errorf("the WAL grew to %d MiB, its bound is %d", most>>20, MaxWAL>>20)
	}
	until(t, func() bool {
		put(t, s, newJob("q"))
		return s.Vitals().WALBytes <= MaxWAL
	})
	if s.Vitals().Bytes < 32<<20 {
		t.Errorf("the file has %d MiB: nothing was moved there", s.Vitals().Bytes>>20)
	}
}

// To look at the WAL moves nothing.
func TestLookMovesNothing(t *testing.T) {
	s := testStore(t, Options{})
	c := another(t, s, checkpointing)
	if _, err := c.walSize(sqlCheckpoint); err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1)
	for range 2 {
		size, err := c.walSize(sqlWALSize)
		if err != nil || size.all < 1<<20 || size.all-size.moved < 1<<20 {
			t.Errorf("%+v, %v: more than 1 MiB was written", size, err)
		}
	}
	size, err := c.walSize(sqlCheckpoint)
	if err != nil || size.moved != size.all {
		t.Errorf("after a checkpoint: %+v, %v", size, err)
	}
}

func TestLongReaderIsLogged(t *testing.T) {
	var log lines
	s := testStore(t, Options{Log: log.logger()})
	reader := another(t, s, reading)
	if _, err := reader.exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	if n := setting(t, reader, "SELECT count(*) FROM job"); n != int64(0) {
		t.Fatal(n)
	}
	fill(t, s, MaxWAL>>20+1)
	const said = "is over its bound"
	until(t, func() bool {
		put(t, s, newJob("q"))
		return log.count(said) > 0
	})
	if _, err := reader.exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		put(t, s, newJob("q"))
		return s.Vitals().WALBytes <= MaxWAL
	})
}

// It is said when the writer had its turn, and then once a minute.
func TestWarnOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		k := &walKeeper{store: &Store{log: log.logger()}}
		for i, want := range []struct {
			rest  time.Duration
			lines int
		}{{0, 0}, {walEvery, 0}, {time.Second, 1}, {walEvery, 1}, {walWarnEvery / 2, 1}, {walWarnEvery / 2, 2}} {
			time.Sleep(want.rest)
			k.warn(walSize{all: MaxWAL})
			if n := log.count("over its bound"); n != want.lines {
				t.Errorf("look %d: said %d times, want %d", i, n, want.lines)
			}
		}
	})
}

func TestComplainOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		k := &walKeeper{store: &Store{log: log.logger()}}
		for range 61 {
			k.complain(errors.New("no"))
			time.Sleep(time.Second)
		}
		if n := log.count("could not be moved"); n != 2 {
			t.Errorf("said %d times in 61 seconds, want 2", n)
		}
	})
}

// The WAL is moved long before its bound, beside the writer.
func TestKeeperMoves(t *testing.T) {
	s := testStore(t, Options{})
	fill(t, s, checkpointAt>>20+1)
	until(t, func() bool {
		put(t, s, newJob("q"))
		return s.Vitals().Bytes >= checkpointAt
	})
	if n := s.Vitals().WALBytes; n >= MaxWAL {
		t.Errorf("the WAL had to grow to %d MiB", n>>20)
	}
}

// A checkpoint that fails stops nobody, is logged, and is done when it can be.
func TestFailingCheckpoint(t *testing.T) {
	faults := faultvfs.New("checkpoint")
	defer faults.Close()
	var log lines
	s := testStore(t, Options{Log: log.logger(), VFS: faults.Name()})
	faults.Arm(faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.Database, Code: faultvfs.Full})
	fill(t, s, checkpointAt>>20+1)
	until(t, func() bool {
		put(t, s, newJob("q"))
		return log.count("could not be moved") > 0
	})
	faults.Clear()
	before := s.Vitals().Bytes
	until(t, func() bool {
		put(t, s, newJob("q"))
		return s.Vitals().Bytes > before
	})
}

func TestBackup(t *testing.T) {
	s := testStore(t, Options{})
	ids := put(t, s, newJob("q"), newJob("q"))
	dead := finish(t, s, newJob("d"), giveUp)
	if err := s.AddKey(t.Context(), testKey(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.AddLetter(t.Context(), testLetter(1)); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "copy.db")

	// Written to all the while, over many steps.
	fill(t, s, 16)
	stop, writing := make(chan struct{}), sync.WaitGroup{}
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				put(t, s, newJob("noise"))
			}
		}
	})
	err := s.Backup(t.Context(), file)
	close(stop)
	writing.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v; want mode 0600", info, err)
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 1 {
		t.Errorf("the folder holds %v, %v; want the copy alone", names, err)
	}

	c := testStore(t, Options{Path: file})
	for _, id := range append(ids, dead) {
		want, err := s.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Job(t.Context(), id); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("in the copy %s is %+v, %v\nwant %+v", id, got, err, want)
		}
	}
	if k, err := c.KeyByHash(t.Context(), testKey(1).Hash); err != nil || k.Name != testKey(1).Name {
		t.Errorf("the copy's key: %+v, %v", k, err)
	}
	if n, err := c.CountLetters(t.Context(), store.LetterFilter{}); err != nil || n != 1 {
		t.Errorf("the copy has %d letters, %v", n, err)
	}
	// Its counts belong to its rows: one moment.
	counts, err := c.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ready := int64(0)
	for _, n := range counts {
		ready += n.Ready
	}
	if rows := rowsOf(t, c, "ready"); rows != ready {
		t.Errorf("the copy has %d queued jobs and counts %d", rows, ready)
	}
	if ok := setting(t, another(t, c, reading), "PRAGMA integrity_check"); ok != "ok" {
		t.Errorf("the copy: %v", ok)
	}
	if got := take(t, c, "q", 2); len(got) != 2 {
		t.Errorf("%d jobs could be claimed in the copy, want 2", len(got))
	}
}

// between does something each time somebody asks whether it has ended.
type between struct {
	context.Context
	do func()
}

func (b between) Err() error {
	b.do()
	return b.Context.Err()
}

// A copy is of the moment it began at: what is committed between two of its steps
// is not in it, and does not make it begin anew either, which under a steady load
// would have no end.
func TestBackupIsOfOneMoment(t *testing.T) {
	s := testStore(t, Options{})
	fill(t, s, 4)
	before := rowsOf(t, s, "job")
	part := filepath.Join(t.TempDir(), "part")
	if err := makeFile(part); err != nil {
		t.Fatal(err)
	}
	steps := 0
	err := s.copyTo(between{t.Context(), func() {
		if steps++; steps <= 5 {
			put(t, s, newJob("later"))
		}
	}}, part)
	if err != nil {
		t.Fatal(err)
	}
	pages := setting(t, another(t, s, reading), "PRAGMA page_count").(int64)
	if most := int(pages/backupStep) + 1; steps < 3 || steps > most {
		t.Errorf("%d steps for %d pages, want 3 to %d", steps, pages, most)
	}
	if n := rowsOf(t, testStore(t, Options{Path: part}), "job"); n != before {
		t.Errorf("the copy has %d jobs, %d were there when it began", n, before)
	}
}

// Close ends a backup that runs, and waits for it.
func TestCloseEndsBackups(t *testing.T) {
	s := testStore(t, Options{})
	ctx, done, err := s.copies.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Close() }()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), store.ErrClosed) {
		t.Errorf("it ended for %v", context.Cause(ctx))
	}
	select {
	case <-ended:
		t.Error("Close did not wait")
	default:
	}
	done()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBackupRefusals(t *testing.T) {
	s := testStore(t, Options{})
	fill(t, s, 4)
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	writeFile(t, there, "mine")
	if err := s.Backup(t.Context(), there); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "name a new file") {
		t.Errorf("onto an existing file: %v", err)
	}
	if text, _ := os.ReadFile(there); string(text) != "mine" {
		t.Error("the existing file was changed")
	}
	if err := s.Backup(t.Context(), s.path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto the store itself: %v", err)
	}
	if err := s.Backup(t.Context(), filepath.Join(folder, "no", "such")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backup(ctx, filepath.Join(folder, "cancelled")); !errors.Is(err, context.Canceled) {
		t.Errorf("with its context ended: %v", err)
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 1 {
		t.Errorf("the folder holds %v, %v; want the existing file alone", names, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), filepath.Join(folder, "late")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}

// A moment passes between a claim of a name and its use: the copy must not take
// the place of a file that came meanwhile.
func TestPlaceOverwritesNothing(t *testing.T) {
	folder := t.TempDir()
	part, file := filepath.Join(folder, "part"), filepath.Join(folder, "file")
	writeFile(t, part, "copy")
	writeFile(t, file, "mine")
	if err := place(part, file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v, want ErrExist", err)
	}
	if text, _ := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("the file says %q", text)
	}
}
