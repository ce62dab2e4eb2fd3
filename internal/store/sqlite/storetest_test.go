package sqlite_test

// The suite of the contract, on SQLite with a file layer that faults are injected
// into.

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
	"github.com/pawlhq/pawl/internal/store/sqlite/faultvfs"
	"github.com/pawlhq/pawl/internal/store/storetest"
)

// layers numbers the file layers, whose names must differ.
var layers atomic.Int64

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		clock := storetest.NewClock()
		path := filepath.Join(t.TempDir(), "pawl.db")
		faults := faultvfs.New(fmt.Sprint("storetest-", layers.Add(1)))
		t.Cleanup(faults.Close)
		open := func(t *testing.T, o sqlite.Options) store.Store {
			t.Helper()
			o.Wall, o.Mono, o.Rand = clock.Wall, clock.Mono, storetest.Half
			s, err := sqlite.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		return storetest.Harness{
			Clock:      clock,
			Open:       func(t *testing.T) store.Store { return open(t, sqlite.Options{Path: path, VFS: faults.Name()}) },
			OpenBackup: func(t *testing.T, file string) store.Store { return open(t, sqlite.Options{Path: file}) },
			Inject: func(f storetest.Fault) func() {
				faults.Arm(map[storetest.Fault]faultvfs.Fault{
					storetest.FailedWrite: {Op: faultvfs.Write, On: faultvfs.WAL},
					storetest.FailedSync:  {Op: faultvfs.Sync, On: faultvfs.WAL},
					storetest.FullDisk:    {Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full},
					storetest.Busy:        {Op: faultvfs.Lock, Code: faultvfs.Busy, Times: 3},
					storetest.LostAnswer:  {Op: faultvfs.Sync, On: faultvfs.WAL, When: faultvfs.Afterwards, Times: 1},
				}[f])
				return func() {
					if faults.Hits() == 0 {
						t.Errorf("the %s did not come about", f)
					}
					faults.Clear()
				}
			},
		}
	})
}
