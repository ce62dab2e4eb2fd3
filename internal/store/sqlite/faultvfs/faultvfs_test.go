// These tests would catch faults that do not reach SQLite, or reach it in another
// place, at another time or with another code than was armed; and a layer that
// is not the default one where no fault is armed.
package faultvfs_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/store/sqlite/faultvfs"
)

func open(t *testing.T, f *faultvfs.Faults, path string) driver.Conn {
	t.Helper()
	c, err := (&sqlite.Driver{}).Open("file:" + path + "?vfs=" + f.Name() +
		"&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(0)&_pragma=wal_autocheckpoint(0)")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func exec(c driver.Conn, text string) error {
	s, err := c.Prepare(text)
	if err != nil {
		return err
	}
	_, err = s.(driver.StmtExecContext).ExecContext(context.Background(), nil)
	return errors.Join(err, s.Close())
}

func count(t *testing.T, c driver.Conn) int64 {
	t.Helper()
	s, err := c.Prepare("SELECT count(*) FROM t")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	row := make([]driver.Value, 1)
	if err := rows.Next(row); err != nil {
		t.Fatal(err)
	}
	return row[0].(int64)
}

func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

func TestFaults(t *testing.T) {
	const insert = "INSERT INTO t VALUES (1)"
	for _, test := range []struct {
		name  string
		fault faultvfs.Fault
		do    string // "" is the insert
		code  int
		// rows after a commit that failed, and after the next connection opened
		rows, reopened int64
	}{
		{"full disk", faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full, Times: 1}, "", sqlite3.SQLITE_FULL, 0, 0},
		{"failed write", faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Times: 1}, "", sqlite3.SQLITE_IOERR_WRITE, 0, 0},
		// The frames are in the WAL: who opens it anew finds the commit.
		{"failed sync", faultvfs.Fault{Op: faultvfs.Sync, On: faultvfs.WAL, Skip: 0, Times: 1}, "", sqlite3.SQLITE_IOERR_FSYNC, 0, 1},
		{"answer lost", faultvfs.Fault{Op: faultvfs.Sync, On: faultvfs.WAL, When: faultvfs.Afterwards, Times: 1}, "", sqlite3.SQLITE_IOERR_FSYNC, 0, 1},
		{"busy", faultvfs.Fault{Op: faultvfs.Lock, Code: faultvfs.Busy, Times: 1}, "", sqlite3.SQLITE_BUSY, 0, 0},
		{"failed checkpoint", faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.Database, Times: 1}, "PRAGMA wal_checkpoint(PASSIVE)", sqlite3.SQLITE_IOERR_WRITE, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := faultvfs.New("faultvfs-" + test.name)
			defer f.Close()
			path := filepath.Join(t.TempDir(), "t.db")
			c := open(t, f, path)
			if err := exec(c, "CREATE TABLE t (n INTEGER)"); err != nil {
				t.Fatal(err)
			}
			// The WAL's header has a sync of its own.
			if f.Seen(faultvfs.Write, faultvfs.WAL) == 0 || f.Seen(faultvfs.Sync, faultvfs.WAL) == 0 || f.Hits() != 0 {
				t.Fatalf("writes and syncs of the WAL were not seen: %d, %d", f.Seen(faultvfs.Write, faultvfs.WAL), f.Seen(faultvfs.Sync, faultvfs.WAL))
			}
			f.Arm(test.fault)
			do := test.do
			if do == "" {
				do = insert
			}
			if err := exec(c, do); code(err) != test.code {
				t.Fatalf("got %v (code %d), want code %d", err, code(err), test.code)
			}
			if f.Hits() != 1 {
				t.Fatalf("%d faults came, want 1", f.Hits())
			}
			if n := count(t, c); n != test.rows {
				t.Errorf("%d rows after it, want %d", n, test.rows)
			}
			if test.reopened > 0 { // the WAL as a crash leaves it: closing would move it into the file
				if n := afterCrash(t, path); n != test.reopened {
					t.Errorf("%d rows after a crash, want %d", n, test.reopened)
				}
			}
			if err := exec(c, insert); err != nil { // the fault is used up
				t.Errorf("the next insert: %v", err)
			}
			if n := count(t, c); n != 1 {
				t.Errorf("%d rows after the next insert, want 1", n)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSkipTimesAndClear(t *testing.T) {
	f := faultvfs.New("faultvfs-skip")
	defer f.Close()
	c := open(t, f, filepath.Join(t.TempDir(), "t.db"))
	defer c.Close()
	if err := exec(c, "CREATE TABLE t (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	f.Arm(faultvfs.Fault{Op: faultvfs.Sync, On: faultvfs.WAL, Skip: 2, Times: 2})
	want := []bool{true, true, false, false, true}
	for i, ok := range want {
		if err := exec(c, "INSERT INTO t VALUES (1)"); (err == nil) != ok {
			t.Errorf("insert %d: %v, want success %v", i, err, ok)
		}
	}
	f.Arm(faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full})
	for range 3 {
		if err := exec(c, "INSERT INTO t VALUES (1)"); code(err) != sqlite3.SQLITE_FULL {
			t.Errorf("an insert on a full disk: %v", err)
		}
	}
	f.Clear()
	if err := exec(c, "INSERT INTO t VALUES (1)"); err != nil {
		t.Errorf("an insert after Clear: %v", err)
	}
}

// afterCrash counts the rows of a copy of the files as they are.
func afterCrash(t *testing.T, path string) int64 {
	t.Helper()
	to := filepath.Join(t.TempDir(), "t.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := (&sqlite.Driver{}).Open("file:" + to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return count(t, c)
}
