// These tests would catch a newer file that an older binary opens, a migration
// that is half done after a fault, and a file of an earlier schema that this
// binary can't read.
package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite/faultvfs"
)

func TestNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	makeStore(t, path)
	c, err := openConn(path, "", writing)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (7, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Path: path})
	newer, ok := errors.AsType[*SchemaError](err)
	if !ok || newer.Has != 7 || newer.Knows != newestSchema(t) {
		t.Fatalf("%v, want a SchemaError of 7", err)
	}
	for _, says := range []string{path, "newer pawl", "schema 7", fmt.Sprintf("1 to %d", newestSchema(t))} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q does not say %q", err, says)
		}
	}
}

// newestSchema is the number of the last migration.
func newestSchema(t *testing.T) int64 {
	t.Helper()
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(files))
}

// Whatever write or sync fails while a store is made, the next start makes it
// whole.
func TestInterruptedMigration(t *testing.T) {
	faults := faultvfs.New("migration")
	defer faults.Close()
	failed := 0
	// Not each of some 130: the migrations' library tries three seconds to make
	// its table.
	for op, step := range map[faultvfs.Op]int{faultvfs.Write: 12, faultvfs.Sync: 3} {
		for skip := 0; ; skip += step {
			path := filepath.Join(t.TempDir(), "pawl.db")
			hits := faults.Hits()
			faults.Arm(faultvfs.Fault{Op: op, Skip: skip}) // and all that follow
			s, err := Open(t.Context(), Options{Path: path, VFS: faults.Name()})
			faults.Clear()
			if err == nil {
				s.Close()
			}
			if faults.Hits() == hits {
				break
			}
			if err != nil {
				failed++
			}
			s, err = Open(t.Context(), Options{Path: path, VFS: faults.Name()})
			if err != nil {
				t.Fatalf("%s %d failed: the next start: %v", op, skip, err)
			}
			put(t, s, newJob("q"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if skip > 200 {
				t.Fatal("the faults never end")
			}
		}
	}
	if failed < 10 {
		t.Errorf("only %d starts failed: the faults came too late", failed)
	}
}

var testGate = lane.Gate{Kind: lane.EndpointGate, Name: "paused"}

// updateStores makes TestOldFiles write testdata/schema-N.db of the newest schema.
const updateStores = "PAWL_UPDATE_STORES"

// The file of each schema is what a pawl of that time wrote; it never changes.
// Whoever adds a migration runs the test with PAWL_UPDATE_STORES=1 once.
func TestOldFiles(t *testing.T) {
	newest := newestSchema(t)
	if os.Getenv(updateStores) != "" {
		writeOldFile(t, filepath.Join("testdata", fmt.Sprintf("schema-%d.db", newest)))
	}
	for schema := int64(1); schema <= newest; schema++ {
		t.Run(fmt.Sprint(schema), func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("schema-%d.db", schema)))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "pawl.db")
			writeFile(t, path, string(data))
			s := testStore(t, Options{Path: path})
			checkOldFile(t, s)
			// A migration that was edited after a file was made shows here.
			if got, want := schemaOf(t, s), schemaOf(t, testStore(t, Options{})); got != want {
				t.Errorf("brought to the newest schema it has\n%s\na new store has\n%s", got, want)
			}
		})
	}
}

func schemaOf(t *testing.T, s *Store) string {
	t.Helper()
	var b strings.Builder
	if err := s.readers.use(t.Context(), func(c *conn) error {
		return c.each("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name", func(r *row) error {
			b.WriteString(r.text(0) + "\n")
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// writeOldFile makes a store in which every table has a row.
func writeOldFile(t *testing.T, to string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	n := newJob("old")
	n.Key, n.Hash, n.Tags, n.Content.Head, n.Endpoint, n.Priority = "key", [32]byte{5}, []string{"tag"}, []byte{1}, "mailer", 3
	finish(t, s, n, succeed)
	finish(t, s, newJob("dead"), giveUp)
	put(t, s, newJob("old"))
	put(t, s, newJob("busy"))
	lease := take(t, s, "busy", 1)[0].Lease
	say(t, s, store.Report{Type: store.AddLog, Lease: lease, Lines: []job.LogLine{{Seq: 1, At: s.Now(), Level: "info", Message: "line"}}})
	for _, err := range []error{
		s.AddKey(t.Context(), testKey(1)), s.AddLetter(t.Context(), testLetter(1)),
		s.Pause(t.Context(), testGate, "somebody"), s.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, string(data))
}

func checkOldFile(t *testing.T, s *Store) {
	t.Helper()
	var statuses []string
	p, err := s.List(t.Context(), store.Filter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range p.Jobs {
		statuses = append(statuses, j.Queue+" "+string(j.Status))
	}
	if got := strings.Join(statuses, ", "); got != "busy running, old queued, dead failed, old succeeded" {
		t.Errorf("it holds %s", got)
	}
	if log, err := s.Logs(t.Context(), p.Jobs[0].ID, 1); err != nil || len(log.Lines) != 1 {
		t.Errorf("its log: %+v, %v", log, err)
	}
	n := newJob("old")
	n.Key, n.Hash = "key", [32]byte{5}
	if made, err := s.Create(t.Context(), []store.NewJob{n}); err != nil || !made[0].Found || made[0].ID != p.Jobs[3].ID {
		t.Errorf("its idempotency key: %+v, %v", made, err)
	}
	if got := take(t, s, "old", 10); len(got) != 1 {
		t.Errorf("%d of its jobs could be claimed, want 1", len(got))
	}
	if k, err := s.KeyByHash(t.Context(), testKey(1).Hash); err != nil || k.Name != testKey(1).Name {
		t.Errorf("its key: %+v, %v", k, err)
	}
	if n, err := s.CountLetters(t.Context(), store.LetterFilter{}); err != nil || n != 1 {
		t.Errorf("its letters: %d, %v", n, err)
	}
	if paused, err := s.Paused(t.Context()); err != nil || len(paused) != 1 || paused[0].Gate != testGate {
		t.Errorf("its pauses: %+v, %v", paused, err)
	}
}
