package sqlite

import (
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// No statement of the writer is prepared a second time, not by the library
// either: that costs more than the statement.
func TestNothingIsPreparedAnew(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	round := func(i int) {
		jobs := []store.NewJob{newJob("q"), newJob("q"), newJob("q"), newJob("q"), newJob("q"), newJob("later")}
		for k := range jobs {
			jobs[k].Key = fmt.Sprintf("%d/%d", i, k)
		}
		jobs[5].Delay = time.Hour
		put(t, s, jobs...)
		put(t, s, jobs[0])
		leases := take(t, s, "q", 1+i%4)
		for k, l := range leases {
			say(t, s,
				store.Report{Type: store.Start, Lease: l.Lease}, store.Report{Type: store.Heartbeat, Lease: l.Lease},
				store.Report{Type: store.AddLog, Lease: l.Lease, Lines: []job.LogLine{{Seq: int64(i), Message: "m"}}},
				[]store.Report{
					{Type: store.Complete, Lease: l.Lease, Result: []byte("1")},
					{Type: store.Fail, Lease: l.Lease, Error: &job.Error{Message: "m"}},
					{Type: store.Release, Lease: l.Lease},
				}[k%3])
		}
		relay := want("q", 2, 0)
		relay.Worker = store.RelayWorker + "in"
		for _, c := range claimNow(t, s, relay).Jobs {
			say(t, s, store.Report{Type: store.Release, Lease: c.Lease})
		}
		take(t, s, "q", 2)
		h.step(time.Minute)
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		round(i)
	}
	again, sorts := figures(t, s, sqlite3.SQLITE_STMTSTATUS_REPREPARE), figures(t, s, sqlite3.SQLITE_STMTSTATUS_SORT)
	ran := 0
	for text, n := range figures(t, s, sqlite3.SQLITE_STMTSTATUS_RUN) {
		ran += n
		if again[text] > 0 || sorts[text] > 0 {
			t.Errorf("prepared anew %d times, sorted %d times: %s", again[text], sorts[text], text)
		}
	}
	if ran < 40*20 {
		t.Errorf("statements ran %d times: the counts are not the library's", ran)
	}
	if n := len(again); n > maxStatements {
		t.Errorf("%d statements are kept: is one made up by its values?", n)
	}
}

// figures is what the library counts of each of the writer's statements.
func figures(t *testing.T, s *Store, what int32) map[string]int {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	found := map[string]int{}
	err := s.writer.submit(t.Context(), 0, func(x *tx) error {
		for text, st := range x.w.conn.stmts {
			p := uintptr(reflect.ValueOf(st.raw).Elem().FieldByName("pstmt").Uint())
			if p == 0 {
				return fmt.Errorf("%s is more than one statement", text)
			}
			found[text] = int(sqlite3.Xsqlite3_stmt_status(tls, p, what, 0))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// vmSteps is how many steps of the library's machine the writer's statements took:
// a scan of rows, or of an index, is some of them a row.
func vmSteps(t *testing.T, s *Store) (n int) {
	t.Helper()
	for _, of := range figures(t, s, sqlite3.SQLITE_STMTSTATUS_VM_STEP) {
		n += of
	}
	return n
}

// What a job costs does not depend on what else stands in the store. Counted in
// steps of the library's machine, which see a scan of rows and of indexes. A
// hundredth of the backlogs does for that; PAWL_LONG=1 takes them whole.
func TestWorkBesideABacklog(t *testing.T) {
	share := 100
	if os.Getenv("PAWL_LONG") == "1" {
		share = 1
	}
	steps := map[string]int{}
	for _, at := range backlogs {
		s := testStore(t, Options{})
		if at.jobs > 0 {
			pile(t, s, "other", max(at.lanes/share, 1), at.jobs/share)
			pile(t, s, "q", 1, at.jobs/share) // the lane is another one's, as its endpoint is
		}
		for _, g := range []lane.Gate{{Kind: lane.QueueGate, Name: "other"}, {Kind: lane.EndpointGate, Name: "e0"}} {
			if err := s.Pause(t.Context(), g, "me"); err != nil {
				t.Fatal(err)
			}
		}
		w := want("q", 1, 0)
		w.Queues = append(w.Queues, store.QueueLease{Queue: "other", Lease: time.Second})
		count := func() int { return vmSteps(t, s) }
		cycle := func() {
			put(t, s, newJob("q"))
			c := claimNow(t, s, w)
			if c.err != nil || len(c.Jobs) != 1 || c.Jobs[0].Job.Endpoint != "" {
				t.Fatalf("%s: claimed %+v", at.name, c)
			}
			say(t, s, store.Report{Type: store.Complete, Lease: c.Jobs[0].Lease})
		}
		cycle() // the lane and the policy are made
		before := count()
		for range 10 {
			cycle()
		}
		steps[at.name] = count() - before
	}
	for name, n := range steps {
		if empty := steps["empty"]; n > empty+empty/10 {
			t.Errorf("%s: %d steps, empty: %d", name, n, empty)
		}
	}
	if steps["empty"] < 500 {
		t.Errorf("%d steps: the counts are not the library's", steps["empty"])
	}
}

// maxStatements is about how many the writer has.
const maxStatements = 60
