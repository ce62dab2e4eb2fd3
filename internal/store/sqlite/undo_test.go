package sqlite

// What these tests would catch: memory that a transaction which was undone left
// behind, and that is taken for what is in the file.

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite/faultvfs"
)

// A claim that waits is served from two lanes, and reading for the second one fails
// once: nobody may have a lease that was rolled back, since the next who gets the
// job has one of the same name.
func TestALeaseThatWasUndoneIsNobodys(t *testing.T) {
	hit := false
	for skip := range 14 {
		t.Run(fmt.Sprint("read ", skip), func(t *testing.T) {
			f := faultvfs.New(t.Name())
			t.Cleanup(f.Close)
			path := filepath.Join(t.TempDir(), "pawl.db")
			s, err := Open(t.Context(), Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			var jobs []store.NewJob
			for i := range 300 { // of so many policies that those of the two lanes lie on two pages
				j := newJob("q")
				if i >= 150 {
					j.Task = "other"
				}
				j.Policy.Initial, j.Policy.From.Initial = time.Duration(i+1)*time.Second, job.LevelJob
				jobs = append(jobs, j)
			}
			put(t, s, jobs...)
			gate := lane.Gate{Kind: lane.QueueGate, Name: "q"}
			if err := s.Pause(t.Context(), gate, "ops"); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = testStore(t, Options{Path: path, VFS: f.Name()})
			w := want("q", 17, time.Second)
			w.Worker = "worker-parked"
			waits := park(t, s, t.Context(), w)
			f.Arm(faultvfs.Fault{Op: faultvfs.Read, On: faultvfs.Database, Skip: skip, Times: 1})
			failed := s.Resume(t.Context(), gate, "ops")
			hit = hit || f.Hits() > 0
			f.Clear()
			if failed != nil {
				if err := s.Resume(t.Context(), gate, "ops"); err != nil {
					t.Fatal(err)
				}
			}
			given := map[string]bool{}
			for _, j := range (<-waits).Jobs {
				given[j.Lease] = true
			}
			w = want("q", 300, 0)
			w.Worker = "worker-other"
			for _, j := range claimNow(t, s, w).Jobs {
				if given[j.Lease] {
					t.Fatalf("the lease %s is two workers'", j.Lease)
				}
			}
		})
	}
	if !hit {
		t.Error("no read failed")
	}
}

// The newest event is one that is in the file: who begins behind one that never came
// would miss the one that gets its id.
func TestAnEventThatWasUndoneIsNotTheLast(t *testing.T) {
	f := faultvfs.New(t.Name())
	t.Cleanup(f.Close)
	s := testStore(t, Options{VFS: f.Name()})
	id := put(t, s, newJob("q"))[0]
	f.Arm(faultvfs.Fault{Op: faultvfs.Write, On: faultvfs.WAL, Code: faultvfs.Full})
	if _, err := s.Cancel(t.Context(), id, "ops"); err == nil {
		t.Fatal("a full disk took it")
	}
	f.Clear()
	last, err := s.LastEvent(t.Context())
	if err != nil || last != 0 {
		t.Errorf("the last event is %d, %v", last, err)
	}
	again := crashed(t, s)
	if _, err := again.Cancel(t.Context(), id, "ops"); err != nil {
		t.Fatal(err)
	}
	read, err := again.Events(t.Context(), store.EventFilter{}, last, 10)
	if err != nil || len(read.Events) != 1 || read.Gone {
		t.Errorf("who began behind it gets %+v, %v", read, err)
	}
}

// A key is good for nothing once somebody revoked it, also where the file went away
// under the commit and nobody knew whether it was written.
func TestAKeyWhoseRevocationIsNotKnown(t *testing.T) {
	s := testStore(t, Options{})
	k := store.Key{ID: "key_1", Name: "k", Hash: [32]byte{1}, Scopes: []store.Scope{store.ScopeAdmin}, CreatedAt: time.Now()}
	if err := s.AddKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if _, err := s.KeyByHash(t.Context(), k.Hash); err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(filepath.Dir(s.path), "away")
	release := hold(t, s)
	done := make(chan error)
	go func() { done <- s.RevokeKey(t.Context(), "k") }()
	until(t, func() bool { return len(s.writer.queue) == 1 })
	if err := os.Rename(s.path, away); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-done; err == nil {
		t.Error("a commit into a file that is away is known")
	}
	if err := os.Rename(away, s.path); err != nil {
		t.Fatal(err)
	}
	if used, err := s.KeyByHash(t.Context(), k.Hash); err != nil || used.Revoked.IsZero() {
		t.Errorf("it is good for something: %+v, %v", used, err)
	}
}
